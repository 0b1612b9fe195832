//! Inspection: shows the queues and the errors of archived tasks, and repairs one task by hand.

use asynq_runtime::prelude::*;

/// Prints an invoice, unless its number is wrong.
#[job(name = "invoice:print", queue = "printer", retry = 0)]
async fn print(number: u32, customer: String) -> JobResult {
    if number == 0 {
        return Err("there is no invoice 0".into());
    }
    println!("printed invoice {number} of {customer}");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let server = Server::builder(std::env::var("ASYNQ_URL").unwrap_or_else(|_| "sqlite://asynq.db".to_owned()))
        .queue("printer", 1)
        .build()
        .await?;
    let running = server.start().await?;
    let client = running.client();
    let inspector = client.inspector();

    let task = print::enqueue(&client, 0, "Ann").await?;
    task.wait("1m").await?;
    for queue in inspector.queues().await? {
        println!("queue {}: {} tasks, {} given up", queue.name, queue.size, queue.archived);
    }
    for task in inspector.tasks("printer", TaskState::Archived).per_page(10).await? {
        println!("{} was given up: {}", task.r#type, task.last_error.unwrap_or_default());
    }

    // Wrong arguments can be edited with the type of the job, and the task tried again.
    inspector.edit::<print>("printer", &task.id, |job| job.number = 17).await?;
    inspector.run("printer", &task.id).await?;
    task.wait("1m").await?;

    // A paused queue accepts tasks and gives none to workers. Its tasks can be moved.
    inspector.pause("printer").await?;
    let waiting = print::enqueue(&client, 18, "Bob").await?;
    println!("paused: {}", inspector.queue("printer").await?.paused);
    inspector.move_to("printer", &waiting.id, "upstairs").await?;
    println!("moved: {} waits upstairs", inspector.task("upstairs", &waiting.id).await?.r#type);
    if let Err(error) = inspector.run("printer", &waiting.id).await {
        println!("and here: {error}");
    }
    inspector.resume("printer").await?;
    running.shutdown().await?;
    Ok(())
}
