//! Contract `Produce`: a task replaces an equal one (docs/design/wire.md#replace).

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use asynq_runtime::{
    broker::{
        Action, Broker, Changed, NewTask, Placed, Refused, Replaces, RetryOrder, Run, Settled, Settlement, Wanted, When,
    },
    clock::ManualClock,
    task::{Extra, QueueName, TaskMessage, TaskState, UniqueUntil},
};

use asynq_tests::{
    Build as _, Seeded as _, Store as _, archive, archive_with, default_queue, done, join, lock_key, queue, requeue,
    retry, soon, task, task_id,
};
use bytes::Bytes;

use super::Fixture;

const SECOND: Duration = Duration::from_secs(1);

/// A task `id` with this payload that replaces the holder of the lock `k`, and is due in 30 s.
fn debounced(id: &str, payload: &'static str) -> NewTask {
    let replaces = Some(Replaces::default());
    NewTask { replaces, ..task(id).locked(&lock_key("k"), 60).with_payload(payload).after(30 * SECOND) }
}

fn at_once(id: &str, payload: &'static str) -> NewTask {
    NewTask { when: When::Now, ..debounced(id, payload) }
}

fn within(most: Duration, new: NewTask) -> NewTask {
    NewTask { replaces: Some(Replaces { within: Some(most) }), ..new }
}

/// The broker's time, rounded down to the millisecond as it stores times.
fn now(t: &Fixture) -> chrono::DateTime<chrono::Utc> {
    use chrono::SubsecRound as _;
    t.now().trunc_subsecs(3)
}

/// Whether an enqueue replaced `id`.
fn replaced(placed: &Placed, id: &str) -> bool {
    placed.replaced == Some(task_id(id))
}

fn payload_of(run: &Run) -> &[u8] {
    &run.text().payload
}

#[tokio::test]
async fn a_scheduled_task_takes_the_new_arguments_and_the_new_time() {
    let t = Fixture::start().await;
    let first = t.enqueue(debounced("a", "1")).await;
    assert_eq!((first.state, first.process_at, first.replaced), (TaskState::Scheduled, now(&t) + 30 * SECOND, None));
    t.advance(20 * SECOND);
    let newer = NewTask {
        message: TaskMessage { retry: 7, timeout: 9, ..debounced("b", "2").message },
        ..debounced("b", "2").with_header("h", "v").after(Duration::from_millis(30_250))
    };
    let second = t.enqueue(newer).await;
    assert!(replaced(&second, "a"));
    assert_eq!((second.state, second.process_at), (TaskState::Scheduled, now(&t) + Duration::from_millis(30_250)));
    assert_eq!(t.state_of("b").await, None, "nothing is stored under the new id");
    t.advance(29 * SECOND);
    assert_eq!(t.forward().await, 0, "the old time has passed, and counts no more");
    t.advance(Duration::from_millis(1_249));
    assert_eq!(t.forward().await, 0, "the new time holds to the millisecond");
    t.advance(Duration::from_millis(1));
    assert_eq!(t.forward().await, 1);
    let run = t.take_one().await;
    let message = run.text();
    assert_eq!((run.key.id.as_str(), message.id.as_str(), &message.payload[..]), ("a", "a", &b"2"[..]));
    assert_eq!((message.retry, message.timeout), (7, 9), "the options come with the arguments");
    assert_eq!(t.settle(&run, done()).await, Settled::Ok);
    assert_eq!(t.holder_of(&lock_key("k")).await, None);
    assert!(t.take(5).await.is_empty());
}

#[tokio::test]
async fn a_pending_task_waits_again_or_keeps_its_turn() {
    let t = Fixture::start().await;
    t.enqueue(at_once("a", "1")).await;
    t.enqueue(task("other")).await;
    let second = t.enqueue(at_once("b", "2")).await;
    assert!(replaced(&second, "a"));
    assert_eq!((second.state, second.process_at), (TaskState::Pending, now(&t)));
    assert_eq!(t.snapshot().await.ids(TaskState::Pending), ["a", "other"], "it keeps its turn");
    let third = t.enqueue(debounced("c", "3")).await;
    assert!(replaced(&third, "a") && third.state == TaskState::Scheduled);
    let fourth = t.enqueue(at_once("d", "4")).await;
    assert!(replaced(&fourth, "a") && fourth.state == TaskState::Pending, "out of the scheduled again");
    t.advance(2 * SECOND);
    t.enqueue(at_once("e", "5")).await;
    let runs = t.take_exactly(2).await;
    assert_eq!(runs.iter().map(|run| run.key.id.as_str()).collect::<Vec<_>>(), ["other", "a"]);
    assert_eq!(runs[1].waited, Some(2 * SECOND), "since it was pending again");
    assert_eq!(payload_of(&runs[1]), b"5");
    t.advance(60 * SECOND);
    assert_eq!(t.forward().await, 0, "no time of it is left behind");
}

#[tokio::test]
async fn a_task_in_retry_begins_anew_with_the_new_arguments() {
    let t = Fixture::start().await;
    t.enqueue(at_once("a", "1")).await;
    let run = t.take_one().await;
    t.broker().save_checkpoint(&run.key, &Bytes::from_static(b"half")).await.unwrap();
    t.broker().write_result(&run.key, &Bytes::from_static(b"of 1")).await.unwrap();
    t.settle(&run, retry(5 * SECOND, "boom")).await;
    let second = t.enqueue(debounced("b", "2")).await;
    assert!(replaced(&second, "a") && second.state == TaskState::Scheduled);
    let info = t.info("a").await.unwrap();
    assert_eq!((info.result, info.last_failed_at), (None, None));
    assert_eq!(t.broker().failures(&default_queue(), &task_id("a")).await.unwrap(), []);
    t.advance(6 * SECOND);
    assert_eq!(t.forward().await, 0, "the time of the retry counts no more");
    t.advance(25 * SECOND);
    assert_eq!(t.forward().await, 1);
    let run = t.take_one().await;
    assert_eq!((payload_of(&run), run.text().retried, run.text().error_msg.as_str()), (&b"2"[..], 0, ""));
    assert_eq!(t.broker().checkpoint(&run.key).await.unwrap(), None, "how far the old arguments got says nothing");
    t.settle(&run, retry(5 * SECOND, "again")).await;
    assert_eq!(t.broker().failures(&default_queue(), &task_id("a")).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_task_that_has_moved_takes_the_new_arguments_in_its_new_queue() {
    let t = Fixture::start().await;
    let low = queue("low");
    t.enqueue(debounced("a", "1")).await;
    assert_eq!(t.broker().move_task(&default_queue(), &task_id("a"), &low).await.unwrap(), Changed::Done);
    let there = lock_key("k").replace("{default}", "{low}");
    let second = NewTask { replaces: Some(Replaces::default()), ..task("b").locked(&there, 60).in_queue("low") };
    assert!(replaced(&t.enqueue(second).await, "a"));
}

#[tokio::test]
async fn a_crash_of_the_old_arguments_is_not_charged_to_the_new_ones() {
    let t = Fixture::start().await;
    t.enqueue(at_once("a", "1")).await;
    t.take_one().await;
    t.let_leases_pass();
    t.recover().await;
    assert!(replaced(&t.enqueue(at_once("b", "2")).await, "a"));
    let run = t.take_one().await;
    assert_eq!((payload_of(&run), run.crashes), (&b"2"[..], 0));
}

/// Starts a run of "1" and enqueues "2"; returns the broker, and the run of "1".
async fn overtaken() -> (Fixture, Run) {
    let t = Fixture::start().await;
    t.enqueue(at_once("a", "1")).await;
    let run = t.take_one().await;
    t.enqueue(task("other").locked(&lock_key("other"), 600).after(600 * SECOND)).await;
    let second = t.enqueue(debounced("b", "2")).await;
    assert_eq!((second.state, second.replaced.as_ref()), (TaskState::Scheduled, None), "a task of its own");
    assert_eq!(t.holder_of(&lock_key("k")).await, Some(task_id("b")), "which has the lock");
    (t, run)
}

/// Asserts that the newer task is scheduled, and the older one does not exist.
async fn only_the_newer_is_left(t: &Fixture) {
    assert_eq!(t.state_of("a").await, None);
    assert_eq!(t.holder_of(&lock_key("k")).await, Some(task_id("b")));
    assert_eq!(t.holder_of(&lock_key("other")).await, Some(task_id("other")));
    assert!(replaced(&t.enqueue(debounced("c", "3")).await, "b"));
    t.advance(31 * SECOND);
    t.forward().await;
    let run = t.take_one().await;
    assert_eq!((run.key.id.as_str(), payload_of(&run)), ("b", &b"3"[..]));
    t.settle(&run, done()).await;
    assert_eq!(t.holder_of(&lock_key("k")).await, None);
    assert!(t.take(5).await.is_empty());
}

#[tokio::test]
async fn a_running_task_is_followed_by_the_newer_one() {
    let (t, run) = overtaken().await;
    assert_eq!(t.settle(&run, done()).await, Settled::Ok);
    only_the_newer_is_left(&t).await;
}

#[tokio::test]
async fn a_run_with_older_arguments_does_not_run_again() {
    for action in [retry(SECOND, "boom"), archive("fatal"), requeue()] {
        let (t, run) = overtaken().await;
        assert_eq!(t.settle(&run, action).await, Settled::Ok);
        only_the_newer_is_left(&t).await;
    }
}

#[tokio::test]
async fn a_crashed_run_with_older_arguments_ends_when_it_is_requeued() {
    let (t, _) = overtaken().await;
    t.let_leases_pass();
    t.recover().await;
    let run = t.take_one().await;
    assert_eq!(run.key.id, "a");
    assert!(run.extra.replaced, "a server does not start it");
    t.settle(&run, requeue()).await;
    only_the_newer_is_left(&t).await;
}

#[tokio::test]
async fn an_orphan_with_older_arguments_does_not_run_again() {
    let (t, run) = overtaken().await;
    t.let_leases_pass();
    let ended = t.broker().end_orphan(&default_queue(), &run.key.id, "no worker runs it").await.unwrap();
    assert_eq!(ended, Changed::Done);
    let stats = t.snapshot().await.stats;
    assert_eq!((stats.active, stats.processed, stats.failed), (0, 1, 1), "it counts as a failure");
    only_the_newer_is_left(&t).await;
}

#[tokio::test]
async fn the_time_since_the_first_is_bounded() {
    let t = Fixture::start().await;
    let first = now(&t);
    t.enqueue(within(45 * SECOND, debounced("a", "0"))).await;
    for (payload, due) in [("1", 40), ("2", 45), ("3", 45)] {
        t.advance(10 * SECOND);
        let placed = t.enqueue(within(45 * SECOND, debounced("b", payload))).await;
        assert!(replaced(&placed, "a"));
        assert_eq!(placed.process_at, first + due * SECOND, "{payload}");
    }
    t.advance(20 * SECOND);
    let late = t.enqueue(within(45 * SECOND, debounced("b", "4"))).await;
    assert_eq!((late.state, late.process_at), (TaskState::Pending, now(&t)), "it has waited for long enough");
    let run = t.take_one().await;
    assert_eq!(payload_of(&run), b"4");
    // The next burst has a limit of its own, no matter if it begins beside the run or after a failure.
    let next = t.enqueue(within(45 * SECOND, debounced("c", "5"))).await;
    assert_eq!(next.process_at, now(&t) + 30 * SECOND);
    t.settle(&run, done()).await;
    t.advance(31 * SECOND);
    t.forward().await;
    let run = t.take_one().await;
    let extra = run.extra.clone();
    t.settle(&run, Action::Retry { delay: 600 * SECOND, error: None, counted: true, extra }).await;
    t.advance(50 * SECOND);
    let after_failure = t.enqueue(within(45 * SECOND, debounced("d", "6"))).await;
    assert!(replaced(&after_failure, "c"));
    assert_eq!(after_failure.process_at, now(&t) + 30 * SECOND);
}

/// The broker's clock was an hour ahead when the burst began.
#[tokio::test]
async fn a_burst_has_an_end_although_the_clock_was_set_back_since_its_beginning() {
    let t = Fixture::start().await;
    let ahead = t.store.connect(Some(Arc::new(ManualClock::new(t.now() + 3600 * SECOND)))).await;
    ahead.enqueue(vec![within(45 * SECOND, debounced("a", "0"))]).await.remove(0).unwrap();
    let end = now(&t) + 45 * SECOND;
    for (payload, due) in [("1", now(&t) + 30 * SECOND), ("2", end)] {
        let placed = t.enqueue(within(45 * SECOND, debounced("b", payload))).await;
        assert!(replaced(&placed, "a"));
        assert_eq!((placed.state, placed.process_at), (TaskState::Scheduled, due));
        t.advance(20 * SECOND);
    }
}

#[tokio::test]
async fn the_lock_begins_anew_with_the_new_time() {
    let t = Fixture::start().await;
    t.enqueue(debounced("a", "1")).await;
    t.advance(25 * SECOND);
    t.enqueue(debounced("b", "2")).await;
    t.advance(80 * SECOND);
    let refused = t.try_enqueue(task("plain").locked(&lock_key("k"), 60)).await;
    assert!(matches!(refused, Err(Refused::Duplicate { holder: Some(holder) }) if holder == task_id("a")));
    t.advance(20 * SECOND);
    assert_eq!(t.holder_of(&lock_key("k")).await, None);
}

#[tokio::test]
async fn a_task_that_neither_waits_nor_runs_is_not_replaced() {
    let t = Fixture::start().await;
    let extra = Extra { unique_until: UniqueUntil::Success.into(), ..Extra::default() };
    let run = t.start_run(task("a").locked(&lock_key("k"), 600).with_extra(extra.clone())).await;
    t.settle(&run, archive_with("fatal", extra)).await;
    let before = t.store.dump();
    let refused = t.try_enqueue(debounced("b", "2")).await;
    assert!(matches!(refused, Err(Refused::Duplicate { holder: Some(holder) }) if holder == task_id("a")));
    assert_eq!(t.store.dump(), before, "nothing changes");

    let t = Fixture::start().await;
    t.enqueue(task("grouped").locked(&lock_key("k"), 600).grouped("g")).await;
    t.enqueue(task("to-group").locked(&lock_key("j"), 600).grouped("g").after(30 * SECOND)).await;
    for key in ["k", "j"] {
        let before = t.store.dump();
        let refused = t.try_enqueue(debounced("b", "2").locked(&lock_key(key), 600)).await;
        assert!(matches!(refused, Err(Refused::Duplicate { .. })), "{refused:?}");
        assert_eq!(t.store.dump(), before, "nothing changes");
    }
}

#[tokio::test]
async fn of_several_in_one_call_the_last_counts() {
    let t = Fixture::start().await;
    let mut batch: Vec<NewTask> = vec![debounced("a", "1"), task("x"), debounced("b", "2"), task("y")];
    batch.extend([debounced("c", "3"), task("x"), debounced("a", "taken")]);
    let outcomes = t.broker().enqueue(batch).await;
    assert_eq!(outcomes.len(), 7);
    let placed: Vec<Option<&Placed>> = outcomes.iter().map(|outcome| outcome.as_ref().ok()).collect();
    assert!(placed[0].is_some_and(|placed| placed.replaced.is_none()));
    assert!(
        placed[2].is_some_and(|placed| replaced(placed, "a")) && placed[4].is_some_and(|placed| replaced(placed, "a"))
    );
    assert!(placed[1].is_some() && placed[3].is_some());
    assert!(matches!(outcomes[5], Err(Refused::IdConflict)) && matches!(outcomes[6], Err(Refused::IdConflict)));
    t.advance(31 * SECOND);
    assert_eq!(t.forward().await, 1);
    let runs = t.take_exactly(3).await;
    let run = runs.iter().find(|run| run.key.id == "a").unwrap();
    assert_eq!(payload_of(run), b"3");
    // More than one call of the script takes.
    let many = (0..200).map(|_| within(SECOND, debounced(&uuid(), "n")));
    let outcomes = t.broker().enqueue(many.collect()).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.as_ref().is_ok_and(|p| p.replaced.is_some())).count(), 199);
}

fn uuid() -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    format!("n{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

#[tokio::test]
async fn a_replaced_task_keeps_the_promise_to_its_waiter() {
    let t = Fixture::start().await;
    let extra = Extra { awaited: true, ..Extra::default() };
    t.enqueue(debounced("a", "1").with_retention(60).with_extra(extra)).await;
    t.enqueue(debounced("b", "2")).await;
    t.advance(31 * SECOND);
    t.forward().await;
    let run = t.take_one().await;
    assert!(run.extra.awaited);
    assert_eq!(run.text().retention, 60);
}

const KEYS: usize = 6;
const VALUES: usize = 40;

/// Enqueues values, each after the previous one is stored.
async fn produce(broker: Arc<dyn Broker>, key: usize) {
    for value in 0..VALUES {
        let payload = format!("{key} {value} {value}");
        let new = task(&format!("{key}-{value}")).locked(&lock_key(&key.to_string()), 600).with_payload(payload);
        let new = NewTask { replaces: Some(Replaces { within: Some(Duration::from_millis(20)) }), ..new };
        let when = When::In(Duration::from_millis(2));
        let placed = broker.enqueue(vec![NewTask { when, ..new }]).await.remove(0);
        placed.unwrap_or_else(|error| panic!("{key} {value}: {error}"));
        tokio::task::yield_now().await;
    }
}

/// The largest value of each key with a successful run.
type Seen = Arc<Mutex<BTreeMap<usize, usize>>>;

/// Runs tasks with every kind of outcome, until all values are produced and no task is left.
async fn work(broker: Arc<dyn Broker>, number: u32, producing: Arc<AtomicUsize>, seen: Seen) {
    let member = join(&*broker, number).await;
    let queues: [QueueName; 1] = [default_queue()];
    for round in 0.. {
        let over = producing.load(Ordering::SeqCst) == 0;
        broker.forward(&queues, RetryOrder::Last).await.unwrap();
        let runs = broker.dequeue(&member, &[Wanted { queue: default_queue(), n: 2 }]).await.unwrap();
        let idle = runs.is_empty();
        for run in runs {
            let message = run.message.clone().unwrap();
            let text = String::from_utf8(message.payload.to_vec()).unwrap();
            let parts: Vec<usize> = text.split(' ').map(|part| part.parse().unwrap()).collect();
            assert_eq!(parts[1], parts[2], "arguments of two enqueues are mixed: {text}");
            let action = match round % 5 {
                _ if run.extra.replaced => Action::Requeue,
                1 => retry(Duration::from_millis(1), "boom"),
                3 => Action::Requeue,
                _ => done(),
            };
            let is_success = action == done();
            let settlement = Settlement { run: run.key.clone(), message: Arc::new(message), action, resend: false };
            assert_eq!(broker.settle(&[settlement]).await[0].clone().unwrap(), Settled::Ok);
            if is_success {
                let mut seen = seen.lock().unwrap();
                let last = seen.entry(parts[0]).or_default();
                *last = parts[1].max(*last);
            }
        }
        if idle && over && broker.queue_stats(&default_queue()).await.unwrap().size == 0 {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_value_of_each_key_runs_in_any_race() {
    let t = Fixture::real_time().await;
    let (producing, seen) = (Arc::new(AtomicUsize::new(KEYS)), Seen::default());
    let mut all = tokio::task::JoinSet::new();
    for key in 0..KEYS {
        let (broker, producing) = (t.another_broker().await, Arc::clone(&producing));
        all.spawn(async move {
            produce(broker, key).await;
            producing.fetch_sub(1, Ordering::SeqCst);
        });
    }
    for number in 0..3 {
        all.spawn(work(t.another_broker().await, 10 + number, Arc::clone(&producing), Arc::clone(&seen)));
    }
    soon(all.join_all()).await;
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen, (0..KEYS).map(|key| (key, VALUES - 1)).collect());
    for key in 0..KEYS {
        assert_eq!(t.holder_of(&lock_key(&key.to_string())).await, None, "no lock is left");
    }
}
