//! Uniqueness: while an equal task waits or runs, another is refused; and an id of one's own is taken once.

use asynq_runtime::prelude::*;

/// Rebuilds the search index of a shop. Equal means equal arguments, unless `unique_by` names some of them.
#[job(unique = "10m", unique_by = "shop")]
async fn reindex(shop: String, reason: String) -> JobResult {
    println!("reindexed {shop}: {reason}");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let client = Client::from_env().await?;

    let first = reindex::enqueue(&client, "bakery", "new prices").await?;
    match reindex::enqueue(&client, "bakery", "new photos").await {
        Err(error) if error.is_duplicate() => println!("refused: {error}"),
        other => println!("unexpected: {other:?}"),
    }
    reindex::enqueue(&client, "butcher", "new prices").await?;
    println!("another shop is another task");

    // An id of one's own: the second enqueue of the same order is refused even after the first has succeeded, for as
    // long as its retention keeps it.
    let order = || reindex::job("florist", "order 4711").task_id("order-4711").retention("1d");
    order().enqueue(&client).await?;
    match order().enqueue(&client).await {
        Err(error) if error.is_duplicate() => println!("there already: {:?}", error.existing_id()),
        other => println!("unexpected: {other:?}"),
    }
    println!("the first of them is {}", first.state);
    Ok(())
}
