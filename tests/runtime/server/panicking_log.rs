//! A subscriber whose lines panic, as `tracing_subscriber::fmt::init` makes one where neither the log nor standard error can be
//! written.

use std::{
    io::Stderr,
    panic::{panic_any, set_hook, take_hook},
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

use asynq_runtime::{
    broker::{Broker, sqlite::SqliteBroker},
    prelude::*,
};
use tracing_subscriber::filter::LevelFilter;

use super::{Log, counts, flaky::Flaky, hangs, logged, server, settled, soon, start};
use crate::{child::Program, sqlite::patient};

/// The panic of each line.
const UNWRITABLE: &str = "the line cannot be written";

/// Must not run again: it has no retry.
#[job(retry = 0)]
async fn charges(log: State<Log>) -> JobResult {
    log.send("charged".into())?;
    Err(JobError::fail("the card was refused"))
}

/// The child's part: the broker and a job fail, and each component logs it.
pub(crate) async fn goes_on() {
    let print = take_hook();
    set_hook(Box::new(move |info| {
        if info.payload().downcast_ref::<&str>() != Some(&UNWRITABLE) {
            print(info);
        }
    }));
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::DEBUG)
        .with_writer(|| -> Stderr { panic_any(UNWRITABLE) })
        .init();
    // Tasks that the server has lost do not run again.
    let mut options = patient();
    options.lease = Duration::from_secs(3_600);
    let inner = Arc::new(SqliteBroker::in_memory(options).await.unwrap());
    let flaky = Flaky::with_lease(inner, Duration::from_millis(600));
    let broker: Arc<dyn Broker> = flaky.clone();
    let (builder, mut log) = server::<(counts, hangs, charges)>(&broker);
    flaky.refuse_dequeues.store(2, SeqCst);
    flaky.refuse_settles.store(2, SeqCst);
    *flaky.panics.lock().unwrap() = Some("forward");
    let running = start(builder).await;
    let client = running.client();

    counts::enqueue(&client, 1).await.unwrap();
    assert_eq!(logged(&mut log).await, "1");
    soon(running.signals().settled.reached(1)).await;
    println!("\nthe fetcher and the settler go on");

    counts::job(2).process_in(Duration::from_millis(5)).enqueue(&client).await.unwrap();
    assert_eq!(logged(&mut log).await, "2");
    println!("the forwarder goes on");

    charges::job().task_id("charge").enqueue(&client).await.unwrap();
    assert_eq!(logged(&mut log).await, "charged");
    let archived = settled(&broker, &running, "charge", TaskState::Archived).await;
    assert_eq!((archived.last_error.as_deref(), archived.retried), (Some("the card was refused"), 0));
    println!("the executor archives");

    for _ in 0..2 {
        hangs::enqueue(&client).await.unwrap();
        assert_eq!(logged(&mut log).await, "started");
    }
    flaky.fenced.store(true, SeqCst);
    soon(running.signals().lost.reached(2)).await;
    flaky.fenced.store(false, SeqCst);
    let extended = running.signals().extended.count();
    soon(running.signals().extended.reached(extended + 1)).await;
    println!("the lease goes on");

    soon(running.shutdown()).await.unwrap();
    assert!(log.try_recv().is_err(), "nothing ran twice");
    println!("left");
}

// A server logs on a thread of its own, so the subscriber has to be that of the whole program.
#[test]
fn a_server_goes_on_where_each_line_of_its_log_panics() {
    let mut program = Program::start("panicking_log", "");
    for step in [
        "the fetcher and the settler go on",
        "the forwarder goes on",
        "the executor archives",
        "the lease goes on",
        "left",
    ] {
        program.prints(step);
    }
    assert!(program.ended().success());
}
