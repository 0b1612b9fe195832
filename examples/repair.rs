//! Repairing: hundreds of tasks at once, with a progress bar, and a queue that is not needed any more.

use asynq_runtime::{
    inspector::{BulkProgress, Force},
    prelude::*,
};
use indicatif::ProgressBar;

/// Nobody runs it here: what is enqueued stays until it is treated.
#[job(queue = "letters")]
async fn write_letter(number: u32) -> JobResult {
    let _ = number;
    Ok(())
}

/// Shows how far a bulk call is.
fn bar() -> impl FnMut(BulkProgress) + Send + 'static {
    let bar = ProgressBar::new(0);
    move |progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
        if progress.done == progress.total {
            bar.finish_and_clear();
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let client = Client::connect(&std::env::var("ASYNQ_URL").unwrap_or_else(|_| "sqlite://asynq.db".into())).await?;
    let inspector = client.inspector();
    for outcome in client.enqueue_many((0..350).map(|n| write_letter::job(n).process_in("1h"))).await? {
        outcome?;
    }

    // All of them, in slices of 100. What came meanwhile is left, and counted. More than the archive keeps is an error, unless
    // `.beyond_archive()` allows it.
    let report = inspector.archive_all("letters", TaskState::Scheduled).on_progress(bar()).await?;
    println!("{} archived, {} left", report.changed, report.left);

    // Slice by slice, for a program that wants to stop in between. The same call goes on later.
    let mut running = inspector.run_all("letters", TaskState::Archived).start().await?;
    while let Some(progress) = running.slice().await? {
        if progress.done >= 200 {
            break;
        }
    }
    println!("{} run again so far", running.progress().changed);
    let report = inspector.run_all("letters", TaskState::Archived).await?;
    println!("and {} more", report.changed);

    // A queue that has tasks is deleted only by force; a dry run says what that would mean.
    if let Err(error) = inspector.delete_queue("letters", Force::No).await {
        println!("refused: {error}");
    }
    let would = inspector.delete_queue("letters", Force::Yes).dry_run().await?;
    println!("{} tasks would be deleted", would.tasks);
    let gone = inspector.delete_queue("letters", Force::Yes).on_progress(bar()).await?;
    println!("{} tasks are gone, {} queues are left", gone.tasks, inspector.queues().await?.len());
    Ok(())
}
