//! A worker whose only thread a job blocks.

use std::{
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use asynq_runtime::{RawTask, Registry, Server, broker::Broker, prelude::JobResult, server::Running};
use asynq_test_support::soon;
use tokio::{
    runtime::{Builder, Runtime},
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
};

/// A worker with one thread for its jobs, which the first of them blocks: no other job runs from then on, and a fetcher beside the
/// jobs reads no answer. Tasks whose id begins with `warm` do not block.
#[derive(Debug)]
pub struct BlockedWorker {
    /// The worker.
    pub running: Running,
    /// The runtime of the jobs.
    pub jobs: Runtime,
    /// Ends every job when it is dropped.
    pub gate: mpsc::Sender<()>,
    /// The tasks whose job has ended.
    pub ran: Arc<Mutex<Vec<String>>>,
    starts: UnboundedReceiver<()>,
}

impl BlockedWorker {
    /// The concurrency. A few fetches take fewer tasks: beside jobs the next fetch is always on its way when the thread is blocked.
    pub const ALL: usize = 900;
    /// The shutdown timeout.
    pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(50);

    /// The ids of as many tasks as the worker may run at a time.
    pub fn names() -> Vec<String> {
        (0..Self::ALL).map(|n| format!("t{n:03}")).collect()
    }

    /// Starts the worker.
    pub async fn start(broker: Arc<dyn Broker>) -> Self {
        let ((gate, opens), (started, starts)) = (mpsc::channel::<()>(), unbounded_channel());
        let (opens, ran) = (Arc::new(Mutex::new(opens)), Arc::<Mutex<Vec<String>>>::default());
        let log = Arc::clone(&ran);
        let jobs = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let server = Server::builder("nothing://is-connected")
            .broker(broker)
            .registry(Registry::from_descriptors([]).unwrap())
            .concurrency(Self::ALL)
            .shutdown_timeout(Self::SHUTDOWN_TIMEOUT)
            .handle("email", move |task: RawTask| {
                let (opens, log, started) = (Arc::clone(&opens), Arc::clone(&log), started.clone());
                async move {
                    let id = task.context().id().to_string();
                    if !id.starts_with("warm") {
                        let _ = started.send(());
                        let _ = opens.lock().unwrap().recv();
                    }
                    log.lock().unwrap().push(id);
                    JobResult::Ok(())
                }
            });
        let running = jobs.spawn(server.build().await.unwrap().start()).await.unwrap().unwrap();
        Self { running, jobs, gate, ran, starts }
    }

    /// Waits until a job has blocked the thread.
    pub async fn is_blocked(&mut self) {
        soon(self.starts.recv()).await.unwrap();
    }
}
