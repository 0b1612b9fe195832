use std::{fs, sync::Arc, thread};

use asynq_test_support::soon;

use super::*;
use crate::{
    broker::{
        Action, Broker as _, BrokerErrorKind, Consume as _, Inspect as _, Member, NewTask, Presence as _, Produce as _,
        Refused, ServerName, Settle as _, Settlement, Wanted, When,
        sqlite::{SqliteBroker, SqliteOptions, await_end::EndWaiters, consume::Tokens, set_up, url::Location},
    },
    task::{Extra, QueueName, ServerInfo, TaskId, TaskMessage, TaskState},
};

const MIB: u64 = 1 << 20;

#[test]
fn the_reserve_is_eight_mebibytes_or_half_of_a_small_disk() {
    for (free, size, unused, short) in [
        (100 * MIB, 1000 * MIB, 0, false),
        (8 * MIB, 1000 * MIB, 0, false),
        (8 * MIB - 1, 1000 * MIB, 0, true),
        (6 * MIB, 1000 * MIB, 2 * MIB, false),
        (0, 1000 * MIB, 8 * MIB, false),
        (MIB, 2 * MIB, 0, false),
        (MIB - 1, 2 * MIB, 0, true),
        (0, 0, 0, false), // a file system that does not say
    ] {
        assert_eq!(Disk { free, size }.is_short(unused), short, "{free} of {size}, {unused} unused");
    }
}

/// The limit that a broker meets.
#[derive(Debug, Clone, Copy)]
enum Limit {
    /// The disk holds this many bytes, and the system says how many are left.
    Disk(u64),
    /// The system does not say how many bytes are left, and the file cannot have more pages: SQLite fails as on a disk without
    /// a byte left.
    Pages(u64),
}

/// Returns a broker of a file in `folder`, with the limit.
fn broker(folder: &Path, limit: Limit) -> SqliteBroker {
    let location = Location::parse(&format!("sqlite://{}", folder.join("jobs.db").display())).unwrap();
    let options = SqliteOptions::default();
    let (store, mut writer) = set_up(&location, &options).unwrap();
    let folder = folder.to_owned();
    writer.room = DiskRoom {
        disk_of: Box::new(move |_| match limit {
            Limit::Disk(size) => {
                let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().metadata());
                let used: u64 = files.flatten().map(|file| file.len()).sum();
                Some(Disk { free: size.saturating_sub(used), size })
            }
            Limit::Pages(_) => None,
        }),
    };
    if let Limit::Pages(most) = limit {
        writer.connection.execute_batch(&format!("PRAGMA max_page_count = {most}")).unwrap();
    }
    thread::spawn(move || writer.run());
    SqliteBroker {
        store: Arc::new(store),
        tokens: Tokens::new(),
        ends: EndWaiters::default(),
        lapses: Arc::default(),
        lease: options.lease,
        manual_clock: false,
        stored_shapes: crate::broker::StoredShapes::default(),
    }
}

fn queue() -> QueueName {
    QueueName::from_wire("q")
}

/// A task of 300 kB.
fn large(id: &str) -> NewTask {
    let message = TaskMessage {
        r#type: "test".into(),
        payload: vec![7; 300_000].into(),
        id: id.into(),
        queue: "q".into(),
        ..TaskMessage::default()
    };
    NewTask {
        message,
        queue: queue(),
        id: TaskId::from_wire(id),
        id_is_ours: false,
        when: When::Now,
        unique: None,
        replaces: None,
        group: None,
        extra: Extra::default(),
    }
}

/// Takes and settles all tasks; returns their ids.
async fn drain(broker: &SqliteBroker, member: &Member) -> Vec<String> {
    let mut done = Vec::new();
    loop {
        let runs = broker.dequeue(member, &[Wanted { queue: queue(), n: 4 }]).await.unwrap();
        if runs.is_empty() {
            return done;
        }
        for run in runs {
            let message = Arc::new(run.message.unwrap());
            let settlement = Settlement { run: run.key.clone(), message, action: Action::Done, resend: false };
            broker.settle(&[settlement]).await.remove(0).unwrap();
            done.push(run.key.id.to_string());
        }
    }
}

#[tokio::test]
async fn without_room_new_tasks_are_refused_the_old_ones_end_and_then_there_is_room() {
    for limit in [Limit::Disk(24 * MIB), Limit::Pages(24 * MIB / 4_096)] {
        let folder = tempfile::tempdir().unwrap();
        let broker = broker(folder.path(), limit);
        let name = ServerName { host: "h".into(), pid: 1, server_id: "s".into() };
        let member = broker.join(&name, &ServerInfo::default()).await.unwrap();
        for round in 0..2 {
            let mut stored = Vec::new();
            let refused = loop {
                let id = format!("{round}-{}", stored.len());
                match broker.enqueue(vec![large(&id)]).await.remove(0) {
                    Ok(_) => stored.push(id),
                    Err(refused) => break refused,
                }
                assert!(stored.len() < 100, "{limit:?}: 24 MiB hold no more");
            };
            assert!(matches!(&refused, Refused::Broker(error) if error.kind() == BrokerErrorKind::Full), "{refused:?}");
            assert!(stored.len() > 20, "{limit:?}: only {} were accepted", stored.len());
            let stats = broker.queue_stats(&queue()).await.unwrap();
            assert_eq!(stats.pending, stored.len() as u64, "{limit:?}: refused tasks are not stored");
            assert_eq!(soon(drain(&broker, &member)).await, stored, "{limit:?}");
        }
        broker.enqueue(vec![large("last")]).await.remove(0).unwrap();
        let last = broker.task(&queue(), &TaskId::from_wire("last")).await.unwrap().unwrap();
        assert_eq!(last.state, TaskState::Pending);
        broker.close().await;
        let check = "PRAGMA integrity_check";
        let connection = Connection::open(folder.path().join("jobs.db")).unwrap();
        assert_eq!(connection.query_row(check, [], |row| row.get::<_, String>(0)).unwrap(), "ok");
    }
}
