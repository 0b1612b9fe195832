use asynq_runtime::prelude::*;

async fn look(client: &Client) -> Result<(), BoxError> {
    let inspector = client.inspector();
    for queue in inspector.queues().await? { println!("{} {} {:?}", queue.name, queue.size, queue.latency); }
    for task in inspector.tasks("default", TaskState::Archived).page(1).per_page(30).await? {
        println!("{} {:?}", task.id, task.last_error);
        inspector.run("default", &task.id).await?;
    }
    inspector.pause("low").await?;
    inspector.cancel("some-id").await?;
    Ok(())
}
