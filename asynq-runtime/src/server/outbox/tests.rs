use std::sync::atomic::{AtomicUsize, Ordering};

use asynq_test_support::Log;
use metrics_exporter_prometheus::PrometheusBuilder;

use super::*;
use crate::{
    broker::RunToken,
    task::{Extra, TaskId, TaskMessage},
};

fn item(id: &str) -> Item {
    item_of("q", id)
}

fn item_of(queue: &str, id: &str) -> Item {
    let (queue, id) = (QueueName::from_wire(queue), TaskId::from_wire(id));
    let run = RunKey { queue, id, token: RunToken(1), server: 0, row: 0 };
    Item {
        settlement: Settlement { run, message: Arc::default(), action: Action::Done, resend: false },
        history: SendHistory::default(),
    }
}

fn refused(id: &str, refused: u32) -> Item {
    Item { history: SendHistory { refused, is_sent_alone: false }, ..item(id) }
}

/// Returns the ids in each of the batches in which `items` go out.
fn batches(mut items: Items) -> Vec<String> {
    let next = || {
        items.sent = None;
        let (batch, _) = items.next(Instant::now());
        (!batch.is_empty()).then(|| batch.iter().map(|sent| sent.run.id.to_string()).collect::<String>())
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn an_outcome_that_spoiled_a_call_is_sent_alone() {
    let mut items = Items { waiting: ["a", "b", "x", "y", "c"].map(item).into(), ..Items::default() };
    for number in [2, 3] {
        items.waiting[number].history.is_sent_alone = true;
    }
    assert_eq!(batches(items), ["ab", "x", "y", "c"]);
}

#[test]
fn a_call_that_is_refused_as_a_whole_is_sent_again_at_once_one_by_one_and_only_the_cause_waits() {
    let outbox = Outbox::default();
    let sent = || -> Vec<String> {
        outbox.items.lock().next(Instant::now()).0.iter().map(|sent| sent.run.id.to_string()).collect()
    };
    let refused = || Err(BrokerError::new(BrokerErrorKind::Unexpected, "one of them"));
    outbox.items.lock().waiting = ["a", "x", "b"].map(item).into();
    assert_eq!(sent(), ["a", "x", "b"]);
    outbox.answered(vec![refused(), refused(), refused()]);
    for (id, answer) in [("a", Ok(Settled::Ok)), ("x", refused()), ("b", Ok(Settled::Ok))] {
        assert_eq!(sent(), [id]);
        outbox.answered(vec![answer]);
    }
    let items = outbox.items.lock();
    assert!(items.waiting.is_empty() && items.deferred.len() == 1);
    assert!(items.deferred[0].1.history.is_sent_alone, "the cause would spoil another call");
}

fn retry((id, megabytes): (&str, usize)) -> Item {
    let message = TaskMessage { payload: vec![0_u8; megabytes << 20].into(), ..TaskMessage::default() };
    let action = Action::Retry { delay: Duration::ZERO, error: None, counted: true, extra: Extra::default() };
    let Item { settlement, history } = item(id);
    Item { settlement: Settlement { message: Arc::new(message), action, ..settlement }, history }
}

/// A call of 100 MB does not end in its time at 12 Mbit/s, and would be sent again from its beginning for ever.
#[test]
fn a_batch_of_large_outcomes_is_cut_and_one_that_is_larger_than_a_batch_is_sent_alone() {
    let waiting = [("a", 1), ("b", 1), ("c", 1), ("d", 1), ("e", 1), ("f", 5), ("g", 1)].map(retry).into();
    assert_eq!(batches(Items { waiting, ..Items::default() }), ["abcd", "e", "f", "g"]);
}

#[test]
fn outcomes_that_are_large_together_leave_no_room_until_some_are_taken() {
    let outbox = Outbox::new(512);
    let rooms = |answer| {
        outbox.items.lock().next(Instant::now());
        (outbox.answered(vec![answer]).was_full, outbox.room())
    };
    ["a", "b"].into_iter().for_each(|id| outbox.add(0, || Some(retry((id, 32)).settlement)));
    let away = BrokerError::new(BrokerErrorKind::Unavailable, "away");
    assert_eq!(
        [rooms(Err(away)), rooms(Ok(Settled::Fenced)), rooms(Ok(Settled::Ok))],
        [(true, 0), (true, 511), (false, 512)]
    );
}

#[test]
fn large_outcomes_that_are_refused_leave_room_for_one_task_at_a_time() {
    let outbox = Outbox::new(512);
    outbox.add(0, || Some(retry(("a", 64)).settlement));
    outbox.items.lock().next(Instant::now());
    let damaged = BrokerError::new(BrokerErrorKind::Corrupt, "a damaged page");
    let answered = outbox.answered(vec![Err(damaged)]);
    assert_eq!((answered.was_full, outbox.room()), (true, 1), "the fetcher must be woken");
    // No memory is used here for all that may be refused.
    outbox.items.lock().bytes = MOST_REFUSED;
    assert_eq!(outbox.room(), 0);
    outbox.items.lock().bytes = FULL;
    outbox.add(0, || Some(item("b").settlement));
    assert_eq!(outbox.room(), 0);
}

#[test]
fn a_sent_outcome_stays_until_it_is_answered_and_is_sent_again_marked_and_first() {
    let mut items = Items { waiting: ["a", "b"].map(item).into(), ..Items::default() };
    let now = Instant::now();
    let ids =
        |batch: &[Settlement]| batch.iter().map(|sent| (sent.run.id.to_string(), sent.resend)).collect::<Vec<_>>();
    let (first, next_due) = items.next(now);
    assert_eq!(ids(&first), [("a".to_owned(), false), ("b".to_owned(), false)]);
    assert_eq!((items.len(), next_due), (2, None));
    // The call that sent the first batch has panicked.
    items.waiting.push_back(item("c"));
    let (again, _) = items.next(now);
    assert_eq!(ids(&again), [("a".to_owned(), true), ("b".to_owned(), true), ("c".to_owned(), false)]);
    assert_eq!(items.len(), 3);
    items.sent = None;
    assert!(items.next(now).0.is_empty());
}

#[test]
fn outcomes_of_a_queue_that_is_away_let_those_of_others_pass() {
    let outbox = Outbox::default();
    let ids = |items: &Items| -> Vec<String> {
        items.waiting.iter().map(|item| item.settlement.run.id.to_string()).collect()
    };
    let (sent, waiting) = (["a1", "a2"].map(|id| item_of("away", id)), ["a3", "b1", "a4", "b2"]);
    let waiting = waiting.map(|id| item_of(if id.starts_with('a') { "away" } else { "here" }, id));
    outbox.items.lock().waiting = sent.into();
    outbox.items.lock().next(Instant::now());
    outbox.items.lock().waiting.extend(waiting);
    let away = BrokerError::new(BrokerErrorKind::Unavailable, "away");
    let answered = outbox.answered(vec![Err(away.clone()), Err(away)]);
    assert!(answered.error.is_some() && outbox.len() == 6);
    assert_eq!(ids(&outbox.items.lock()), ["b1", "b2", "a1", "a2", "a3", "a4"]);
}

#[test]
fn a_call_of_which_outcomes_are_refused_is_an_error_of_the_broker_and_one_line() {
    let (outbox, log) = (Outbox::default(), Log::keep());
    // A success before uses up no line.
    outbox.items.lock().waiting = [item("first")].into();
    outbox.items.lock().next(Instant::now());
    outbox.answered(vec![Ok(Settled::Ok)]);
    outbox.items.lock().waiting = ["a", "b", "c"].map(item).into();
    outbox.items.lock().next(Instant::now());
    let damaged = || Err(BrokerError::new(BrokerErrorKind::Corrupt, "a damaged page"));
    let recorder = Box::leak(Box::new(PrometheusBuilder::new().build_recorder()));
    let answers = vec![damaged(), Ok(Settled::Ok), damaged()];
    let answered = ::metrics::with_local_recorder(recorder, || outbox.answered(answers));
    assert!(answered.error.is_none() && answered.done == 1);
    let text = recorder.handle().render();
    let counted = "asynq_broker_errors_total{component=\"settler\",kind=\"corrupt\"} 1";
    assert!(text.lines().any(|line| line == counted), "{text}");
    let lines = log.with("a damaged page");
    assert!(lines.len() == 1 && lines[0].contains("refused=2 id=a"), "{lines:?}");
    // The next refusal comes too soon for another line.
    outbox.items.lock().waiting = [item("d")].into();
    outbox.items.lock().next(Instant::now());
    outbox.answered(vec![damaged()]);
    assert_eq!(log.with("a damaged page").len(), 1);
}

#[test]
fn lines_are_logged_without_the_lock_and_a_panic_in_one_loses_no_outcome() {
    let (outbox, locked) = (Arc::new(Outbox::default()), Arc::new(AtomicUsize::new(0)));
    let (seen, counted) = (Arc::clone(&outbox), Arc::clone(&locked));
    let log = Log::calling(move || {
        counted.fetch_add(usize::from(seen.items.is_locked()), Ordering::Relaxed);
        panic!("the line cannot be written");
    });
    outbox.items.lock().waiting = ["a", "b"].map(item).into();
    outbox.items.lock().next(Instant::now());
    let damaged = BrokerError::new(BrokerErrorKind::Corrupt, "a damaged page");
    let answered = outbox.answered(vec![Err(damaged), Ok(Settled::Fenced)]);
    assert_eq!((answered.lost, outbox.len()), (1, 1));
    assert_eq!((log.with("").len(), locked.load(Ordering::Relaxed)), (2, 0), "{:?}", log.with(""));
}

#[test]
fn a_refused_outcome_waits_longer_each_time_and_is_sent_again_in_its_order() {
    let (mut items, now) = (Items::default(), Instant::now());
    let ids = |batch: &[Settlement]| batch.iter().map(|sent| sent.run.id.to_string()).collect::<Vec<_>>();
    items.defer(["a", "b"].map(|id| refused(id, 1)).into_iter(), now);
    let (none, due) = items.next(now);
    assert!(none.is_empty());
    let due = due.unwrap();
    assert_eq!(due, now + 2 * FIRST_REFUSAL);
    items.defer([refused("often", 30)].into_iter(), now);
    assert_eq!(ids(&items.next(due).0), ["a", "b"]);
    items.sent = None;
    assert_eq!(items.next(due).1, Some(now + LONGEST_REFUSAL));
}

#[test]
fn a_server_that_leaves_sends_refused_outcomes_at_once_and_their_pauses_begin_anew() {
    let outbox = Outbox::default();
    outbox.gather();
    outbox.items.lock().defer([refused("refused", 30)].into_iter(), Instant::now());
    outbox.items.lock().requeued = ["a", "b"].map(item).into_iter().zip(1..).map(|(item, n)| (n, item)).collect();
    outbox.send_requeued();
    let (batch, due) = outbox.items.lock().next(Instant::now());
    let ids: Vec<_> = batch.iter().map(|sent| sent.run.id.to_string()).collect();
    assert_eq!((ids, due), (["refused", "b", "a"].map(str::to_owned).to_vec(), None));
    // A fetch that was under way may bring tasks even later.
    outbox.add(0, || Some(Settlement { action: Action::Requeue, ..item("late").settlement }));
    assert_eq!(outbox.items.lock().waiting.len(), 1, "the last to be sent");
    let away = BrokerError::new(BrokerErrorKind::Unavailable, "away");
    outbox.answered(vec![Err(away), Ok(Settled::Ok), Ok(Settled::Ok)]);
    let items = outbox.items.lock();
    assert_eq!(items.deferred.iter().map(|(_, item)| item.history.refused).collect::<Vec<_>>(), [1]);
}

#[test]
fn the_pauses_of_outcomes_that_are_under_way_when_a_server_leaves_begin_anew_too() {
    let outbox = Outbox::default();
    outbox.items.lock().waiting = [refused("often", 30), item("b")].into();
    outbox.items.lock().next(Instant::now());
    outbox.send_requeued();
    let away = BrokerError::new(BrokerErrorKind::Unavailable, "away");
    outbox.answered(vec![Err(away), Ok(Settled::Ok)]);
    let items = outbox.items.lock();
    assert_eq!(items.deferred.iter().map(|(_, item)| item.history.refused).collect::<Vec<_>>(), [1]);
}
