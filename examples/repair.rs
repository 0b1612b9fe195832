//! Repair: changes hundreds of tasks at once, with a progress bar, and deletes a queue that is not needed any more.

use asynq_runtime::{
    inspector::{BulkProgress, Force},
    prelude::*,
};
use indicatif::ProgressBar;

/// Never runs here, because this program has no worker: tasks stay until the inspector changes them.
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

    // All tasks are archived, in slices of 100. Tasks that came meanwhile are left, and counted. More tasks than the archive
    // keeps are an error, unless `.beyond_archive()` allows them.
    let report = inspector.archive_all("letters", TaskState::Scheduled).on_progress(bar()).await?;
    println!("{} archived, {} left", report.changed, report.left);

    // A program that wants to stop in between goes slice by slice. The same call goes on later.
    let mut running = inspector.run_all("letters", TaskState::Archived).start().await?;
    while let Some(progress) = running.slice().await? {
        if progress.done >= 200 {
            break;
        }
    }
    println!("{} run again so far", running.progress().changed);
    let report = inspector.run_all("letters", TaskState::Archived).await?;
    println!("and {} more", report.changed);

    // A queue that has tasks is deleted only by force; a dry run counts the tasks that would be deleted.
    if let Err(error) = inspector.delete_queue("letters", Force::No).await {
        println!("refused: {error}");
    }
    let would = inspector.delete_queue("letters", Force::Yes).dry_run().await?;
    println!("{} tasks would be deleted", would.tasks);
    let gone = inspector.delete_queue("letters", Force::Yes).on_progress(bar()).await?;
    println!("{} tasks are gone, {} queues are left", gone.tasks, inspector.queues().await?.len());
    Ok(())
}
