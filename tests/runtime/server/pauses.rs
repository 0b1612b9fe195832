//! Pauses that keep a server from doing something too often, or all servers from doing it at once.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

use asynq_runtime::{
    Client,
    broker::{Action, Broker},
    prelude::*,
};
use asynq_test_support::{eventually, soon};

use super::{flaky::Flaky, memory, server, start};

#[job]
async fn fails(n: u32) -> JobResult {
    Err(format!("{n} failed").into())
}

#[tokio::test]
async fn tasks_that_fail_together_are_not_retried_together() {
    let flaky = Flaky::new(memory().await);
    let broker: Arc<dyn Broker> = flaky.clone();
    Client::new(broker.clone()).enqueue_many((0..40).map(fails::job)).await.unwrap();
    let (builder, _log) = server::<(fails,)>(&broker);
    let running = start(builder).await;
    soon(running.signals().settled.reached(40)).await;
    let delays: BTreeSet<Duration> = flaky.settled.lock().unwrap().iter().map(|(_, end)| delay(&end.action)).collect();
    // asynq's first delay is 15 s, and up to 29 s more by chance.
    assert!(delays.iter().all(|delay| (15..45).contains(&delay.as_secs())), "{delays:?}");
    assert!(delays.len() > 5, "{delays:?}");
}

fn delay(action: &Action) -> Duration {
    match action {
        Action::Retry { delay, .. } => *delay,
        other => panic!("the job failed, but its task ended with {other:?}"),
    }
}

/// Beside many threads the waits of a fetcher without pauses are far apart as well, because the processors are taken from it.
mod timing {
    use super::*;

    #[tokio::test]
    async fn a_fetcher_that_is_woken_for_nothing_again_and_again_pauses() {
        let flaky = Flaky::new(memory().await);
        flaky.spurious_wakeups.store(true, SeqCst);
        let broker: Arc<dyn Broker> = flaky.clone();
        let (builder, _log) = server::<(fails,)>(&broker);
        let _running = start(builder).await;
        // The longest pause is a quarter of a second, and at least half of it is certain.
        let waits = eventually("three pauses of a fetcher", async || {
            let alarms = flaky.alarms.lock().unwrap();
            let pauses = alarms.windows(2).filter(|pair| pair[1] - pair[0] >= Duration::from_millis(60)).count();
            (pauses >= 3).then_some(alarms.len())
        })
        .await;
        assert!(waits < 1_000, "{waits} waits");
    }
}
