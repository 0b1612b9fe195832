//! Walks over the groups of a queue, and counts their tasks for lists.

use rusqlite::params;

use crate::{
    broker::{GroupPage, GroupStats, GroupStep},
    task::{GroupName, QueueName},
};

use super::super::{position, row::instant, sql, tx::View};

/// How many tasks one page counts, and one group: 0.2 s of reading, of the one second that a reader may take.
pub(super) const MOST_COUNTED: u64 = 1_000_000;

/// Reads the groups that follow `after`, until they are `limit` or have `most` tasks together. A larger group is the last one of
/// its page, with the size `most`.
pub(super) fn page(
    view: &View<'_>,
    queue: &QueueName,
    after: Option<&GroupStep>,
    limit: usize,
    most: u64,
) -> rusqlite::Result<GroupPage> {
    let Some(q) = view.queue(queue)?.filter(|_| limit > 0) else { return Ok(GroupPage::default()) };
    let (mut groups, mut counted) = (Vec::new(), 0_u64);
    let next = walk(view, q, after, |name| {
        let group = stats(view, q, name, most)?;
        counted += group.size;
        groups.push(group);
        Ok(groups.len() < limit && counted < most)
    })?;
    Ok(GroupPage { groups, next })
}

/// Calls `look` with the name of each group that has waiting tasks, in the order of their bytes, from behind the position `from` and as
/// long as `look` returns `true`. Returns where to go on; `None` behind the last group. A text that is not a position begins anew.
pub(super) fn walk(
    view: &View<'_>,
    q: i64,
    from: Option<&GroupStep>,
    mut look: impl FnMut(&[u8]) -> rusqlite::Result<bool>,
) -> rusqlite::Result<Option<GroupStep>> {
    let mut name = from.and_then(|step| position::read(step.as_str())).unwrap_or_default();
    let next = |name| view.find(&sql::groups::NEXT, params![q, name], |row| Ok(row.get_ref(0)?.as_bytes()?.to_vec()));
    while let Some(found) = next(name)? {
        if !look(&found)? {
            return Ok(Some(GroupStep::from_text(position::write(&found))));
        }
        name = found;
    }
    Ok(None)
}

/// Reads one group; `None` if no task waits there.
pub(super) fn one(view: &View<'_>, queue: &QueueName, group: &GroupName) -> rusqlite::Result<Option<GroupStats>> {
    let Some(q) = view.queue(queue)? else { return Ok(None) };
    Ok(Some(stats(view, q, group.as_str().as_bytes(), MOST_COUNTED)?).filter(|stats| stats.size > 0))
}

fn stats(view: &View<'_>, q: i64, name: &[u8], most: u64) -> rusqlite::Result<GroupStats> {
    let mut statement = view.statement(&sql::groups::STATS)?;
    statement.query_row(params![q, name, most.cast_signed()], |row| {
        let group = GroupName::from_wire(&String::from_utf8_lossy(name));
        let size = row.get::<_, i64>(0)?.cast_unsigned();
        Ok(GroupStats::new(group, size, row.get::<_, Option<i64>>(1)?.map(instant)))
    })
}

#[cfg(test)]
mod tests {
    use super::{
        super::super::{connection, migrate, sql::Names},
        *,
    };

    #[test]
    fn a_page_counts_a_bounded_number_of_tasks_however_many_wait_in_its_groups() {
        let mut connection = connection::open_memory().unwrap();
        migrate::settle_in(&mut connection, false, "here", |_| Ok(())).unwrap();
        connection.execute_batch("INSERT INTO queue(q, name) VALUES (1, 'default')").unwrap();
        for (group, size) in [("a", 2), ("b", 9), ("c", 5), ("d", 1)] {
            for task in 0..size {
                let insert = "INSERT INTO task(q, state, at, id, type, grp) VALUES (1, 7, ?2, ?1 || ?2, 't', ?1)";
                connection.execute(insert, params![group, task]).unwrap();
            }
        }
        let view = View::new(&connection, Names::Plain, 0);
        let read = |after: &str, limit| {
            let after = Some(GroupStep::from_text(position::write(after.as_bytes())));
            let page = page(&view, &QueueName::from_wire("default"), after.as_ref(), limit, 6).unwrap();
            let groups = page.groups.iter().map(|stats| (stats.group.to_string(), stats.size)).collect::<Vec<_>>();
            (groups, page.next)
        };
        let seen = |groups: &[(&str, u64)], next: Option<&str>| {
            let groups = groups.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect::<Vec<_>>();
            (groups, next.map(|name| GroupStep::from_text(position::write(name.as_bytes()))))
        };
        assert_eq!(read("", 10), seen(&[("a", 2), ("b", 6)], Some("b")));
        assert_eq!(read("b", 10), seen(&[("c", 5), ("d", 1)], Some("d")));
        assert_eq!(read("b", 1), seen(&[("c", 5)], Some("c")));
        assert_eq!(read("d", 10), seen(&[], None));
        assert_eq!(read("", 0), seen(&[], None));
    }
}
