use std::sync::Mutex;

use tokio::sync::{Semaphore, oneshot};

use super::*;
use crate::{
    broker::BrokerErrorKind,
    clock::SystemClock,
    task::{QueueName, TaskState},
};

use super::super::{
    migrate,
    order::{Call, Order, Ticket},
    sql,
};

fn writer() -> Writer {
    let mut connection = connection::open_memory().unwrap();
    let names = migrate::settle_in(&mut connection, false, ":memory:", |_| Ok(())).unwrap();
    let common = Arc::new(Common::in_memory(Names::Plain, Arc::new(SystemClock)));
    Writer::new(common, connection, names, None, mpsc::channel().1, watch::channel(false).0)
}

type Answer<T> = oneshot::Receiver<Result<T, BrokerError>>;

fn call<T: Send + 'static>(order: Order<T>) -> (Box<dyn Work>, Answer<T>) {
    let (reply, answer) = oneshot::channel();
    let room = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
    (Box::new(Call::new(order, Arc::<Ticket>::default(), reply, room)), answer)
}

/// Adds a row of `bytes` bytes to a queue that `name` names.
fn insert(stage: Stage, name: &'static str, bytes: usize) -> (Box<dyn Work>, Answer<()>) {
    call(Order::new(stage, 1, move |tx| {
        let q = tx.queue_or_new(&QueueName::from_wire(name))?;
        tx.view.execute(&sql::BODY_INSERT, rusqlite::params![q, vec![7_u8; bytes]])?;
        tx.came(q, TaskState::Pending);
        Ok(())
    }))
}

fn kind<T>(mut answer: Answer<T>) -> Option<BrokerErrorKind> {
    answer.try_recv().unwrap().err().map(|error| error.kind())
}

fn queues(writer: &Writer) -> i64 {
    writer.connection.query_row("SELECT count(*) FROM queue", [], |row| row.get(0)).unwrap()
}

#[test]
fn when_there_is_no_room_inserts_are_refused_and_outcomes_still_go_through() {
    let mut writer = writer();
    writer.connection.execute_batch("PRAGMA max_page_count = 60").unwrap();
    let (large, large_answer) = insert(Stage::Insert, "large", 1 << 20);
    let (small, small_answer) = insert(Stage::Insert, "small", 10);
    let (outcome, outcome_answer) = insert(Stage::Settle, "outcome", 10);
    let left = writer.process(vec![small, large, outcome], &Ringer::ready());
    assert!(left.is_empty());
    assert_eq!(kind(large_answer), Some(BrokerErrorKind::Full));
    assert_eq!(kind(small_answer), Some(BrokerErrorKind::Full), "the whole batch was rolled back");
    assert_eq!(kind(outcome_answer), None);
    assert_eq!(queues(&writer), 1);
    let (small, answer) = insert(Stage::Insert, "small", 10);
    writer.process(vec![small], &Ringer::ready());
    assert_eq!(kind(answer), None, "what fits is accepted again");
}

#[test]
fn a_call_that_fails_takes_no_other_with_it() {
    let mut writer = writer();
    let (good, good_answer) = insert(Stage::Insert, "good", 1);
    let (bad, bad_answer) = call(Order::new(Stage::Insert, 1, |tx| {
        tx.queue_or_new(&QueueName::from_wire("never"))?;
        tx.view.execute(&sql::BODY_INSERT, rusqlite::params![1, rusqlite::types::Null])?;
        Ok(())
    }));
    let (other, other_answer) = insert(Stage::Settle, "other", 1);
    writer.process(vec![good, bad, other], &Ringer::ready());
    assert_eq!(kind(good_answer), None);
    assert_eq!(kind(bad_answer), Some(BrokerErrorKind::Unexpected));
    assert_eq!(kind(other_answer), None);
    assert_eq!(queues(&writer), 2, "nothing is left of the one that failed");
}

#[test]
fn a_long_transaction_is_cut_and_nothing_is_lost() {
    let mut writer = writer();
    let done = Arc::new(Mutex::new(Vec::new()));
    let mut answers = Vec::new();
    let mut batch = Vec::new();
    for n in 0..3 {
        let done = Arc::clone(&done);
        let (work, answer) = call(Order::new(Stage::Settle, 1, move |_| {
            std::thread::sleep(MOST_TIME);
            done.lock().unwrap().push(n);
            Ok(())
        }));
        batch.push(work);
        answers.push(answer);
    }
    let mut rounds = 0;
    while !batch.is_empty() {
        batch = writer.process(batch, &Ringer::ready());
        rounds += 1;
    }
    assert_eq!(rounds, 3);
    assert_eq!(*done.lock().unwrap(), [0, 1, 2]);
    assert!(answers.into_iter().all(|answer| kind(answer).is_none()));
}

/// Takes all the time of a transaction, and sees to it that another of its kind waits then.
fn flood(inbox: mpsc::Sender<Message>, done: Arc<Mutex<Vec<&'static str>>>, left: u32) -> Box<dyn Work> {
    let order = Order::new(Stage::Settle, 1, move |_| {
        std::thread::sleep(MOST_TIME);
        done.lock().unwrap().push("flood");
        let next = match left.checked_sub(1) {
            Some(left) => Message::Work(flood(inbox.clone(), Arc::clone(&done), left)),
            None => Message::Stop,
        };
        inbox.send(next).map_err(|_| rusqlite::Error::InvalidQuery)
    });
    call(order).0
}

#[test]
fn what_was_left_over_comes_before_a_flood_of_earlier_stages() {
    let (sender, inbox) = mpsc::channel();
    let done = Arc::new(Mutex::new(Vec::new()));
    let claimed = Arc::clone(&done);
    let (claim, answer) = call(Order::new(Stage::Claim, 1, move |_| {
        claimed.lock().unwrap().push("claim");
        Ok(())
    }));
    for work in [flood(sender.clone(), Arc::clone(&done), 5), claim] {
        assert!(sender.send(Message::Work(work)).is_ok());
    }
    Writer { inbox, ..writer() }.run();
    assert_eq!(done.lock().unwrap()[..2], ["flood", "claim"]);
    assert_eq!(kind(answer), None);
}

#[test]
fn a_call_that_was_given_up_is_never_begun() {
    let mut writer = writer();
    let (reply, answer) = oneshot::channel();
    let ticket = Arc::<Ticket>::default();
    assert!(ticket.give_up());
    let order = Order::<()>::new(Stage::Insert, 1, |_| panic!("nobody wants this any more"));
    let room = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
    writer.process(vec![Box::new(Call::new(order, ticket, reply, room))], &Ringer::ready());
    drop(answer);
}

#[test]
fn counts_are_written_once_per_commit_and_state() {
    let mut writer = writer();
    let (one, _a) = insert(Stage::Insert, "a", 1);
    let (two, _b) = call(Order::new(Stage::Settle, 1, |tx| {
        let q = tx.queue_or_new(&QueueName::from_wire("a"))?;
        tx.left(q, TaskState::Pending);
        for failed in [true, false] {
            tx.ended(q, failed);
        }
        Ok(())
    }));
    writer.process(vec![one, two], &Ringer::ready());
    let row = |sql: &str| {
        let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
        writer.connection.query_row(sql, [], read).unwrap()
    };
    assert_eq!(row("SELECT state, n FROM tally"), (2, 0), "the queue has been used");
    assert_eq!(row("SELECT processed, failed FROM stat WHERE day = -1"), (2, 1));
    assert_eq!(row("SELECT count(*), sum(processed) FROM stat"), (2, 4), "today and all time");
}

#[test]
fn only_a_commit_of_what_a_power_cut_may_take_back_does_not_wait_for_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    for normal in [false, true] {
        let file = folder.path().join(format!("normal-{normal}.db"));
        let mut connection = connection::open_untouched(&file).unwrap();
        let make_writer = |new: &Connection| connection::make_writer(new, normal);
        let names = migrate::settle_in(&mut connection, false, "here", make_writer).unwrap();
        let common = Arc::new(Common::in_file(file, Names::Plain, normal, Arc::new(SystemClock)).unwrap());
        let mut writer = Writer::new(common, connection, names, None, mpsc::channel().1, watch::channel(false).0);
        let claim = || call(Order::new(Stage::Claim, 1, |_| Ok(())).may_be_lost());
        let settle = |queue| insert(Stage::Settle, queue, 1);
        for (what, works, waits) in [
            ("an outcome", vec![settle("a")], true),
            ("a claim", vec![claim()], false),
            ("two claims", vec![claim(), claim()], false),
            ("an outcome and a claim", vec![settle("b"), claim()], true),
        ] {
            let (batch, answers): (Vec<_>, Vec<_>) = works.into_iter().unzip();
            assert!(writer.process(batch, &Ringer::ready()).is_empty());
            assert!(answers.into_iter().all(|answer| kind(answer).is_none()), "{what}");
            let mode: i64 = writer.connection.query_row("PRAGMA synchronous", [], |row| row.get(0)).unwrap();
            assert_eq!(mode == 2, waits && !normal, "{what}, durability=normal: {normal}");
        }
    }
}
