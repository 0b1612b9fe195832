//! The member is half of a run's name: two programs may draw equal tokens.

use asynq_runtime::{
    Bytes,
    broker::{Maintain as _, RunKey},
    task::Progress,
};

use super::*;
use crate::answered;

#[tokio::test]
async fn an_equal_token_of_another_member_names_another_run() {
    let broker = SqliteBroker::in_memory(SqliteOptions::default()).await.unwrap();
    let (holder, other) = (join(&broker).await, join(&broker).await);
    for id in ["plain", "locked"] {
        let new = if id == "locked" { unique(id, "k") } else { task(id) };
        enqueue(&broker, new).await.unwrap();
    }
    for run in dequeue(&broker, &holder, 2).await {
        let key = RunKey { server: other.number, ..run.key.clone() };
        let actions = [
            Action::Done,
            Action::Complete { result: None },
            Action::Retry { delay: Duration::ZERO, error: None, counted: true, extra: Extra::default() },
            Action::Archive { error: "fatal".into(), extra: Extra::default() },
            Action::Requeue,
        ];
        for action in actions {
            for resend in [false, true] {
                let settlement = Settlement { run: key.clone(), resend, ..outcome(&run, action.clone()) };
                assert_eq!(settle(&broker, settlement).await, Settled::Fenced, "{action:?}");
            }
        }
        assert_eq!(answered(broker.extend(std::slice::from_ref(&key)).await), [Settled::Fenced]);
        let progress = Progress::new(0.5, "half");
        assert_eq!(broker.write_progress(&key, &progress).await.unwrap(), Settled::Fenced);
        assert_eq!(broker.write_result(&key, &Bytes::from_static(b"1")).await.unwrap(), Settled::Fenced);
        assert_eq!(broker.free_lock(&key, "k").await.unwrap(), Settled::Fenced);
        assert!(matches!(enqueue(&broker, unique("second", "k")).await, Err(Refused::Duplicate { .. })));
        assert_eq!(settle(&broker, outcome(&run, Action::Done)).await, Settled::Ok, "the holder still can");
    }
}
