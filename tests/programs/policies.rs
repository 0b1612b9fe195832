//! Runs a program with state, context, errors that carry a policy, blocking work.

use asynq_runtime::task::TaskState;

use crate::{
    process::Program,
    stage::{Stage, on_both_brokers, tasks, until},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_program-policies");

on_both_brokers! {
    async fn each_error_has_its_own_consequence(stage: &Stage) {
        for to in ["ann@example.com", "nobody", "x@busy", "x@gone", "x@later"] {
            stage.ask(PROGRAM, &["enqueue", "deliver", &format!("{to:?}")]);
        }
        for path in [env!("CARGO_MANIFEST_DIR"), "/does/not/exist"] {
            stage.ask(PROGRAM, &["enqueue", "thumbnail", &format!("{path:?}")]);
        }

        let worker = Program::start(stage.program(PROGRAM));
        let client = stage.client().await;
        let stats = until(&client, "default", |queue| queue.pending + queue.active == 0).await;
        worker.wait_for(&["from=me@example.com"]);
        worker.terminate();

        // The delivered, the revoked and one thumbnail task are gone; the others wait or are archived.
        assert_eq!((stats.archived, stats.retry, stats.scheduled), (1, 3, 0), "{stats:#?}");
        let given_up = &tasks(&client, "default", TaskState::Archived).await[0];
        assert_eq!(given_up.last_error.as_deref(), Some("bad address nobody"));
        assert_eq!((given_up.retried, given_up.max_retry), (0, 3));

        let mut waiting: Vec<_> = tasks(&client, "default", TaskState::Retry).await.into_iter().map(|task| {
            (task.last_error.unwrap_or_default(), task.retried)
        }).collect();
        waiting.sort();
        assert_eq!(waiting[0], (String::new(), 0), "snoozed: not a failure, no retry spent");
        assert!(waiting[1].0.starts_with("No such file or directory") && waiting[1].1 == 1, "{waiting:?}");
        assert_eq!(waiting[2], ("throttled".to_owned(), 1));
    }

    async fn a_log_that_cannot_be_written_changes_no_outcome(stage: &Stage) {
        stage.ask(PROGRAM, &["enqueue", "deliver", r#""nobody""#]);
        // As when the program that reads the log has died; the writes to a full disk fail likewise.
        let (reader, log) = std::io::pipe().unwrap();
        drop(reader);
        let worker = Program::start_with_log(stage.program(PROGRAM), log);
        let client = stage.client().await;
        until(&client, "default", |queue| queue.pending + queue.active == 0).await;
        // Its exit code is 0.
        worker.terminate();
        let archived = tasks(&client, "default", TaskState::Archived).await;
        let errors: Vec<_> = archived.iter().map(|task| (task.last_error.as_deref(), task.retried)).collect();
        assert_eq!(errors, [(Some("bad address nobody"), 0)]);
    }
}
