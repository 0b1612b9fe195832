//! A queue inside an application you already have: producer and worker are one process, and the queue is one file beside it.

use asynq_runtime::prelude::*;

/// Counts the words of a text. The work burns CPU, so the job is a plain `fn`, which runs on threads of its own.
#[job]
fn count_words(title: String, text: String) -> JobResult {
    println!("{title}: {} words", text.split_whitespace().count());
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    // The queue has a file of its own. Every enqueue that returned is on disk; `?durability=normal` trades the last moments
    // before a power cut for speed. Several processes may share the file.
    let server = Server::builder("sqlite://words.db").queue("default", 1).concurrency(4).build().await?;
    let running = server.start().await?;
    let client = running.client();

    let poems = [("Haiku", "an old silent pond"), ("Limerick", "there was an old man with a beard")];
    let tasks = poems.map(|(title, text)| count_words::job(title, text));
    for outcome in client.enqueue_many(tasks).await? {
        println!("enqueued {}", outcome?.id);
    }

    // Your application goes on here. This example waits until no task is left.
    running.drained().await?;
    running.shutdown().await?;
    println!("nothing left");
    Ok(())
}
