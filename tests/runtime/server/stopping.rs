//! Every way to stop: in order, in time, at once.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc::{Receiver, Sender},
    },
    time::Duration,
};

use asynq_runtime::{
    BoxError, Client, State, TaskState,
    broker::{Broker, sqlite::SqliteBroker},
    clock::ManualClock,
    job::BoxFuture,
    prelude::*,
    server::{JobResponse, Running, ServerError, Service, ServiceContext},
};
use asynq_test_support::{Log as Lines, eventually, eventually_blocking};
use tokio::sync::{Notify, mpsc::UnboundedReceiver, oneshot};
use tower::util::MapFutureLayer;

use super::{
    Gate, Log, flaky::Flaky, id, ids, logged, memory, queue, quick, server, soon, start, task, waits_for_a_permit,
};
use crate::sqlite::with_clock;

#[job]
fn lingers(log: State<Log>, ctx: &JobContext, gate: State<Mutex<Receiver<()>>>) -> JobResult {
    log.send("started".into())?;
    while !ctx.is_cancelled() {
        std::thread::sleep(Duration::from_millis(1));
    }
    log.send("noticed".into())?;
    let _ = gate.lock().unwrap().recv();
    log.send("returned".into())?;
    Err(JobError::fail("gave up"))
}

#[tokio::test]
async fn a_shutdown_lets_running_jobs_end() {
    let broker = memory().await;
    let (builder, mut log) = server::<(waits_for_a_permit,)>(&broker);
    let gate = Gate::new(tokio::sync::Semaphore::new(0));
    let running = start(builder.state(gate.clone())).await;
    waits_for_a_permit::job("a").task_id("a").enqueue(&running.client()).await.unwrap();
    assert_eq!(logged(&mut log).await, "a started");
    let shutdown = tokio::spawn(running.shutdown());
    gate.add_permits(1);
    soon(shutdown).await.unwrap().unwrap();
    assert_eq!(logged(&mut log).await, "a ended");
    assert!(task(&broker, "a").await.is_none());
    assert!(broker.servers().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_shutdown_may_wait_for_as_long_as_it_takes() {
    let broker = memory().await;
    let (builder, mut log) = server::<(waits_for_a_permit,)>(&broker);
    let gate = Gate::new(tokio::sync::Semaphore::new(0));
    let running = start(builder.state(gate.clone()).shutdown_timeout(Duration::MAX)).await;
    waits_for_a_permit::job("a").enqueue(&running.client()).await.unwrap();
    assert_eq!(logged(&mut log).await, "a started");
    let shutdown = tokio::spawn(running.shutdown());
    gate.add_permits(1);
    soon(shutdown).await.unwrap().unwrap();
    assert_eq!(logged(&mut log).await, "a ended");
}

#[tokio::test]
async fn a_quiet_server_fetches_nothing_and_continues_its_runs() {
    let broker = memory().await;
    let (builder, mut log) = server::<(waits_for_a_permit,)>(&broker);
    let gate = Gate::new(tokio::sync::Semaphore::new(0));
    let running = start(builder.state(gate.clone())).await;
    waits_for_a_permit::job("a").task_id("a").enqueue(&running.client()).await.unwrap();
    assert_eq!(logged(&mut log).await, "a started");
    running.quiet();
    soon(running.signals().quiet.reached(1)).await;
    waits_for_a_permit::job("b").task_id("b").enqueue(&running.client()).await.unwrap();
    gate.add_permits(2);
    assert_eq!(logged(&mut log).await, "a ended");
    soon(running.signals().settled.reached(1)).await;
    // The server goes on with its beats.
    soon(running.signals().beat.reached(1)).await;
    soon(running.shutdown()).await.unwrap();
    assert_eq!(ids(&broker, TaskState::Pending).await, ["b"]);
    assert!(log.try_recv().is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocking_job_keeps_its_slot_until_its_thread_returns() {
    let broker = memory().await;
    let (builder, mut log) = server::<(lingers, quick)>(&broker);
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let running = start(builder.state(Mutex::new(gate)).concurrency(1)).await;
    lingers::job().task_id("lingers").timeout("1s").enqueue(&running.client()).await.unwrap();
    assert_eq!(logged(&mut log).await, "started");
    quick::enqueue(&running.client()).await.unwrap();
    assert_eq!(logged(&mut log).await, "noticed");
    // The time of the job is over, but it runs: it is not settled, and no other job has its slot.
    assert_eq!(running.running(), 1);
    assert_eq!(task(&broker, "lingers").await.unwrap().state, TaskState::Active);
    open.send(()).unwrap();
    assert_eq!(logged(&mut log).await, "returned");
    assert_eq!(logged(&mut log).await, "quick");
    soon(running.signals().settled.reached(2)).await;
    let lingers = task(&broker, "lingers").await.unwrap();
    assert_eq!((lingers.state, lingers.last_error.as_deref()), (TaskState::Retry, Some("context deadline exceeded")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_layer_that_gives_a_blocking_job_up_does_not_free_its_slot() {
    let broker = memory().await;
    let (builder, mut log) = server::<(lingers, quick)>(&broker);
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let give_up = Arc::new(Notify::new());
    let stop_signal = Arc::clone(&give_up);
    let gives_up = MapFutureLayer::new(move |attempt: BoxFuture<'static, Result<JobResponse, BoxError>>| {
        let stop_signal = Arc::clone(&stop_signal);
        async move {
            tokio::select! {
                answer = attempt => answer,
                () = stop_signal.notified() => Err(BoxError::from("given up")),
            }
        }
    });
    let running = start(builder.state(Mutex::new(gate)).concurrency(1).layer(gives_up)).await;
    lingers::job().task_id("lingers").enqueue(&running.client()).await.unwrap();
    assert_eq!(logged(&mut log).await, "started");
    give_up.notify_one();
    quick::enqueue(&running.client()).await.unwrap();
    assert_eq!(logged(&mut log).await, "noticed");
    assert_eq!(running.running(), 1);
    assert_eq!(task(&broker, "lingers").await.unwrap().state, TaskState::Active);
    open.send(()).unwrap();
    assert_eq!(logged(&mut log).await, "returned");
    assert_eq!(logged(&mut log).await, "quick");
    soon(running.signals().settled.reached(2)).await;
    let lingers = task(&broker, "lingers").await.unwrap();
    assert_eq!((lingers.state, lingers.last_error.as_deref()), (TaskState::Retry, Some("given up")));
}

/// The number of threads that are in a job now, and the highest so far.
#[derive(Default)]
struct Crowd(Mutex<(usize, usize)>);

const SLOTS: usize = 4;

#[job(timeout = "1s")]
fn overstays(log: State<Log>, ctx: &JobContext, crowd: State<Arc<Crowd>>) -> JobResult {
    let enter = |crowd: &mut (usize, usize)| {
        crowd.0 += 1;
        crowd.1 = crowd.1.max(crowd.0);
    };
    enter(&mut crowd.0.lock().unwrap());
    // However slowly the threads start, all slots are taken at some time.
    eventually_blocking("the time is over and all slots are taken", || {
        (ctx.is_cancelled() && crowd.0.lock().unwrap().1 >= SLOTS).then_some(())
    });
    // This is long enough for a slot that was freed too early to be taken.
    std::thread::sleep(Duration::from_millis(100));
    crowd.0.lock().unwrap().0 -= 1;
    log.send("returned".into())?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocking_jobs_that_overstay_their_timeout_never_run_beyond_the_limit() {
    let broker = memory().await;
    let client = Client::new(broker.clone());
    client.enqueue_many((0..8).map(|_| overstays::job())).await.unwrap();
    let (builder, mut log) = server::<(overstays,)>(&broker);
    let crowd = Arc::new(Crowd::default());
    let running = start(builder.state(crowd.clone()).concurrency(SLOTS)).await;
    for _ in 0..8 {
        assert_eq!(logged(&mut log).await, "returned");
    }
    assert_eq!(*crowd.0.lock().unwrap(), (0, SLOTS), "as many as there are slots, never more");
    soon(running.signals().settled.reached(8)).await;
    let stats = broker.queue_stats(&queue("default")).await.unwrap();
    assert_eq!((stats.processed_total, stats.failed_total, stats.size), (8, 0, 0), "Ok counts");
}

#[tokio::test]
async fn dropping_a_running_server_drops_its_jobs_and_is_a_crash_of_their_tasks() {
    let clock = ManualClock::default();
    let broker: Arc<dyn Broker> = Arc::new(SqliteBroker::in_memory(with_clock(clock.clone())).await.unwrap());
    let (builder, mut log) = server::<(waits_for_a_permit,)>(&broker);
    let gate = Gate::new(tokio::sync::Semaphore::new(0));
    let running = start(builder.state(gate.clone())).await;
    waits_for_a_permit::job("a").task_id("a").enqueue(&running.client()).await.unwrap();
    assert_eq!(logged(&mut log).await, "a started");
    drop(running);
    // Besides the states, the job held the last sender: it is gone with its future, and so is the server.
    assert!(soon(log.recv()).await.is_none());
    assert_eq!(gate.available_permits(), 0);
    assert_eq!(task(&broker, "a").await.unwrap().state, TaskState::Active);
    clock.advance(broker.lease() + Duration::from_secs(1));
    let recovered = async || {
        broker.recover(&[queue("default")]).await.unwrap();
        task(&broker, "a").await.filter(|task| task.state == TaskState::Pending)
    };
    assert_eq!(eventually("the task comes back", recovered).await.crashes, 1);
}

struct Beside;

impl Service for Beside {
    fn name(&self) -> &'static str {
        "beside"
    }

    fn run(self: Box<Self>, cx: ServiceContext) -> BoxFuture<'static, Result<(), BoxError>> {
        Box::pin(async move {
            cx.stopping().await;
            Ok(())
        })
    }
}

#[test]
fn a_server_whose_jobs_lose_their_runtime_becomes_quiet_and_requeues_them_and_says_why() {
    let ours = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let theirs = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    ours.block_on(async {
        let broker = memory().await;
        let (builder, mut log) = server::<(waits_for_a_permit,)>(&broker);
        let gate = Gate::new(tokio::sync::Semaphore::new(0));
        // The service ends with its runtime as well, and the shutdown does not wait for it.
        let builder = builder.state(gate).service(Beside).shutdown_timeout("1h");
        let server = builder.build().await.unwrap();
        let running = theirs.spawn(server.start()).await.unwrap().unwrap();
        waits_for_a_permit::job("a").task_id("a").enqueue(&running.client()).await.unwrap();
        assert_eq!(logged(&mut log).await, "a started");
        theirs.shutdown_background();
        soon(running.signals().quiet.reached(1)).await;
        soon(running.failed()).await;
        for ended in [soon(running.drained()).await, soon(running.shutdown()).await] {
            assert!(matches!(ended, Err(ServerError::RuntimeEnded)), "{ended:?}");
        }
        assert_eq!(ids(&broker, TaskState::Pending).await, ["a"]);
    });
}

/// The tasks of a current-thread runtime are dropped on the thread that drops the runtime, which a panic of the program may unwind.
#[tokio::test]
async fn a_panic_of_the_program_that_ends_the_runtime_of_the_jobs_spends_no_retry() {
    for is_beside_jobs in [false, true] {
        let flaky = Flaky::new(memory().await);
        flaky.is_beside_jobs.store(is_beside_jobs, SeqCst);
        let broker: Arc<dyn Broker> = flaky.clone();
        let (builder, mut log) = server::<(waits_for_a_permit,)>(&broker);
        let gate = Gate::new(tokio::sync::Semaphore::new(0));
        let server = builder.state(gate).shutdown_timeout("1h").build().await.unwrap();
        let (starts, started) = oneshot::channel();
        let (fails, failed) = oneshot::channel::<()>();
        let is_sent_during_line = Arc::new(AtomicBool::new(false));
        let is_sent = Arc::clone(&is_sent_during_line);
        let program = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            starts.send(runtime.block_on(server.start()).unwrap()).unwrap();
            // A line that blocks does not keep the settler from the outbox. A fetcher beside the jobs may write it before their tasks.
            let _lines = Lines::calling(move || {
                if !is_beside_jobs {
                    let sent = || (!flaky.settled.lock().unwrap().is_empty()).then_some(());
                    eventually_blocking("the outcome is sent while its line is written", sent);
                    is_sent.store(true, SeqCst);
                }
            });
            // The runtime is dropped before `_lines`.
            let theirs = runtime;
            theirs.block_on(failed).expect("the program fails");
        });
        let running = soon(started).await.unwrap();
        waits_for_a_permit::job("a").task_id("a").enqueue(&running.client()).await.unwrap();
        assert_eq!(logged(&mut log).await, "a started");
        drop(fails);
        soon(running.signals().quiet.reached(1)).await;
        assert!(program.join().is_err());
        assert!(is_beside_jobs || is_sent_during_line.load(SeqCst));
        soon(running.shutdown()).await.unwrap_err();
        let a = task(&broker, "a").await.unwrap();
        assert_eq!((a.state, a.retried, a.crashes, a.last_error), (TaskState::Pending, 0, 0, None));
    }
}

/// A worker reports to the broker within a second of its shutdown timeout, as documented.
mod timing {
    use super::*;

    const SHUTDOWN: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn a_run_that_outlives_the_grace_is_requeued_at_the_head_and_counts_no_retry() {
        let broker = memory().await;
        let (builder, mut log) = server::<(waits_for_a_permit,)>(&broker);
        let client = Client::new(broker.clone());
        for name in ["a", "b", "c"] {
            waits_for_a_permit::job(name).task_id(name).enqueue(&client).await.unwrap();
        }
        let gate = Gate::new(tokio::sync::Semaphore::new(0));
        let running = start(builder.state(gate).concurrency(1).shutdown_timeout(SHUTDOWN)).await;
        assert_eq!(logged(&mut log).await, "a started");
        soon(running.shutdown()).await.unwrap();
        assert_eq!(ids(&broker, TaskState::Pending).await, ["a", "b", "c"]);
        let a = task(&broker, "a").await.unwrap();
        assert_eq!((a.retried, a.crashes, a.last_error), (0, 0, None));
        assert!(log.try_recv().is_err());
    }

    #[tokio::test]
    async fn more_than_one_batch_goes_back_in_the_order_in_which_it_came() {
        const TASKS: usize = 600;
        let broker = memory().await;
        let (builder, mut log) = server::<(waits_for_a_permit,)>(&broker);
        let client = Client::new(broker.clone());
        let name = |i: usize| format!("{i:04}");
        let jobs = (0..TASKS).map(|i| waits_for_a_permit::job(name(i)).task_id(name(i)));
        assert!(client.enqueue_many(jobs).await.unwrap().iter().all(Result::is_ok));
        let gate = Gate::new(tokio::sync::Semaphore::new(0));
        let running = start(builder.state(gate).concurrency(TASKS - 50).shutdown_timeout(SHUTDOWN)).await;
        for _ in 0..TASKS - 50 {
            logged(&mut log).await;
        }
        soon(running.shutdown()).await.unwrap();
        assert_eq!(ids(&broker, TaskState::Pending).await, (0..TASKS).map(name).collect::<Vec<_>>());
    }

    /// Starts a server whose blocking job runs, and does not return before the sender says so.
    async fn lingering(broker: &Arc<dyn Broker>) -> (Running, UnboundedReceiver<String>, Sender<()>) {
        let (builder, mut log) = server::<(lingers,)>(broker);
        let (open, gate) = std::sync::mpsc::channel();
        let running = start(builder.state(Mutex::new(gate)).shutdown_timeout(SHUTDOWN)).await;
        lingers::job().task_id("lingers").enqueue(&running.client()).await.unwrap();
        assert_eq!(logged(&mut log).await, "started");
        (running, log, open)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_blocking_job_that_never_returns_is_requeued_at_shutdown() {
        let broker = memory().await;
        let (running, _log, open) = lingering(&broker).await;
        soon(running.shutdown()).await.unwrap();
        let task = task(&broker, "lingers").await.unwrap();
        assert_eq!((task.state, task.retried), (TaskState::Pending, 0));
        open.send(()).unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_blocking_job_whose_attempt_had_failed_is_not_requeued_as_if_it_had_not_run() {
        let broker = memory().await;
        let (running, mut log, open) = lingering(&broker).await;
        broker.cancel(&id("lingers")).await.unwrap();
        assert_eq!(logged(&mut log).await, "noticed");
        soon(running.shutdown()).await.unwrap();
        let task = task(&broker, "lingers").await.unwrap();
        assert_eq!((task.state, task.retried), (TaskState::Retry, 1));
        assert_eq!(task.last_error.as_deref(), Some("context canceled"));
        open.send(()).unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn jobs_that_block_their_runtime_cost_no_lease_and_are_requeued() {
        #[job]
        async fn burns(log: State<Log>, gate: State<Mutex<Receiver<()>>>) -> JobResult {
            log.send("started".into())?;
            let _ = gate.lock().unwrap().recv();
            Ok(())
        }
        let flaky = Flaky::with_lease(memory().await, Duration::from_millis(300));
        let broker: Arc<dyn Broker> = flaky.clone();
        let (builder, mut log) = server::<(burns,)>(&broker);
        let (open, gate) = std::sync::mpsc::channel::<()>();
        let builder = builder.state(Mutex::new(gate)).shutdown_timeout(SHUTDOWN);
        let jobs = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let server = builder.build().await.unwrap();
        let running = jobs.spawn(server.start()).await.unwrap().unwrap();
        burns::job().task_id("b").enqueue(&running.client()).await.unwrap();
        assert_eq!(logged(&mut log).await, "started");
        // The only thread for jobs is blocked, and the leases are extended still.
        let extended = running.signals().extended.count();
        soon(running.signals().extended.reached(extended + 3)).await;
        soon(running.shutdown()).await.unwrap();
        assert_eq!(ids(&broker, TaskState::Pending).await, ["b"]);
        open.send(()).unwrap();
        jobs.shutdown_background();
    }
}
