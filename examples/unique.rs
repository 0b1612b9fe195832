//! Uniqueness: while an equal task waits or runs, another one is refused; and an id of your own is taken once.

use asynq_runtime::prelude::*;

/// Rebuilds the search index of a shop. Equal means equal arguments, unless `unique_by` names some of them.
#[job(queue = "search", unique = "10m", unique_by = "shop")]
async fn reindex(shop: String, reason: String) -> JobResult {
    println!("reindexed {shop}: {reason}");
    Ok(())
}

/// Unique until it starts: a refresh that is enqueued during a run is done once more. `"success"` is asynq's way, where an
/// archived task keeps its lock; by default the lock ends with the task. With `unique_extend = true` the lock outlasts a long
/// run.
#[job(queue = "search", unique = "10m", unique_until = "start")]
async fn refresh(shop: String) -> JobResult {
    println!("refreshed {shop}");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let client = Client::from_env().await?;

    report("bakery", reindex::enqueue(&client, "bakery", "new prices").await)?;
    report("bakery again", reindex::enqueue(&client, "bakery", "new photos").await)?;
    report("butcher", reindex::enqueue(&client, "butcher", "new prices").await)?;

    // An id of your own is refused even after its first task has succeeded, for as long as the retention keeps that task.
    let order = |shop: &str| reindex::job(shop, "order 4711").task_id("order-4711").retention("1d");
    report("order 4711", order("florist").enqueue(&client).await)?;
    report("order 4711 again", order("florist's brother").enqueue(&client).await)?;

    report("refresh", refresh::enqueue(&client, "bakery").await)?;
    report("refresh again", refresh::enqueue(&client, "bakery").await)?;
    Ok(())
}

/// Prints the answer to an enqueue: a duplicate is not a failure. Run the program twice, and every task is a duplicate.
fn report<J>(label: &str, outcome: Result<Enqueued<J>, EnqueueError>) -> Result<(), EnqueueError> {
    match outcome {
        Ok(task) => println!("{label}: accepted, {}", task.state),
        Err(error) if error.is_id_conflict() => println!("{label}: refused, the id is taken"),
        Err(error) if error.is_duplicate() => println!("{label}: refused, an equal task waits"),
        Err(error) => return Err(error),
    }
    Ok(())
}
