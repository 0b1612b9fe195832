//! Queue patterns: one queue per tenant, served as soon as it appears, and in each worker never more than one task of a tenant at a
//! time. The example `semaphore` has a limit over all workers.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use asynq_runtime::{Server, prelude::*};

/// The tenants whose tasks run at the moment.
#[derive(Default)]
struct Busy(Mutex<HashSet<String>>);

impl Busy {
    fn change<T>(&self, how: impl FnOnce(&mut HashSet<String>) -> T) -> T {
        how(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[job]
async fn import(ctx: &JobContext, busy: State<Busy>, file: String) -> JobResult {
    let tenant = ctx.queue().to_string();
    let alone = busy.change(|busy| busy.insert(tenant.clone()));
    println!("{tenant} imports {file}{}", if alone { "" } else { " twice at a time!" });
    tokio::time::sleep(Duration::from_millis(20)).await;
    busy.change(|busy| busy.remove(&tenant));
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let server = Server::builder(std::env::var("ASYNQ_URL").unwrap_or_else(|_| "sqlite://asynq.db".to_owned()))
        .state(Busy::default())
        // All tenants share one weight, so that a thousand of them do not drown `default`; the limit is for each tenant in this
        // worker. On the command line: --queues 'default=3,tenant:*=1/1'
        .queue("default", 3)
        .queue("tenant:*", 1)
        .queue_concurrency("tenant:*", 1)
        .concurrency(10)
        .build()
        .await?;
    let running = server.start().await?;
    let client = running.client();

    // These queues did not exist when the server started.
    for tenant in ["ann", "bob"] {
        let queue = format!("tenant:{tenant}");
        let jobs = ["a.csv", "b.csv", "c.csv"].map(|file| import::job(file).queue(&queue));
        for outcome in client.enqueue_many(jobs).await? {
            outcome?;
        }
    }
    running.drained().await?;
    println!("no tenant has a task left");
    running.shutdown().await?;
    Ok(())
}
