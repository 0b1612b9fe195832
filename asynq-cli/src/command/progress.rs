//! Long work on many tasks: a bar that shows its progress, and a stop between two slices when the user asks for it.

use asynq_runtime::inspector::{BulkProgress, BulkReport, RunningBulk};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

use crate::{environment::Stop, error::CliError, session::Session};

/// Treats slice after slice until the bulk call is done or the user stops it; returns the report, and whether the user did. A slice
/// that has begun is completed, so that the count is right.
pub(super) async fn carry_out(session: &Session, mut bulk: RunningBulk) -> Result<(BulkReport, bool), CliError> {
    let bar = bar(session, bulk.progress());
    let mut stop = session.stop();
    while !is_over(&mut stop).await {
        match bulk.slice().await? {
            Some(progress) => show(&bar, progress),
            None => return Ok((bulk.report().await?, false)),
        }
    }
    Ok((bulk.progress().into(), true))
}

/// Returns whether the user has asked the command to stop. The call does not wait.
pub(super) async fn is_over(stop: &mut Stop) -> bool {
    tokio::select! {
        biased;
        () = stop => true,
        () = std::future::ready(()) => false,
    }
}

/// Returns a bar for tasks on standard error; it is hidden unless the session has bars.
pub(super) fn bar(session: &Session, progress: BulkProgress) -> ProgressBar {
    let bar = counting(session, progress.total, "tasks");
    show(&bar, progress);
    bar
}

/// Returns a bar for `total` of `noun`, such as queues; its last handle clears it.
pub(super) fn counting(session: &Session, total: u64, noun: &str) -> ProgressBar {
    let target = if session.has_bars() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(total), target).with_finish(ProgressFinish::AndClear);
    // The template is a constant: a mistake in it would only cost the looks.
    let template = format!("{{bar:40}} {noun}: {{human_pos}} of {{human_len}}, {{eta}} left");
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style);
    }
    bar
}

pub(super) fn show(bar: &ProgressBar, progress: BulkProgress) {
    bar.set_length(progress.total);
    bar.set_position(progress.done);
}
