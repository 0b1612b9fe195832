//! The view `enqueue`, as programs of any language use it.

use asynq_runtime::broker::{GroupRules, Groups as _, Repair as _};

use super::*;

/// The smallest insert with its columns.
pub(super) const INSERT: &str = "INSERT INTO enqueue(queue, id, type, msg) VALUES ('default', ?1, 'mail', ?2)";

pub(super) fn message(id: &str) -> Vec<u8> {
    task(id).message.encode()
}

#[tokio::test]
async fn four_columns_are_enough() {
    let t = World::new().await;
    let theirs = t.theirs();
    // The view reads SQLite's time; the broker's clock stands still at another.
    let now = || t.number("SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER)");
    let before = now();
    let mut kept = task("a").message;
    kept.retention = 3_600;
    theirs.execute(INSERT, params!["a", kept.encode()]).unwrap();
    let since = t.number("SELECT since FROM task");
    assert!((before..=now()).contains(&since), "{since} is not between {before} and now");
    assert_eq!(t.number("SELECT at - since FROM task"), 0);
    let run = dequeue(&t.broker, &t.member, 1).await.remove(0);
    assert_eq!(run.message.as_ref().unwrap(), &kept);
    assert_eq!(settle(&t.broker, outcome(&run, Action::Complete { result: None })).await, Settled::Ok);
    let done = t.broker.task(&queue(), &run.key.id).await.unwrap().unwrap();
    let completed_at = done.completed_at.map(|at| at.timestamp_millis());
    assert_eq!(completed_at, Some(t.broker.now().timestamp_millis()), "the message alone says how long it is kept");
    check_whole(&t.file());
}

#[tokio::test]
async fn a_lock_whose_task_was_deleted_by_hand_refuses_nothing() {
    let t = World::new().await;
    enqueue(&t.broker, unique("a", "k")).await.unwrap();
    let theirs = t.theirs();
    theirs.execute("DELETE FROM task", []).unwrap();
    let locked = "INSERT INTO enqueue(queue, id, type, msg, unique_key, unique_ms)
        SELECT 'default', 'b', 'mail', ?1, key, 1000 FROM ulock";
    theirs.execute(locked, [message("b")]).unwrap();
    assert_eq!(t.number("SELECT count(*) FROM ulock WHERE id = 'b'"), 1);
}

#[tokio::test]
async fn a_lock_is_held_in_its_queue_alone_by_either_clock() {
    let t = World::new().await;
    let theirs = t.theirs();
    let insert = |or: &str, queue: &str, id: &str, now: Option<&str>| {
        let columns = "queue, id, type, msg, unique_key, unique_ms, now";
        let sql = format!(
            "INSERT {or} INTO enqueue({columns}) SELECT ?1, ?2, 'mail', ?3, 'k', iif(?1 = 'default', 7200000, 3600000), ?4"
        );
        theirs.execute(&sql, params![queue, id, message(id), now]).map(drop).map_err(|error| unique_error(&error))
    };
    for queue in ["another", "default"] {
        insert("", queue, "a", None).unwrap();
    }
    theirs.execute(INSERT, params!["c", message("c")]).unwrap();
    for (queue, now) in [("another", None), ("another", Some("1000")), ("default", None), ("default", Some("1000"))] {
        assert_eq!(insert("", queue, "b", now), Err(Refusal::Lock), "{queue} at {now:?}");
        insert("OR IGNORE", queue, "b", now).unwrap();
    }
    check_whole(&t.file());
    theirs
        .execute_batch("DELETE FROM task WHERE id = 'a' AND q = (SELECT q FROM queue WHERE name = 'default')")
        .unwrap();
    insert("", "default", "b", None).unwrap();
    assert_eq!(insert("", "another", "b", None), Err(Refusal::Lock), "the task of the other queue is there");
    let spans =
        "(SELECT name, id, until - since FROM queue JOIN task USING (q) JOIN ulock USING (q, id) ORDER BY name)";
    let row = |queue, id, ms| format!("[Text({queue:?}), Text({id:?}), Integer({ms})]\n");
    assert_eq!(rows(&theirs, spans), row("another", "a", 3_600_000) + &row("default", "b", 7_200_000));
}

#[tokio::test]
async fn many_rows_of_one_statement_come_in_its_order_or_not_at_all() {
    let t = World::new().await;
    let theirs = t.theirs();
    theirs.execute_batch("CREATE TABLE plan(id TEXT, msg BLOB)").unwrap();
    for id in ["c", "a", "b"] {
        theirs.execute("INSERT INTO plan VALUES (?1, ?2)", params![id, message(id)]).unwrap();
    }
    let all = "INSERT INTO enqueue(queue, id, type, msg) SELECT 'default', id, 'mail', msg FROM plan ORDER BY rowid";
    theirs.execute(all, []).unwrap();
    assert_eq!(ids(&dequeue(&t.broker, &t.member, 9).await), ["c", "a", "b"]);
    theirs.execute_batch("DELETE FROM plan WHERE id <> 'b'").unwrap();
    theirs.execute("INSERT INTO plan VALUES ('d', ?1)", [message("d")]).unwrap();
    theirs.execute(&all.replace("rowid", "rowid DESC"), []).unwrap_err();
    assert_eq!(t.number("SELECT count(*) FROM task"), 3);
    check_whole(&t.file());
}

#[tokio::test]
async fn a_row_has_a_position_among_those_of_its_queue_whatever_other_queues_have() {
    let t = World::new().await;
    let other = QueueName::new("other").unwrap();
    for task in [task("a"), NewTask { queue: other.clone(), ..task("moved") }] {
        enqueue(&t.broker, task).await.unwrap();
    }
    for (id, is_moved) in [("b", false), ("c", true)] {
        if is_moved {
            t.broker.move_task(&other, &TaskId::new("moved").unwrap(), &queue()).await.unwrap();
        }
        let now = t.number("SELECT max(at) FROM task");
        let at_the_same_time = "INSERT INTO enqueue(queue, id, type, msg, now) VALUES ('default', ?1, 'mail', ?2, ?3)";
        t.theirs().execute(at_the_same_time, params![id, message(id), now]).unwrap();
    }
    enqueue(&t.broker, task("d")).await.unwrap();
    assert_eq!(t.number("SELECT count(*) FROM task WHERE seq >> 40 <> q"), 1, "the moved task alone is behind them");
    assert_eq!(ids(&dequeue(&t.broker, &t.member, 9).await), ["a", "b", "moved", "c", "d"]);
    check_whole(&t.file());
}

#[tokio::test]
async fn bodies_whose_tasks_were_deleted_by_hand_are_in_nobodys_way() {
    let t = World::new().await;
    for id in ["a", "b"] {
        enqueue(&t.broker, task(id)).await.unwrap();
    }
    t.theirs().execute_batch("DELETE FROM task; DELETE FROM tally").unwrap();
    assert_eq!(t.number("SELECT count(*) FROM body"), 2);
    enqueue(&t.broker, task("c")).await.unwrap();
    t.theirs().execute(&INSERT.replace("INSERT", "INSERT OR IGNORE"), params!["d", message("d")]).unwrap();
    let runs = dequeue(&t.broker, &t.member, 9).await;
    assert_eq!(ids(&runs), ["c", "d"]);
    assert!(runs.iter().all(|run| run.message.as_ref().unwrap().id == run.key.id.as_str()));
    check_whole(&t.file());
}

#[tokio::test]
async fn a_queue_whose_rows_are_used_up_gets_others() {
    let t = World::new().await;
    enqueue(&t.broker, task("a")).await.unwrap();
    let last = "UPDATE task SET seq = (2 << 40) - 1; UPDATE body SET seq = (2 << 40) - 1;";
    t.theirs().execute_batch(last).unwrap();
    enqueue(&t.broker, task("b")).await.unwrap();
    let now = t.number("SELECT at FROM task WHERE id = 'b'");
    let third = INSERT.replace("msg)", "msg, now)").replace("?2)", "?2, ?3)");
    t.theirs().execute(&third, params!["c", message("c"), now]).unwrap();
    enqueue(&t.broker, task("d")).await.unwrap();
    assert_eq!(t.number("SELECT count(DISTINCT seq) FROM task"), 4);
    assert_eq!(ids(&dequeue(&t.broker, &t.member, 9).await), ["a", "b", "c", "d"]);
    check_whole(&t.file());
}

/// Its rows begin below zero, as 1 << 63 does.
#[tokio::test]
async fn a_queue_with_a_very_large_number_takes_more_than_one_task() {
    let t = World::new().await;
    t.theirs().execute_batch("INSERT INTO queue(q, name) VALUES (1 << 23, 'default')").unwrap();
    for id in ["a", "b"] {
        enqueue(&t.broker, task(id)).await.unwrap();
    }
    let now = t.number("SELECT at FROM task WHERE id = 'b'");
    let third = INSERT.replace("msg)", "msg, now)").replace("?2)", "?2, ?3)");
    t.theirs().execute(&third, params!["c", message("c"), now]).unwrap();
    enqueue(&t.broker, task("d")).await.unwrap();
    assert_eq!(ids(&dequeue(&t.broker, &t.member, 9).await), ["a", "b", "c", "d"]);
    check_whole(&t.file());
}

#[tokio::test]
async fn an_existing_task_is_ignored_on_request_and_never_replaced() {
    let t = World::new().await;
    let theirs = t.theirs();
    enqueue(&t.broker, unique("a", "k")).await.unwrap();
    let tables = || ["task", "body", "ulock", "tally", "queue"].map(|table| rows(&theirs, table));
    let before = tables();
    let locked = "INSERT INTO enqueue(queue, id, type, msg, unique_key, unique_ms, now)
                  VALUES ('default', ?1, 'mail', ?2, 'k', 60000, 0)";
    for (sql, id) in [(INSERT, "a"), (locked, "b")] {
        theirs.execute(&sql.replace("INSERT", "INSERT OR IGNORE"), params![id, message(id)]).unwrap();
        assert_eq!(tables(), before, "{id}");
        let refused = theirs.execute(&sql.replace("INSERT", "INSERT OR REPLACE"), params![id, message(id)]);
        assert!(refused.unwrap_err().to_string().ends_with("is never replaced"));
        assert_eq!(tables(), before, "{id}");
        theirs.execute(&sql.replace("INSERT", "INSERT OR FAIL"), params![id, message(id)]).unwrap_err();
        assert_eq!(tables(), before, "{id}");
    }
    for (n, or) in ["", "OR IGNORE", "OR REPLACE"].into_iter().enumerate() {
        let id = format!("new{n}");
        theirs.execute(&INSERT.replace("INSERT", &format!("INSERT {or}")), params![id, message(&id)]).unwrap();
    }
    assert_eq!(t.number("SELECT count(*) FROM task"), 4);
    check_whole(&t.file());
}

#[tokio::test]
async fn a_row_that_cannot_be_a_task_is_refused_with_the_reason() {
    let t = World::new().await;
    let theirs = t.theirs();
    for (or, values, reason) in [
        ("", "NULL, 'a', 'mail', X'00', NULL, NULL, NULL", "queue, id and type"),
        ("", "'', 'a', 'mail', X'00', NULL, NULL, NULL", "queue, id and type"),
        ("", "'q', NULL, 'mail', X'00', NULL, NULL, NULL", "queue, id and type"),
        ("OR IGNORE", "'q', 7, 'mail', X'00', NULL, NULL, NULL", "queue, id and type"),
        ("", "'q', '', 'mail', X'00', NULL, NULL, NULL", "queue, id and type"),
        ("", "'q', 'a', '', X'00', NULL, NULL, NULL", "queue, id and type"),
        ("", "'q', 'a', 7, X'00', NULL, NULL, NULL", "queue, id and type"),
        ("", "'q', 'a', 'mail', 'text', NULL, NULL, NULL", "msg a task message"),
        ("OR IGNORE", "'q', 'a', 'mail', NULL, NULL, NULL, NULL", "msg a task message"),
        ("", "'q', 'a', 'mail', X'00', 'k', NULL, NULL", "unique_key"),
        ("", "'q', 'a', 'mail', X'00', NULL, 5, NULL", "unique_ms"),
        ("", "'q', 'a', 'mail', X'00', 'k', 0, NULL", "above 0"),
        ("", "'q', 'a', 'mail', X'00', 'k', 1.5, NULL", "a whole number"),
        ("", "'q', 'a', 'mail', X'00', 'k', '10m', NULL", "a whole number"),
        ("", "'q', 'a', 'mail', X'00', NULL, NULL, 'tomorrow'", "due, delay and now must be numbers"),
    ] {
        let sql =
            format!("INSERT {or} INTO enqueue(queue, id, type, msg, unique_key, unique_ms, due) VALUES ({values})");
        let error = theirs.execute(&sql, []).unwrap_err().to_string();
        assert!(error.contains(reason), "{values}: {error}");
    }
    for group in ["''", "7"] {
        let sql = format!("INSERT INTO enqueue(queue, id, type, msg, grp) VALUES ('q', 'a', 'mail', X'00', {group})");
        let error = theirs.execute(&sql, []).unwrap_err().to_string();
        assert!(error.contains("grp must be NULL, or a text that is not empty"), "{group}: {error}");
    }
    for (column, value) in [("delay", "'10m'"), ("delay", "''"), ("due", "'1.5'"), ("now", "' 17'"), ("now", "X'31'")] {
        let sql =
            format!("INSERT INTO enqueue(queue, id, type, msg, {column}) VALUES ('q', 'a', 'mail', X'00', {value})");
        let error = theirs.execute(&sql, []).unwrap_err().to_string();
        assert!(error.contains("due, delay and now must be numbers"), "{column} {value}: {error}");
    }
    assert_eq!(t.number("SELECT (SELECT count(*) FROM task) + (SELECT count(*) FROM queue)"), 0);
}

/// As some drivers bind all values, and as JavaScript's drivers bind numbers.
#[tokio::test]
async fn a_text_and_a_float_that_are_whole_numbers_are_times() {
    let t = World::new().await;
    let theirs = t.theirs();
    for number in [|ms: &str| format!("'{ms}'"), |ms: &str| format!("{ms}.0")] {
        let now = number("1000");
        for (column, ms, at) in [("due", "61000", 61_000), ("due", "200", 1_000), ("delay", "500", 1_500)] {
            let (id, value) = (format!("{column} {ms} {now}"), number(ms));
            let values = format!("('default', ?1, 'mail', ?2, {value}, {now})");
            let sql = format!("INSERT INTO enqueue(queue, id, type, msg, {column}, now) VALUES {values}");
            theirs.execute(&sql, params![id, message(&id)]).unwrap();
            let stored = |what: &str| {
                let sql = format!("SELECT {what} FROM task WHERE id = ?1");
                theirs.query_row(&sql, [&id], |row| row.get::<_, i64>(0)).unwrap()
            };
            assert_eq!((stored("at"), stored("since")), (at, 1_000), "{id}");
            assert_eq!(stored("state = 3"), i64::from(at > 1_000), "{id}");
        }
    }
    check_whole(&t.file());
}

/// As JavaScript's drivers bind numbers, and as some drivers bind all values.
#[tokio::test]
async fn a_float_and_a_text_that_are_whole_numbers_are_the_span_of_a_lock() {
    let t = World::new().await;
    let theirs = t.theirs();
    for (id, unique_ms) in [("float", "60000.0"), ("text", "'60000'")] {
        let values = format!("('default', ?1, 'mail', ?2, ?1, {unique_ms})");
        let sql = format!("INSERT INTO enqueue(queue, id, type, msg, unique_key, unique_ms) VALUES {values}");
        theirs.execute(&sql, params![id, message(id)]).unwrap();
        let span = "SELECT until - since FROM ulock JOIN task USING (q, id)";
        assert_eq!(t.number(&format!("{span} WHERE id = '{id}'")), 60_000, "{id}");
    }
    check_whole(&t.file());
}

#[tokio::test]
async fn a_group_is_where_its_task_waits() {
    let t = World::new().await;
    let theirs = t.theirs();
    let sql =
        "INSERT INTO enqueue(queue, id, type, msg, grp, delay, now) VALUES ('default', ?1, 'mail', ?2, 'g', ?3, 50)";
    theirs.execute(sql, params!["now", message("now"), None::<i64>]).unwrap();
    theirs.execute(sql, params!["later", message("later"), 1_000]).unwrap();
    let seen = rows(&theirs, "(SELECT id, state, at, grp FROM task)");
    let row = |id, state, at| format!("[Text({id:?}), Integer({state}), Integer({at}), Text(\"g\")]\n");
    assert_eq!(seen, row("now", 7, 50) + &row("later", 3, 1_050));
    check_whole(&t.file());
    let group = asynq_runtime::task::GroupName::new("g").unwrap();
    let set = t.broker.claim_set(&queue(), &group, &GroupRules::default()).await.unwrap().unwrap();
    assert_eq!(set.members[0].id, "now");
}

#[tokio::test]
async fn it_is_there_in_a_file_that_an_older_version_made() {
    let (_folder, file) = new_file();
    let mut theirs = Connection::open(&file).unwrap();
    theirs
        .execute_batch("PRAGMA journal_mode=WAL; PRAGMA application_id=0x6173796e; PRAGMA user_version=1000")
        .unwrap();
    theirs
        .execute_batch(include_str!("../../../../asynq-runtime/src/broker/sqlite/sql/migrations/0001_tasks.sql"))
        .unwrap();
    // Later ones have an older view, in the place of which today's comes.
    theirs.execute_batch("CREATE VIEW enqueue(queue) AS SELECT NULL WHERE 0").unwrap();
    theirs.prepare_cached("SELECT count(*) FROM task").unwrap().query_row([], |row| row.get::<_, i64>(0)).unwrap();

    let broker = Arc::new(open(&file).await);
    let client = Client::new(broker.clone());
    client.attach(&theirs).unwrap();
    let tx = begin(&mut theirs);
    Api::Function.enqueue(&client, &tx, raw("a")).unwrap();
    Api::View.enqueue(&client, &tx, raw("b")).unwrap();
    tx.commit().unwrap();
    let member = join(&broker).await;
    assert_eq!(ids(&dequeue(&broker, &member, 9).await), ["a", "b"]);

    theirs.execute_batch("PRAGMA user_version=1000").unwrap();
    let error = client.attach(&theirs).unwrap_err().to_string();
    assert!(error.contains("was the file replaced?"), "{error}");
}
