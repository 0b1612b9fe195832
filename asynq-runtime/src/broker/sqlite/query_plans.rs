//! Tests that the hot statements find their rows by the index that was made for them.

use std::collections::BTreeMap;

use rusqlite::{Connection, types::Null};

use super::{
    migrate,
    sql::{self, Names, Sql},
};

/// Returns the steps of the plan, joined.
fn plan(connection: &Connection, sql: &Sql, names: Names) -> String {
    let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {}", sql.text(names))).unwrap();
    let parameters = vec![Null; explain.parameter_count()];
    let steps = explain.query_map(rusqlite::params_from_iter(parameters), |row| row.get::<_, String>(3)).unwrap();
    steps.map(Result::unwrap).collect::<Vec<_>>().join("; ")
}

#[test]
fn hot_statements_use_their_index_and_sort_nothing() {
    for shared in [false, true] {
        let mut connection = Connection::open_in_memory().unwrap();
        if shared {
            connection.execute_batch("CREATE TABLE theirs(x)").unwrap();
        }
        let names = migrate::settle_in(&mut connection, shared, "here", |_| Ok(())).unwrap();
        let p = if shared { "asynq_" } else { "" };
        let at = format!("INDEX {p}task_at (q=? AND state=?");
        let row = "INTEGER PRIMARY KEY (rowid=?)".to_owned();
        let expected: BTreeMap<&str, (&Sql, String)> = [
            ("ready", (&sql::CONSUME_READY, at.clone())),
            ("ready anywhere", (&sql::CONSUME_READY_ANYWHERE, at.clone())),
            ("walk over queues", (&sql::CONSUME_READY_ANYWHERE, format!("COVERING INDEX {p}task_at (q>?)"))),
            ("next", (&sql::CONSUME_NEXT, at.clone())),
            ("take", (&sql::CONSUME_TAKE, row.clone())),
            ("again", (&sql::CONSUME_AGAIN, format!("INDEX {p}task_lease (server=?)"))),
            ("head", (&sql::LINE_HEAD, at.clone())),
            ("tail", (&sql::LINE_TAIL, at.clone())),
            ("taken by", (&sql::PRODUCE_TAKEN_BY, format!("INDEX {p}task_id (q=? AND id=?)"))),
            ("done", (&sql::SETTLE_DONE, row.clone())),
            ("fence", (&sql::SETTLE_FENCE, row.clone())),
            ("receipt", (&sql::SETTLE_RECEIPT, format!("INDEX {p}task_id (q=? AND id=?)"))),
            ("delete", (&sql::TASK_DELETE, row.clone())),
            ("retry", (&sql::SETTLE_RETRY, row.clone())),
            ("extend", (&sql::MAINTAIN_EXTEND, row.clone())),
            ("due scheduled", (&sql::MAINTAIN_DUE_SCHEDULED, format!("{at} AND at<?"))),
            ("due retry", (&sql::MAINTAIN_DUE_RETRY, format!("{at} AND at<?"))),
            ("next due", (&sql::MAINTAIN_NEXT_DUE, at.clone())),
            ("lapsed", (&sql::MAINTAIN_LAPSED, format!("{at} AND at<?"))),
            ("next lapse", (&sql::MAINTAIN_NEXT_LAPSE, format!("COVERING {at}"))),
            ("left by", (&sql::MAINTAIN_LEFT_BY, at.clone())),
            ("expired", (&sql::MAINTAIN_EXPIRED, format!("{at} AND at<?"))),
            ("oldest archived", (&sql::MAINTAIN_OLDEST_ARCHIVED, at.clone())),
            ("groups", (&sql::GROUPS_LIST, format!("INDEX {p}task_group (q=? AND grp>?)"))),
            ("next group", (&sql::GROUPS_NEXT, format!("INDEX {p}task_group (q=? AND grp>?)"))),
            ("one group", (&sql::GROUPS_ONE, format!("INDEX {p}task_group (q=? AND grp=?)"))),
            ("span of a group", (&sql::GROUPS_SPAN, format!("INDEX {p}task_group (q=? AND grp=?)"))),
            ("size of a group", (&sql::GROUPS_REACHES, format!("INDEX {p}task_group (q=? AND grp=?)"))),
            ("waiting", (&sql::GROUPS_WAITING, format!("INDEX {p}task_group (q=? AND grp=?)"))),
            ("join a set", (&sql::GROUPS_JOIN_SET, row.clone())),
            ("release", (&sql::GROUPS_RELEASE, format!("INDEX {p}task_batch (q=? AND batch=?)"))),
            ("over", (&sql::GROUPS_OVER, format!("INDEX {p}batch_deadline (q=? AND deadline<?)"))),
            ("counts", (&sql::INSPECT_COUNTS, format!("INDEX {p}task_batch (q=?"))),
            ("page of a group", (&sql::INSPECT_PAGE_GROUP, format!("INDEX {p}task_group (q=? AND grp=? AND at>?)"))),
            (
                "start of a page of a group",
                (&sql::INSPECT_PAGE_GROUP_START, format!("INDEX {p}task_group (q=? AND grp=?)")),
            ),
            ("page of groups", (&sql::INSPECT_PAGE_AGGREGATING, format!("{at} AND at>?"))),
            ("start of a page of groups", (&sql::INSPECT_PAGE_AGGREGATING_START, format!("COVERING {at}"))),
            (
                "start of a page of groups, from the end",
                (&sql::INSPECT_PAGE_AGGREGATING_START_BACK, format!("COVERING {at}")),
            ),
            ("failures", (&sql::INSPECT_FAILURES, "PRIMARY KEY (seq=?)".to_owned())),
            ("extend a lock", (&sql::LOCK_EXTEND, row)),
            ("page", (&sql::INSPECT_PAGE, format!("{at} AND at>?"))),
            ("start of a page", (&sql::INSPECT_PAGE_START, format!("COVERING {at}"))),
            ("start of a page, from the end", (&sql::INSPECT_PAGE_START_BACK, format!("COVERING {at}"))),
            ("oldest pending", (&sql::INSPECT_OLDEST_PENDING, at)),
            ("repair in state", (&sql::REPAIR_IN_STATE, format!("INDEX {p}task_at (q=? AND state=?"))),
            ("repair in group", (&sql::REPAIR_IN_GROUP, format!("INDEX {p}task_group (q=? AND grp=?"))),
            ("has tasks", (&sql::REPAIR_HAS_TASKS, format!("INDEX {p}task_"))),
            ("entry", (&sql::SCHEDULE_ENTRY, "PRIMARY KEY (queue=? AND entry=?)".to_owned())),
            ("marked", (&sql::SCHEDULE_MARKED, "PRIMARY KEY (queue=? AND entry=? AND at=?)".to_owned())),
            ("previous", (&sql::SCHEDULE_PREVIOUS, format!("INDEX {p}task_id (q=? AND id=?)"))),
            ("trim a history", (&sql::SCHEDULE_TRIM, "PRIMARY KEY (entry=?)".to_owned())),
            ("enqueue history", (&sql::SCHEDULE_HISTORY, "PRIMARY KEY (entry=?)".to_owned())),
            ("sweep ticks", (&sql::SCHEDULE_SWEEP_TICKS, format!("INDEX {p}tick_until (until<?)"))),
            ("runs something", (&sql::PRESENCE_RUNS_SOMETHING, format!("INDEX {p}task_lease (server=?)"))),
            ("held", (&sql::LOCK_HELD, "PRIMARY KEY (q=? AND key=?)".to_owned())),
        ]
        .into();
        for (name, (sql, index)) in expected {
            let plan = plan(&connection, sql, names);
            assert!(plan.contains(&index), "{name}: {plan}");
            assert!(!plan.contains("TEMP B-TREE") || name == "again", "{name} sorts: {plan}");
            assert!(!plan.contains("SCAN t") && !plan.contains("SCAN asynq_t"), "{name} scans: {plan}");
        }
    }
}

/// Returns the steps of all plans, each with the file of its statement. A PRAGMA has no plan.
fn plans(connection: &Connection, names: Names) -> Vec<(&'static str, String)> {
    let all = sql::ALL.iter().filter(|(_, sql)| !sql.text(names).trim_start().starts_with("PRAGMA"));
    all.map(|(file, sql)| (*file, plan(connection, sql, names))).collect()
}

#[test]
fn every_index_is_used_by_some_statement() {
    let mut connection = Connection::open_in_memory().unwrap();
    let names = migrate::settle_in(&mut connection, false, "here", |_| Ok(())).unwrap();
    let mut indexes =
        connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL").unwrap();
    let indexes: Vec<String> = indexes.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert!(indexes.len() >= 5, "{indexes:?}");
    let plans = plans(&connection, names);
    for index in indexes {
        let is_used = plans.iter().any(|(_, plan)| plan.split(' ').any(|word| word == index));
        assert!(is_used, "no statement uses {index}, and every task may have to write it");
    }
}

#[test]
fn no_statement_looks_through_all_tasks() {
    /// These statements may scan: the partial index over active tasks.
    const MAY: [&str; 1] = ["maintain/lapses"];
    let mut connection = Connection::open_in_memory().unwrap();
    let names = migrate::settle_in(&mut connection, false, "here", |_| Ok(())).unwrap();
    for (file, plan) in plans(&connection, names) {
        let scans = |step: &str| {
            ["SCAN t", "SCAN task", "SCAN body", "SCAN b"]
                .iter()
                .any(|scan| step.strip_prefix(scan).is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')))
        };
        assert!(MAY.contains(&file) || !plan.split("; ").any(scans), "{file}: {plan}");
    }
}
