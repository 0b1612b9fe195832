//! Tasks one by one and page by page.

use rusqlite::{Params, params};

use crate::{
    broker::{Failure, TaskBrief},
    task::{GroupName, QueueName, TaskId, TaskInfo, TaskState},
};

use super::{
    super::{
        row::{instant, limit_of, task_info},
        sql::{self, Sql},
        tx::{FAILURES, View},
    },
    queues::count_of,
};

/// Bytes of messages and results after which one query reads no further task: a slow disk gives them within the time of a query.
const MOST_READ: usize = 16 << 20;

/// The first tasks of a page.
#[derive(Debug, Default)]
pub(super) struct Slice {
    pub(super) tasks: Vec<TaskBrief>,
    /// Number of rows that were read, those of messages that cannot be read included.
    pub(super) looked_at: usize,
    /// Whether the page has more, because the tasks are large.
    pub(super) is_cut_short: bool,
}

/// Returns the first of up to `size` tasks in one state, or of one group, that come after `offset` others, with at most `most` bytes of
/// each payload and result.
pub(super) fn page(
    view: &View<'_>,
    queue: &QueueName,
    state: TaskState,
    group: Option<&GroupName>,
    (size, offset): (usize, usize),
    most: Option<usize>,
) -> rusqlite::Result<Slice> {
    let Some(q) = view.queue(queue)? else { return Ok(Slice::default()) };
    let (size, offset) = (limit_of(size), limit_of(offset));
    let reader = Reader { view, queue, most };
    match (group, state) {
        (Some(group), _) => page_of_group(&reader, q, group, (size, offset)),
        (None, TaskState::Active) => reader.read(&sql::inspect::PAGE_ACTIVE, [q, size, offset]),
        (None, _) => page_of_state(&reader, q, state, (size, offset)),
    }
}

/// Reads tasks, and cuts each before the next one is read.
struct Reader<'a> {
    view: &'a View<'a>,
    queue: &'a QueueName,
    most: Option<usize>,
}

impl Reader<'_> {
    /// Reads the tasks of a statement. A message that cannot be read is left out.
    fn read(&self, sql: &Sql, params: impl Params) -> rusqlite::Result<Slice> {
        let mut statement = self.view.statement(sql)?;
        let mut rows = statement.query(params)?;
        let (mut slice, mut bytes) = (Slice::default(), 0);
        while let Some(row) = rows.next()? {
            if bytes >= MOST_READ {
                slice.is_cut_short = true;
                break;
            }
            let (task, size) = task_info(self.view, self.queue, row)?;
            bytes += size;
            slice.looked_at += 1;
            slice.tasks.extend(task.map(|task| TaskBrief::within(task, self.most)));
        }
        Ok(slice)
    }
}

/// Looks up where the page begins first, so that no message before the page is read, and the index only from the nearer end.
fn page_of_state(reader: &Reader<'_>, q: i64, state: TaskState, (size, offset): (i64, i64)) -> rusqlite::Result<Slice> {
    let (view, number) = (reader.view, state.number());
    let start = match way(offset, count_of(view, q, state)?) {
        Way::First => FIRST,
        Way::Forward(before) => view.find(&sql::inspect::PAGE_START, params![q, number, before], key)?,
        Way::Back(after) => view.find(&sql::inspect::PAGE_START_BACK, params![q, number, after], key)?,
    };
    let Some((at, seq)) = start else { return Ok(Slice::default()) };
    reader.read(&sql::inspect::PAGE, params![q, number, size, at, seq])
}

/// A key before every task.
const FIRST: Option<(i64, i64)> = Some((i64::MIN, i64::MIN));

fn key(row: &rusqlite::Row<'_>) -> rusqlite::Result<(i64, i64)> {
    Ok((row.get(0)?, row.get(1)?))
}

/// From which end the first task of a page is counted.
#[derive(Debug, PartialEq, Eq)]
enum Way {
    /// The page begins with the first task of all.
    First,
    /// This many tasks come before the page.
    Forward(i64),
    /// This many tasks come after the first task of the page.
    Back(i64),
}

/// Returns the shorter way to a page among `count` tasks. Behind `count`, which may be wrong, the way goes forward, so that the
/// tasks themselves decide.
fn way(offset: i64, count: i64) -> Way {
    match offset {
        ..=0 => Way::First,
        _ if offset < count && offset > count / 2 => Way::Back(count - 1 - offset),
        _ => Way::Forward(offset),
    }
}

/// Reads a page of the tasks of one group. The tasks of a group are not counted anywhere, so the start is looked up from the
/// front.
fn page_of_group(
    reader: &Reader<'_>,
    q: i64,
    group: &GroupName,
    (size, offset): (i64, i64),
) -> rusqlite::Result<Slice> {
    let group = group.as_str();
    let start = match offset {
        ..=0 => FIRST,
        _ => reader.view.find(&sql::inspect::PAGE_GROUP_START, params![q, group, offset], key)?,
    };
    let Some((at, seq)) = start else { return Ok(Slice::default()) };
    reader.read(&sql::inspect::PAGE_GROUP, params![q, group, size, at, seq])
}

/// Returns how the last attempts of a task failed. The last error of the task may come from a program that kept no failures, or
/// from something that was not an attempt.
pub(super) fn failures(view: &View<'_>, queue: &QueueName, id: &TaskId) -> rusqlite::Result<Vec<Failure>> {
    let failure = |number: i64, at: i64, error: String| {
        Failure::new(u32::try_from(number.max(0)).unwrap_or(u32::MAX), instant(at), error)
    };
    let params = params![queue.as_str(), id.as_str(), FAILURES];
    let mut known: Vec<Failure> =
        view.list(&sql::inspect::FAILURES, params, |row| Ok(failure(row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let last = view.find(&sql::inspect::LAST_ERROR, params![queue.as_str(), id.as_str()], |row| {
        Ok(failure(row.get(2)?, row.get(1)?, row.get(0)?))
    })?;
    if let Some(last) = last {
        last.put_before(&mut known);
    }
    known.truncate(usize::try_from(FAILURES).unwrap_or_default());
    Ok(known)
}

/// Returns one task, in any state.
pub(super) fn one(view: &View<'_>, queue: &QueueName, id: &TaskId) -> rusqlite::Result<Option<TaskInfo>> {
    let task = view.find(&sql::inspect::TASK, [queue.as_str(), id.as_str()], |row| task_info(view, queue, row))?;
    Ok(task.and_then(|(task, _)| task))
}

#[cfg(test)]
mod tests {
    use super::{
        super::super::{connection, migrate, sql::Names},
        *,
    };
    use crate::task::TaskMessage;

    #[test]
    fn a_query_ends_after_so_many_bytes_and_the_next_goes_on_behind_them() {
        let mut connection = connection::open_memory().unwrap();
        migrate::settle_in(&mut connection, false, "here", |_| Ok(())).unwrap();
        connection.execute_batch("INSERT INTO queue(q, name) VALUES (1, 'q')").unwrap();
        for n in 0..10 {
            let insert = "INSERT INTO task(q, state, at, id, type) VALUES (1, 2, ?1, 't' || ?1, 't')";
            connection.execute(insert, [n]).unwrap();
            let (payload, id) = (vec![0_u8; 2 << 20].into(), format!("t{n}"));
            let message = TaskMessage { payload, id, queue: "q".into(), ..TaskMessage::default() };
            let insert = "INSERT INTO body(seq, msg) VALUES (?1, ?2)";
            connection.execute(insert, params![connection.last_insert_rowid(), message.encode()]).unwrap();
        }
        let view = View::new(&connection, Names::Plain, 0);
        let read = |at| {
            let slice = page(&view, &QueueName::from_wire("q"), TaskState::Pending, None, at, Some(10)).unwrap();
            let ids: String = slice.tasks.iter().map(|brief| brief.id.as_str()).collect();
            (ids, slice.looked_at, slice.is_cut_short)
        };
        assert_eq!(read((10, 0)), ("t0t1t2t3t4t5t6t7".to_owned(), 8, true));
        assert_eq!(read((8, 0)), ("t0t1t2t3t4t5t6t7".to_owned(), 8, false));
        assert_eq!(read((2, 8)), ("t8t9".to_owned(), 2, false));
    }

    #[test]
    fn a_page_is_reached_from_the_nearer_end() {
        for (offset, count, expected) in [
            (0, 0, Way::First),
            (0, 100, Way::First),
            (30, 100, Way::Forward(30)),
            (50, 100, Way::Forward(50)),
            (51, 100, Way::Back(48)),
            (99, 100, Way::Back(0)),
            (100, 100, Way::Forward(100)),
            (i64::MAX, 100, Way::Forward(i64::MAX)),
            (1, 2, Way::Forward(1)),
        ] {
            assert_eq!(way(offset, count), expected, "{offset} of {count}");
        }
    }
}
