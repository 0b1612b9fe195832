//! Ways to enqueue jobs.

use std::time::{Duration, SystemTime};

use asynq_runtime::{RawTask, prelude::*};

use super::options::{plain, resize};

#[job(name = "user:two")]
pub(super) async fn two(to: String, n: u32) -> JobResult {
    println!("{to} {n}");
    Ok(())
}

async fn helpers(client: &Client, settings: &(String, Duration)) -> Result<(), BoxError> {
    two::enqueue(client, "ann", 1_u32).await?;
    two::enqueue_in(client, "10m", "ann", 1_u32).await?;
    two::enqueue_in(client, settings.1, settings.0.clone(), 1_u32).await?;
    two::enqueue_at(client, SystemTime::now(), "ann", 1_u32).await?;
    two { to: "ann".into(), n: 1 }.enqueue(client).await?;
    let task = two::job("ann", 1_u32).queue("low").retry(1).timeout("90s").task_id("t1").header("trace", "abc");
    println!("{}", task.enqueue(client).await?.id);
    resize::enqueue(client, "cat.png").await?;
    Ok(())
}

async fn many(client: &Client) -> Result<(), BoxError> {
    for outcome in client.enqueue_many((0..10).map(|n| two::job("ann", n))).await? {
        match outcome {
            Ok(task) => println!("{}", task.id),
            Err(error) if error.is_duplicate() => println!("{:?}", error.existing_id()),
            Err(error) => return Err(error.into()),
        }
    }
    client.enqueue_all([two::job("ann", 1_u32).into(), plain { to: "bob".into() }.into()]).await?;
    client.enqueue(RawTask::new("go:type", "{}")).await?;
    Ok(())
}

/// A duration and a text as a program's settings have them.
struct Settings {
    delay: String,
    footer: String,
}

async fn by_settings(client: &Client, settings: &Settings) -> Result<(), BoxError> {
    two::enqueue_in(client, &settings.delay, &settings.footer, 1_u32).await?;
    two::job(&*settings.footer, 1_u32).timeout(&settings.delay).expires(&settings.delay).enqueue(client).await?;
    Ok(())
}

/// The future of an enqueue owns all its data.
async fn spawned_at_once(client: &Client) -> Result<(), BoxError> {
    tokio_like(two::enqueue(client, "ann", 1_u32)).await?;
    tokio_like(two { to: "ann".into(), n: 1 }.enqueue(client)).await?;
    tokio_like(two::job("ann", 1_u32).queue("low").enqueue(client)).await?;
    tokio_like(client.enqueue_many((0..10).map(|n| two::job("ann", n)))).await?;
    Ok(())
}

/// A task that is known by its id alone, as in a web request.
async fn by_id(client: &Client, id: &str) -> Result<Option<u64>, BoxError> {
    match client.wait::<resize>(id, Duration::from_secs(5)).await? {
        asynq_runtime::Outcome::Done(width) => Ok(Some(width)),
        _ => Ok(None),
    }
}

async fn of_a_client_that_is_shared(client: std::sync::Arc<Client>) -> Result<(), BoxError> {
    two::enqueue(&client, format!("{}", 7), 1_u32).await?;
    Ok(())
}

async fn spawned(client: Client) -> Result<(), BoxError> {
    // Spawns a tokio task that owns its data.
    let ended: Result<(), EnqueueError> = tokio_like(async move {
        two::enqueue(&client, "ann", 1_u32).await?;
        Ok(())
    })
    .await;
    Ok(ended?)
}

async fn tokio_like<T: Send>(future: impl Future<Output = T> + Send + 'static) -> T {
    future.await
}

async fn direct() -> JobResult {
    two("ann".to_owned(), 1).await
}
