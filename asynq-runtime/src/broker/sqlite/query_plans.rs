//! Tests that the hot statements find their rows by the index that was made for them.

use std::collections::BTreeMap;

use rusqlite::{Connection, types::Null};

use super::{
    connection, migrate,
    sql::{self, Names, Sql, prefix},
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
        let mut connection = connection::open_memory().unwrap();
        if shared {
            connection.execute_batch("CREATE TABLE theirs(x)").unwrap();
        }
        let names = migrate::settle_in(&mut connection, shared, "here", |_| Ok(())).unwrap();
        let p = if shared { "asynq_" } else { "" };
        let at = format!("INDEX {p}task_at (q=? AND state=?");
        let row = "INTEGER PRIMARY KEY (rowid=?)".to_owned();
        let expected: BTreeMap<&str, (&Sql, String)> = [
            ("ready", (&sql::consume::READY, at.clone())),
            ("ready anywhere", (&sql::consume::READY_ANYWHERE, at.clone())),
            ("walk over queues", (&sql::consume::READY_ANYWHERE, format!("COVERING INDEX {p}task_at (q>?)"))),
            ("with tasks", (&sql::queue::WITH_TASKS, format!("COVERING INDEX {p}task_at (q>?)"))),
            ("with sets", (&sql::queue::WITH_SETS, format!("COVERING INDEX {p}batch_deadline (q>?)"))),
            ("with old days", (&sql::count::WITH_OLD_DAYS, "PRIMARY KEY (q=? AND day>? AND day<?)".to_owned())),
            ("next", (&sql::consume::NEXT, at.clone())),
            ("take", (&sql::consume::TAKE, row.clone())),
            ("again", (&sql::consume::AGAIN, format!("INDEX {p}task_lease (server=?)"))),
            ("head", (&sql::queue_ends::HEAD, at.clone())),
            ("tail", (&sql::queue_ends::TAIL, at.clone())),
            ("insert", (&sql::produce::INSERT, "INTEGER PRIMARY KEY (rowid<?)".to_owned())),
            ("taken by", (&sql::produce::TAKEN_BY, format!("INDEX {p}task_id (q=? AND id=?)"))),
            ("done", (&sql::settle::DONE, row.clone())),
            ("fence", (&sql::settle::HELD, row.clone())),
            ("receipt", (&sql::settle::RECEIPT, format!("INDEX {p}task_id (q=? AND id=?)"))),
            ("find", (&sql::task::FIND, format!("INDEX {p}task_id (q=? AND id=?)"))),
            ("delete", (&sql::task::DELETE, row.clone())),
            ("retry", (&sql::settle::RETRY, row.clone())),
            ("extend", (&sql::maintain::EXTEND, row.clone())),
            ("due", (&sql::maintain::DUE, format!("{at} AND at<?"))),
            ("next due", (&sql::maintain::NEXT_DUE, at.clone())),
            ("lapsed", (&sql::maintain::LAPSED, format!("{at} AND at<?"))),
            ("next lapse", (&sql::maintain::NEXT_LAPSE, format!("COVERING {at}"))),
            ("left by", (&sql::maintain::LEFT_BY, at.clone())),
            ("expired", (&sql::maintain::EXPIRED, format!("{at} AND at<?"))),
            ("oldest archived", (&sql::maintain::OLDEST_ARCHIVED, at.clone())),
            ("next group", (&sql::groups::NEXT, format!("INDEX {p}task_group (q=? AND grp>?)"))),
            ("stats of a group", (&sql::groups::STATS, format!("INDEX {p}task_group (q=? AND grp=?)"))),
            ("span of a group", (&sql::groups::SPAN, format!("INDEX {p}task_group (q=? AND grp=?)"))),
            ("size of a group", (&sql::groups::REACHES, format!("INDEX {p}task_group (q=? AND grp=?)"))),
            ("waiting", (&sql::groups::WAITING, format!("INDEX {p}task_group (q=? AND grp=?)"))),
            ("join a set", (&sql::groups::JOIN_SET, row.clone())),
            ("release", (&sql::groups::RELEASE, format!("INDEX {p}task_batch (q=? AND batch=?)"))),
            ("shorten", (&sql::groups::SHORTEN, format!("INDEX {p}batch_deadline (q=? AND deadline>?)"))),
            ("over", (&sql::groups::OVER, format!("INDEX {p}batch_deadline (q=? AND deadline<?)"))),
            ("counts", (&sql::inspect::COUNTS, format!("INDEX {p}task_batch (q=?"))),
            ("unended", (&sql::inspect::UNENDED, format!("COVERING {at}"))),
            ("page of a group", (&sql::inspect::PAGE_GROUP, format!("INDEX {p}task_group (q=? AND grp=? AND at>?)"))),
            (
                "start of a page of a group",
                (&sql::inspect::PAGE_GROUP_START, format!("INDEX {p}task_group (q=? AND grp=?)")),
            ),
            ("failures", (&sql::inspect::FAILURES, "PRIMARY KEY (seq=?)".to_owned())),
            ("extend a lock", (&sql::lock::EXTEND, row)),
            ("page", (&sql::inspect::PAGE, format!("{at} AND at>?"))),
            ("start of a page", (&sql::inspect::PAGE_START, format!("COVERING {at}"))),
            ("start of a page, from the end", (&sql::inspect::PAGE_START_BACK, format!("COVERING {at}"))),
            ("first of a state", (&sql::inspect::FIRST, at)),
            ("repair in state", (&sql::repair::IN_STATE, format!("INDEX {p}task_at (q=? AND state=?"))),
            ("repair in group", (&sql::repair::IN_GROUP, format!("INDEX {p}task_group (q=? AND grp=?"))),
            ("has tasks", (&sql::repair::HAS_TASKS, format!("INDEX {p}task_"))),
            ("entry", (&sql::schedule::ENTRY, "PRIMARY KEY (queue=? AND entry=?)".to_owned())),
            ("marked", (&sql::schedule::MARKED, "PRIMARY KEY (queue=? AND entry=? AND at=?)".to_owned())),
            ("trim a history", (&sql::schedule::TRIM, "PRIMARY KEY (entry=?)".to_owned())),
            ("enqueue history", (&sql::schedule::HISTORY, "PRIMARY KEY (entry=?)".to_owned())),
            ("sweep ticks", (&sql::schedule::SWEEP_TICKS, format!("INDEX {p}tick_until (until<?)"))),
            ("runs something", (&sql::presence::RUNS_SOMETHING, format!("INDEX {p}task_lease (server=?)"))),
            ("held", (&sql::lock::HELD, "PRIMARY KEY (q=? AND key=?)".to_owned())),
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

/// Returns the steps of all plans, each with the name of its statement. A PRAGMA has no plan.
fn plans(connection: &Connection, names: Names) -> Vec<(&'static str, String)> {
    let all = sql::ALL.iter().filter(|(_, sql)| !sql.text(names).trim_start().starts_with("PRAGMA"));
    all.map(|(file, sql)| (*file, plan(connection, sql, names))).collect()
}

#[test]
fn every_index_is_used_by_some_statement() {
    let mut connection = connection::open_memory().unwrap();
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
fn every_index_that_a_statement_of_any_version_names_is_there() {
    /// Older programs go on naming these on the same file, so that a name may be added here and none may go.
    const NAMED: [&str; 6] = ["batch_deadline", "task_at", "task_batch", "task_group", "task_id", "task_lease"];
    let mut connection = connection::open_memory().unwrap();
    let names = migrate::settle_in(&mut connection, false, "here", |_| Ok(())).unwrap();
    for index in NAMED {
        let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND name = ?1";
        let found: i64 = connection.query_row(sql, [index], |row| row.get(0)).unwrap();
        assert_eq!(found, 1, "older programs cannot prepare their statements without {index}");
    }
    for (file, sql) in sql::ALL {
        for named in sql.text(names).split("INDEXED BY ").skip(1) {
            let index = named.split(|c: char| !c.is_ascii_lowercase() && c != '_').next().unwrap_or_default();
            assert!(NAMED.contains(&index), "{file} names {index}: add it here");
        }
    }
}

#[test]
fn no_statement_looks_through_all_tasks() {
    /// These statements may scan: the partial index over active tasks.
    const MAY: [&str; 1] = ["maintain::LAPSES"];
    let mut connection = connection::open_memory().unwrap();
    let names = migrate::settle_in(&mut connection, false, "here", |_| Ok(())).unwrap();
    for (file, plan) in plans(&connection, names) {
        let scans = |step: &str| {
            ["SCAN t", "SCAN main.task", "SCAN main.body", "SCAN b"]
                .iter()
                .any(|scan| step.strip_prefix(scan).is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')))
        };
        assert!(MAY.contains(&file) || !plan.split("; ").any(scans), "{file}: {plan}");
    }
}

/// In a shared file the application runs ANALYZE, mostly while there are few tasks, and SQLite then plans for a table that has
/// hardly a row.
#[test]
fn no_plan_depends_on_what_an_analyze_of_the_application_saw() {
    /// No plan of these statements reads a task. The first reads the queues in another order. For the others no clause asks for the key
    /// of the table: SQLite then reads all requests to cancel, which are kept for ten minutes, or all rows of one tick's queue, of one
    /// token's scope or of one second of a history where the statement removes some of them.
    const MAY: [&str; 6] = [
        "count::WITH_OLD_DAYS",
        "presence::FORGET_SIGNALS",
        "presence::NEW_CANCELS",
        "schedule::SWEEP_TICKS",
        "schedule::TRIM",
        "semaphore::SWEEP",
    ];
    /// The rows of the tables beside those of tasks, each made of the number `i`.
    const OTHERS: [&str; 13] = [
        "stat(q, day, processed, failed) SELECT 1, i, 1, 1",
        "tally(q, state, n) SELECT i, 2, 1",
        "server(name, file, pid, boot, version, started_at, beat_at) SELECT 's' || i, 'f', i, 'b', 'v', i, i",
        "signal(kind, id, at) SELECT 'cancel', 'id' || i, i",
        "failure(seq, n, at, error) SELECT 1 << 40, i, i, 'why'",
        "token(scope, id, until) SELECT 'mail' || i, 'id' || i, i",
        "cron(queue, entry, spec, zone, revision, last, paused, until) SELECT 'default', 'e' || i, '', '', 0, 0, 0, i",
        "tick(queue, entry, at, until) SELECT 'default', 'e' || i, i, i",
        "shown(scheduler, n, info, until) SELECT 's', i, x'00', i",
        "enqueued(entry, at, event) SELECT 'e', i, x'00'",
        "history(entry, n, until) SELECT 'e' || i, 1, i",
        "lead(program, token, revision, until, wanted, wanted_until, touched) SELECT 'p' || i, '', 0, i, 0, i, i",
        "shape(job, fingerprint, body, until) SELECT 'mail', i, x'00', i",
    ];
    for shared in [false, true] {
        for state in [1, 2, 5, 7] {
            for tasks in [1, 2, 3, 1_000] {
                let mut connection = connection::open_memory().unwrap();
                if shared {
                    connection.execute_batch("CREATE TABLE theirs(x)").unwrap();
                }
                let names = migrate::settle_in(&mut connection, shared, "here", |_| Ok(())).unwrap();
                let before = plans(&connection, names);
                let numbers =
                    format!("WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < {tasks})");
                let others = OTHERS.map(|rows| format!("{numbers} INSERT INTO main.{rows} FROM n;")).concat();
                let fill = format!(
                    "INSERT INTO main.queue(q, name) VALUES (1, 'default');
                     {numbers}
                     INSERT INTO main.task(seq, q, state, at, id, type, server, grp)
                     SELECT (1 << 40) + i, 1, {state}, i, 'id' || i, 'mail', {state} = 1, iif({state} = 7, 'all', NULL) FROM n;
                     INSERT INTO main.body(seq, msg) SELECT seq, x'00' FROM main.task;
                     INSERT INTO main.ulock(q, key, id, until) SELECT q, id, id, 9 FROM main.task;
                     INSERT INTO main.batch(q, grp, deadline) VALUES (1, 'all', 9);
                     {others}
                     ANALYZE;"
                );
                let fill = if shared { prefix(&fill) } else { fill };
                connection.execute_batch(&fill).unwrap();
                for ((name, before), (_, after)) in before.into_iter().zip(plans(&connection, names)) {
                    // No clause makes SQLite begin a walk over two rows in their middle: this one begins at the end of the table.
                    let is_short_walk = tasks <= 2 && name == "produce::INSERT";
                    assert!(after == before || MAY.contains(&name) || is_short_walk, "{name}: {before}, then {after}");
                }
            }
        }
    }
}
