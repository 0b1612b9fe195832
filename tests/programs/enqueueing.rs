//! Enqueues in every way.

use asynq_runtime::task::TaskState;

use crate::{
    process::Program,
    stage::{Stage, on_both_brokers, tasks, text, until},
};

const HELPER: &str = env!("CARGO_BIN_EXE_helper");

on_both_brokers! {
    async fn every_way_to_enqueue_arrives(stage: &Stage) {
        let output = stage.program(HELPER).arg("produce").output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(text(&output.stdout).contains(" is pending in critical"), "{}", text(&output.stdout));

        let client = stage.client().await;
        let later = tasks(&client, "critical", TaskState::Scheduled).await;
        assert_eq!(later.len(), 1, "{later:?}");
        let low = tasks(&client, "low", TaskState::Pending).await;
        assert_eq!(low.len(), 1, "{low:?}");
        assert_eq!((low[0].id.as_str(), low[0].max_retry), ("welcome-ann", 1));
        assert_eq!(low[0].timeout.map(|timeout| timeout.as_secs()), Some(90));
        assert_eq!(low[0].headers, [("trace".to_owned(), "abc".to_owned())]);

        let mut worker = stage.program(env!("CARGO_BIN_EXE_program-worker"));
        worker.args(["--queues", "critical=2,low"]);
        let worker = Program::start(worker);
        worker.wait_for(&[
            "to ann@example.com: Welcome",
            "to bob@example.com: Hi",
            "to ann@example.com: Now",
            "to a@x.io: News",
            "to b@x.io: News",
        ]);
        until(&client, "low", |low| low.completed == 1).await;
        worker.terminate();

        // In a second run, kept and waiting tasks exist already, and the rest is new.
        let again = stage.program(HELPER).arg("produce").output().unwrap();
        assert!(!again.status.success());
        assert!(text(&again.stderr).contains("an equal task already holds the unique lock"), "{}", text(&again.stderr));
    }
}
