//! Options: declared once on the job, changed for one enqueue by the builder. An option has the same name in both places.

use std::time::Duration;

use asynq_runtime::prelude::*;

/// Renders a report. Options that are not set here have asynq's default: 25 retries, 30 minutes per attempt.
#[job(queue = "reports", retry = 3, timeout = "90s", retention = "1h")]
async fn render_report(title: String) -> JobResult {
    println!("rendered {title}");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let client = Client::from_env().await?;

    // All options are as declared.
    let task = render_report::enqueue(&client, "Sales").await?;
    println!("declared: queue {}, {} retries, timeout {:?}", task.queue, task.max_retry, task.timeout);

    // The task runs later.
    let task = render_report::enqueue_in(&client, Duration::from_secs(3600), "Sales, an hour later").await?;
    println!("later: {}", task.state);

    // The builder sets options of this call alone; the last value of an option wins.
    let task = render_report::job("Sales, now")
        .queue("reports-urgent")
        .retry(0)
        .timeout("2m")
        .process_in("10m")
        .header("trace", "4bf92f35")
        .enqueue(&client)
        .await?;
    println!("this call: queue {}, {} retries, timeout {:?}", task.queue, task.max_retry, task.timeout);

    // Many tasks are enqueued at once: few round trips, one answer per task.
    let reports = ["North", "South", "East", "West"];
    let outcomes = client.enqueue_many(reports.map(render_report::job)).await?;
    println!("in bulk: {} of {}", outcomes.iter().filter(|outcome| outcome.is_ok()).count(), reports.len());

    // A wrong value is a typed error that says what to write.
    match render_report::job("Never").timeout("3 parsecs").enqueue(&client).await {
        Err(error) => println!("refused: {error}"),
        Ok(task) => println!("accepted as {}", task.id),
    }
    Ok(())
}
