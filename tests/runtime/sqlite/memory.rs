//! The facts that a file keeps beside its tasks: failures, counters, locks that end early or late, tokens.

use asynq_runtime::{
    broker::{HeldLock, Inspect as _, Maintain as _, RetryOrder, Semaphores as _},
    task::{TaskState, UniqueUntil},
};

use asynq_test_support::soon;

use super::{others::check_whole, *};
use crate::answered;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn retry(error: Option<&str>) -> Action {
    Action::Retry { delay: Duration::ZERO, error: error.map(Into::into), counted: true, extra: Extra::default() }
}

fn archive(until: UniqueUntil) -> Action {
    let extra = Extra { unique_until: until.into(), ..Extra::default() };
    Action::Archive { error: "fatal".into(), extra }
}

async fn failures(broker: &SqliteBroker, id: &str) -> Vec<(u32, String)> {
    let failures = broker.failures(&queue(), &TaskId::new(id).unwrap()).await.unwrap();
    failures.into_iter().map(|failure| (failure.number, failure.error)).collect()
}

#[tokio::test]
async fn the_last_ten_failures_of_a_task_are_kept_and_go_with_it() {
    let World { folder, clock, broker } = World::new().await;
    let member = join(&broker).await;
    enqueue(&broker, task("other")).await.unwrap();
    let run = dequeue(&broker, &member, 1).await.remove(0);
    settle(&broker, outcome(&run, archive(UniqueUntil::End))).await;
    enqueue(&broker, task("a")).await.unwrap();
    for n in 1..=12 {
        let run = dequeue(&broker, &member, 1).await.remove(0);
        clock.advance(SECOND);
        let ended = outcome(&run, retry(Some(&format!("error {n}"))));
        assert_eq!(settle(&broker, ended.clone()).await, Settled::Ok);
        // The outcome is sent once more, as after a lost answer.
        assert_eq!(settle(&broker, Settlement { resend: true, ..ended }).await, Settled::Ok);
        broker.forward(&[queue()], RetryOrder::Last).await.unwrap();
    }
    let run = dequeue(&broker, &member, 1).await.remove(0);
    settle(&broker, outcome(&run, retry(None))).await;
    let expected: Vec<_> = (3..=12).rev().map(|n| (n, format!("error {n}"))).collect();
    assert_eq!(failures(&broker, "a").await, expected);
    let seen = broker.failures(&queue(), &TaskId::new("a").unwrap()).await.unwrap();
    assert_eq!(seen[0].at, broker.now());
    assert_eq!(failures(&broker, "nobody").await, []);

    broker.forward(&[queue()], RetryOrder::Last).await.unwrap();
    let run = dequeue(&broker, &member, 1).await.remove(0);
    assert_eq!(settle(&broker, outcome(&run, Action::Done)).await, Settled::Ok);
    assert_eq!(failures(&broker, "other").await, [(1, "fatal".into())], "another's stay");
    clock.advance(SECOND);
    broker.trim_archive(&queue(), Duration::ZERO, 0, 10).await.unwrap();
    let left = rusqlite::Connection::open(folder.path().join("jobs.db")).unwrap();
    assert_eq!(left.query_row("SELECT count(*) FROM failure", [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    broker.close().await;
    check_whole(&folder.path().join("jobs.db"));
}

async fn holder(broker: &SqliteBroker, key: &str) -> Option<String> {
    let taken = enqueue(broker, unique("probe", key)).await;
    match taken {
        Err(Refused::Duplicate { holder }) => holder.map(|id| id.to_string()),
        other => panic!("the lock was free: {other:?}"),
    }
}

#[tokio::test]
async fn a_sweep_deletes_the_last_cancel_requests_when_they_are_old() {
    let World { folder, clock, broker } = World::new().await;
    let count = || {
        let file = rusqlite::Connection::open(folder.path().join("jobs.db")).unwrap();
        file.query_row("SELECT count(*) FROM signal", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    for id in ["a", "b"] {
        broker.cancel(&TaskId::new(id).unwrap()).await.unwrap();
    }
    clock.advance(600 * SECOND);
    broker.sweep(&queue()).await.unwrap();
    assert_eq!(count(), 2, "a server that stood still may read them");
    clock.advance(MS);
    broker.sweep(&queue()).await.unwrap();
    assert_eq!(count(), 0);
    broker.close().await;
}

#[tokio::test]
async fn an_archived_task_keeps_its_lock_if_it_asked_to_until_it_is_deleted() {
    let World { folder, clock, broker } = World::new().await;
    let member = join(&broker).await;
    for (id, until) in [("end", UniqueUntil::End), ("success", UniqueUntil::Success)] {
        enqueue(&broker, unique(id, id)).await.unwrap();
        let run = dequeue(&broker, &member, 1).await.remove(0);
        assert_eq!(settle(&broker, outcome(&run, archive(until))).await, Settled::Ok);
    }
    assert_eq!(holder(&broker, "success").await.unwrap(), "success");
    enqueue(&broker, unique("next", "end")).await.unwrap();
    clock.advance(SECOND);
    assert_eq!(broker.trim_archive(&queue(), Duration::ZERO, 0, 10).await.unwrap(), 2);
    enqueue(&broker, unique("after", "success")).await.unwrap();
    broker.close().await;
    check_whole(&folder.path().join("jobs.db"));
}

#[tokio::test]
async fn a_lock_is_freed_only_by_the_run_that_holds_its_task() {
    let World { folder: _folder, clock, broker } = World::new().await;
    let member = join(&broker).await;
    enqueue(&broker, unique("a", "k")).await.unwrap();
    let stale = dequeue(&broker, &member, 1).await.remove(0);
    clock.advance(11 * SECOND);
    broker.recover(&[queue()]).await.unwrap();
    assert_eq!(broker.free_lock(&stale.key, "k").await.unwrap(), Settled::Fenced);
    assert_eq!(holder(&broker, "k").await.unwrap(), "a");
    let run = dequeue(&broker, &member, 1).await.remove(0);
    for _ in 0..2 {
        assert_eq!(broker.free_lock(&run.key, "k").await.unwrap(), Settled::Ok);
    }
    enqueue(&broker, unique("b", "k")).await.unwrap();
    assert_eq!(broker.free_lock(&run.key, "k").await.unwrap(), Settled::Ok);
    assert_eq!(holder(&broker, "k").await.unwrap(), "b", "it is another's by now");
    assert_eq!(settle(&broker, outcome(&run, Action::Done)).await, Settled::Ok);
    assert_eq!(broker.free_lock(&run.key, "k").await.unwrap(), Settled::Gone);
}

#[tokio::test]
async fn a_lock_lasts_as_long_as_its_run_is_extended_and_never_shorter_than_it_would() {
    let World { folder: _folder, clock, broker } = World::new().await;
    let member = join(&broker).await;
    let mut tasks = vec![unique("long", "long"), unique("short", "short"), unique("stale", "stale")];
    for (task, ttl) in tasks.iter_mut().zip([600 * SECOND, SECOND, SECOND]) {
        task.unique.as_mut().unwrap().ttl = ttl;
    }
    broker.enqueue(tasks).await;
    let runs = dequeue(&broker, &member, 3).await;
    let keys: Vec<_> = runs.iter().map(|run| run.key.clone()).collect();
    let mut locks: Vec<_> =
        keys.iter().map(|run| HeldLock { run: run.clone(), key: run.id.as_str().to_owned() }).collect();
    locks[2].run.token.0 += 1;
    clock.advance(SECOND - MS);
    broker.extend_locks(&locks).await.unwrap();
    clock.advance(200 * SECOND - MS);
    answered(broker.extend(&keys).await);
    assert_eq!(holder(&broker, "short").await.unwrap(), "short");
    enqueue(&broker, unique("after stale", "stale")).await.unwrap();
    clock.advance(MS);
    // The time of the lock has passed before it was extended again, and no caller has taken it meanwhile.
    broker.extend_locks(&locks).await.unwrap();
    let refused = enqueue(&broker, unique("after short", "short")).await;
    assert!(matches!(refused, Err(Refused::Duplicate { .. })), "{refused:?}");
    clock.advance(399 * SECOND);
    assert_eq!(holder(&broker, "long").await.unwrap(), "long", "ten minutes are ten minutes");
    clock.advance(MS);
    enqueue(&broker, unique("after long", "long")).await.unwrap();
}

#[tokio::test]
async fn tokens_are_counted_over_all_programs_and_end_to_the_millisecond() {
    let World { folder, clock, broker } = World::new().await;
    let options = with_clock(clock.clone());
    let other = SqliteBroker::open(&url(&folder.path().join("jobs.db")), options).await.unwrap();
    let id = |id: &str| TaskId::new(id).unwrap();
    let until = broker.now() + SECOND;
    let acquire = async |broker: &SqliteBroker, scope: &str, max, task: &str, until| {
        broker.acquire_token(scope, max, &id(task), until, Duration::ZERO, false).await.unwrap().is_some()
    };
    assert!(acquire(&broker, "s", 2, "a", until).await);
    assert!(acquire(&other, "s", 2, "b", until + SECOND).await);
    for broker in [&broker, &other] {
        assert!(!acquire(broker, "s", 2, "c", until).await);
        assert!(acquire(broker, "another scope", 2, "c", until).await || std::ptr::eq(broker, &other));
    }
    clock.advance(SECOND - MS);
    assert!(!acquire(&broker, "s", 2, "c", until).await);
    clock.advance(MS);
    assert!(acquire(&broker, "s", 2, "c", until + SECOND).await);
    assert!(!acquire(&broker, "s", 2, "a", until + SECOND).await, "b and c have them");
    assert!(!other.release_token("s", &id("a"), until).await.unwrap());
    assert!(other.release_token("s", &id("b"), until + SECOND).await.unwrap());
    assert!(acquire(&broker, "s", 2, "a", until + SECOND).await);
    assert!(!acquire(&broker, "none", 0, "a", until).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_tokens_are_out_than_there_are_however_many_ask() {
    let (_folder, file) = new_file();
    let brokers = [open(&file).await, open(&file).await].map(Arc::new);
    let (out, most) = (Arc::new(std::sync::atomic::AtomicUsize::new(0)), 3);
    let mut askers = Vec::new();
    for asker in 0..8 {
        let (broker, out) = (Arc::clone(&brokers[asker % 2]), Arc::clone(&out));
        askers.push(tokio::spawn(async move {
            let id = TaskId::new(&format!("t{asker}")).unwrap();
            let mut got = 0;
            while got < 10 {
                let until = broker.now() + HOUR;
                if broker.acquire_token("s", most, &id, until, HOUR, false).await.unwrap().is_some() {
                    let now_out = out.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
                    assert!(now_out <= most, "{now_out} tokens are out");
                    tokio::task::yield_now().await;
                    out.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    assert!(broker.release_token("s", &id, until).await.unwrap());
                    got += 1;
                }
            }
        }));
    }
    for asker in askers {
        soon(asker).await.unwrap();
    }
}

#[tokio::test]
async fn history_and_weight_are_those_of_the_tasks() {
    let World { folder: _folder, clock, broker } = World::new().await;
    assert_eq!(broker.memory_usage(&queue()).await.unwrap(), 0);
    let member = join(&broker).await;
    for action in [Action::Done, archive(UniqueUntil::End)] {
        enqueue(&broker, task("a")).await.unwrap();
        let run = dequeue(&broker, &member, 1).await.remove(0);
        settle(&broker, outcome(&run, action)).await;
        clock.advance(24 * 3_600 * SECOND);
    }
    let history = broker.history(&queue(), 3).await.unwrap();
    let numbers: Vec<_> = history.iter().map(|day| (day.processed, day.failed)).collect();
    assert_eq!(numbers, [(0, 0), (1, 1), (1, 0)]);
    assert_eq!(history[0].date, broker.now().date_naive());
    assert_eq!(history[2].date + chrono::Days::new(2), history[0].date);
    assert_eq!(broker.history(&queue(), 0).await.unwrap(), []);
    assert_eq!(broker.history(&QueueName::new("none").unwrap(), usize::MAX).await.unwrap().len(), 90);

    let small = broker.memory_usage(&queue()).await.unwrap();
    assert!((100..1_000).contains(&small), "{small}");
    let mut large = task("large");
    large.message.payload = vec![7; 100_000].into();
    enqueue(&broker, large).await.unwrap();
    let weight = broker.memory_usage(&queue()).await.unwrap();
    assert!((100_000..102_000).contains(&(weight - small)), "{weight}");
    assert_eq!(
        broker.tasks(&queue(), TaskState::Pending, asynq_runtime::broker::Page::default()).await.unwrap().len(),
        1
    );
}

#[tokio::test]
async fn a_failure_that_an_older_program_recorded_is_shown_and_counted() {
    let World { folder, clock, broker } = World::new().await;
    let mut old = task("a");
    old.message.retried = 3;
    old.message.error_msg = "old".into();
    old.message.last_failed_at = broker.now().timestamp();
    enqueue(&broker, old).await.unwrap();
    assert_eq!(failures(&broker, "a").await, [(3, "old".into())]);
    let member = join(&broker).await;
    let run = dequeue(&broker, &member, 1).await.remove(0);
    clock.advance(SECOND);
    settle(&broker, outcome(&run, retry(Some("new")))).await;
    assert_eq!(failures(&broker, "a").await, [(4, "new".into())]);
    clock.advance(SECOND);
    let elsewhere = rusqlite::Connection::open(folder.path().join("jobs.db")).unwrap();
    let failed = "UPDATE task SET err = 'newer', retried = 5, failed_at = ?1";
    elsewhere.execute(failed, [broker.now().timestamp_millis()]).unwrap();
    assert_eq!(failures(&broker, "a").await, [(5, "newer".into()), (4, "new".into())]);
}
