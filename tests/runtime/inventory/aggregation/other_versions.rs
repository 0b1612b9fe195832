//! Groups in which tasks of other versions of the program wait.

use std::sync::Arc;

use asynq_runtime::{
    broker::{
        Broker,
        sqlite::{SqliteBroker, SqliteOptions},
    },
    job::JobBuilder,
    prelude::*,
};
use asynq_test_support::soon;
use serde::{Deserialize, Serialize};

use super::{Seen, app, note, seen, server, states};

/// Another version of a job, in no inventory.
macro_rules! version {
    ($job:ident $name:literal { $($field:ident: $type:ty),* }) => {
        #[derive(Serialize, Deserialize)]
        struct $job {
            $($field: $type),*
        }

        impl Job for $job {
            const NAME: &'static str = $name;
            type Output = JobResult;
            async fn run(self, _: &JobContext) -> JobResult {
                Ok(())
            }
        }
    };
}

version!(SignedNote "note" { author: String, text: String });
version!(Memo "memo" { author: String, text: String });
version!(NumberedNote "note" { number: u32 });

/// Enqueues a task of an earlier shape, one of an earlier name and shape, one of an earlier name, and one of today.
async fn enqueue_all(client: &Client) {
    let signed = SignedNote { author: "ann".into(), text: "a".into() };
    JobBuilder::new(signed).group("digest").enqueue(client).await.unwrap();
    let memo = Memo { author: "ann".into(), text: "b".into() };
    JobBuilder::new(memo).group("digest").enqueue(client).await.unwrap();
    let today = note::enqueue(client, "d").await.unwrap();
    let renamed = RawTask::new("memo", today.payload.clone()).group("digest");
    client.enqueue(renamed).await.unwrap();
}

#[tokio::test]
async fn tasks_of_an_earlier_shape_or_name_become_a_part_of_the_new_task() {
    let (app, log) = app().await;
    enqueue_all(app.client()).await;
    app.advance("1m").await;
    let drained = app.drain().await;
    let lines = seen(&log);
    assert!(lines.len() == 1 && lines[0].ends_with(": a b d d"), "{lines:?}");
    assert_eq!((drained.aggregated, drained.succeeded), (4, 1), "{drained:?}");
}

#[tokio::test]
async fn a_server_aggregates_tasks_of_an_earlier_shape_or_name() {
    let broker: Arc<dyn Broker> = Arc::new(SqliteBroker::in_memory(SqliteOptions::default()).await.unwrap());
    enqueue_all(&Client::new(broker.clone())).await;
    let log = Seen::default();
    let server = server("").broker(broker).state(log.clone()).group_max_size(4);
    let running = server.build().await.unwrap().start().await.unwrap();
    soon(running.signals().settled.reached(1)).await;
    let lines = seen(&log);
    assert!(lines.len() == 1 && lines[0].ends_with(": a b d d"), "{lines:?}");
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_task_whose_shape_does_not_help_is_requeued_alone_for_other_versions() {
    let (app, log) = app().await;
    let client = app.client();
    note::enqueue(client, "a").await.unwrap();
    JobBuilder::new(NumberedNote { number: 1 }).group("digest").enqueue(client).await.unwrap();
    client.enqueue(RawTask::new("note", &b"\x01\x00\x00\x00\x00"[..]).group("digest")).await.unwrap();
    app.advance("1m").await;
    let drained = app.drain().await;
    assert_eq!((drained.aggregated, drained.succeeded, drained.requeued), (3, 1, 2), "{drained:?}");
    let lines = seen(&log);
    assert!(lines.len() == 1 && lines[0].ends_with(": a"), "{lines:?}");
    let notes = states(&app, "note").await;
    assert!(notes.len() == 2 && notes.iter().all(|(state, _)| *state == TaskState::Retry), "{notes:?}");
}
