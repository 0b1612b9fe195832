//! Programs with a `main` of their own, and set-ups.

use asynq_runtime::{JobDescriptor, RawTask, job::StateKey, prelude::*, rate::Semaphore};
use serde::{Deserialize, Serialize};

use super::{calls::two, options::plain};

/// The set-up uses the broker that the flags name.
async fn setup(app: App) -> Result<App, BoxError> {
    let client = app.client().await?;
    client.ping().await?;
    Ok(app.state(client).state(Semaphore::new("partner", 5)?).concurrency(4))
}

mod with_a_client {
    asynq_runtime::main!(super::setup);
}

mod with_an_error_of_its_own {
    async fn setup(app: asynq_runtime::App) -> Result<asynq_runtime::App, std::io::Error> {
        Ok(app.state(std::fs::read_to_string("hello.txt")?))
    }

    asynq_runtime::main!(setup);
}

mod with_a_closure {
    asynq_runtime::main!(async |app| Ok::<_, asynq_runtime::BoxError>(app.concurrency(20)));
}

#[job(name = "user:limited", timeout = "5m")]
async fn limited(ctx: &JobContext, partner: State<Semaphore>, order: u64) -> JobResult {
    let Some(token) = partner.try_acquire(ctx).await? else {
        return Err(JobError::snooze("30s"));
    };
    println!("order {order}");
    Ok(token.release().await?)
}

/// Runs a server beside an HTTP server of the user.
async fn beside_a_server(stopped: impl Future<Output = ()>) -> Result<(), BoxError> {
    let server = Server::builder("redis://127.0.0.1:6379").queue("low", 1).register::<plain>().build().await?;
    let running = server.start().await?;
    plain::enqueue(&running.client(), "ann").await?;
    stopped.await;
    Ok(running.shutdown().await?)
}

fn chosen() -> Result<(Registry, Registry), BoxError> {
    Ok((Registry::only::<plain>()?, Registry::only::<(plain, two)>()?))
}

/// A job written by hand, without the attribute.
#[derive(Debug, Serialize, Deserialize)]
struct Handmade {
    to: String,
}

impl Job for Handmade {
    const NAME: &'static str = "user:handmade";
    const OPTIONS: JobOptions = JobOptions::new().queue("low").retry(1);
    const REQUIRES: &'static [StateKey] = &[StateKey::of::<Semaphore>()];
    type Output = JobResult<usize>;

    async fn run(self, ctx: &JobContext) -> JobResult<usize> {
        println!("{}", ctx.id());
        Ok(self.to.len())
    }
}

asynq_runtime::__private::inventory::submit! { JobDescriptor::of::<Handmade>(file!(), line!()) }

async fn raw(client: &Client) -> Result<(), BoxError> {
    let server = Server::builder("sqlite::memory:").handle("go:", async |task: RawTask| {
        println!("{}", task.payload().len());
        Ok::<(), JobError>(())
    });
    println!("{server:?}");
    client.enqueue(RawTask::new("go:type", "{}").queue("go").retry(2)).await?;
    Ok(())
}

#[job(name = "user:attempts")]
async fn attempts(ctx: &JobContext, to: String) -> JobResult {
    if ctx.attempt() > 3 {
        return Err(JobError::skip_retry(format!("{to}: {} of {}", ctx.attempt(), ctx.max_retry())));
    }
    Ok(())
}
