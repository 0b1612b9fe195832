//! Groups: many small tasks become one, by their types. A hundred comments make one mail, not a hundred.

use std::time::Duration;

use asynq_runtime::prelude::*;

/// Notes a comment. The article's authors are told of it together with all other comments of that time.
#[job(queue = "mails", group = "comments")]
async fn comment(author: String, text: String) -> JobResult {
    // This runs only if no server has `aggregates = comment`: otherwise the tasks of a group become a part of another task.
    println!("{author}: {text}");
    Ok(())
}

/// Sends one mail with all comments that waited together, in the order in which they came.
#[job(aggregates = comment, retry = 3)]
async fn comments_mail(ctx: &JobContext, comments: Vec<comment>) -> JobResult {
    println!("one mail for group {} with {} comments:", ctx.group().unwrap_or_default(), comments.len());
    for comment in &comments {
        println!("  {}: {}", comment.author, comment.text);
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let url = std::env::var("ASYNQ_URL").unwrap_or_else(|_| "sqlite://asynq.db".to_owned());
    let client = Client::connect(&url).await?;
    for (author, text) in [("Ann", "Nice."), ("Bob", "Too long."), ("Eve", "First!")] {
        let task = comment::enqueue(&client, author, text).await?;
        println!("{author}'s comment is {}", task.state);
    }
    // The builder sets any group, for one enqueue.
    comment::job("Zoe", "About something else.").group("comments:other").enqueue(&client).await?;

    let server = Server::builder(url)
        .queue("mails", 1)
        // A group is ripe when nothing has joined it for a second, or when it has 100 tasks.
        .group_grace("1s")
        .group_max_size(100)
        .build()
        .await?;
    let running = server.start().await?;
    // Both mails are done.
    tokio::time::timeout(Duration::from_secs(60), running.signals().settled.reached(2)).await?;
    running.shutdown().await?;
    Ok(())
}
