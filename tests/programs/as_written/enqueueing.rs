use asynq_runtime::prelude::*;
use std::time::Duration;

async fn produce() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::from_env().await?;            // ASYNQ_URL, as the worker; or Client::connect("redis://127.0.0.1:6379")

    let task = send_email::enqueue(&client, "ann@example.com", "Welcome").await?;
    println!("{} is {} in {}", task.id, task.state, task.queue);

    send_email::enqueue_in(&client, Duration::from_secs(600), "ann@example.com", "Still there?").await?;
    send_email { to: "bob@example.com".into(), subject: "Hi".into() }.enqueue(&client).await?;
    send_email::job("ann@example.com", "Now")
        .queue("low").retry(1).timeout("90s").task_id("welcome-ann").retention("2h").header("trace", "abc")
        .enqueue(&client).await?;

    let outcomes = client.enqueue_many(["a@x.io", "b@x.io"].map(|to| send_email::job(to, "News"))).await?;
    for outcome in outcomes {                                          // one per item, in order
        match outcome {
            Ok(task) => println!("{}", task.id),
            Err(e) if e.is_duplicate() => println!("already there: {:?}", e.existing_id()),
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}
