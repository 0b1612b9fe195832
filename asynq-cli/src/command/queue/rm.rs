//! `queue rm`: deletes queues, and with --force their tasks.

use asynq_grammar::shell;
use asynq_runtime::{
    Inspector,
    inspector::{BulkProgress, Force},
};
use clap::Args;
use futures_util::FutureExt as _;
use serde_json::json;
use tokio::sync::watch;

use super::{
    super::{
        progress,
        several::{Done, Several, once},
    },
    Names,
};
use crate::{
    error::CliError,
    session::Session,
    show::{clean, tasks},
};

#[derive(Debug, Args)]
pub(crate) struct Rm {
    #[command(flatten)]
    names: Names,
    /// Deletes its tasks, too; running ones keep a queue from being deleted
    #[arg(short, long)]
    force: bool,
}

impl Rm {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        let inspector = session.inspector().await?;
        let force = if self.force { Force::Yes } else { Force::No };
        let names = once(&self.names.queues);
        let mut answers = Several::changing("queue").of(names.len());
        let (mut chosen, mut count) = (Vec::new(), 0);
        for name in names {
            match inspector.delete_queue(name, force).dry_run().await {
                Ok(would) => {
                    chosen.push(&**name);
                    count += would.tasks;
                }
                Err(error) => answers.add(session, name, Err(error.into())).await?,
            }
        }
        // One question for all, before a signal is waited for: at a question Ctrl+C ends the process, and nothing was changed.
        if !chosen.is_empty()
            && let Err(error) = session.confirm(&question(&chosen, count))
        {
            return answers.refuse(session, chosen, error);
        }
        let stop = session.stop().shared();
        for name in chosen {
            let done = remove(session, &inspector, name, force, stop.clone()).await;
            answers.add(session, name, done).await?;
        }
        answers.end(session)
    }
}

fn question(names: &[&str], count: u64) -> String {
    let (queues, their) = match names {
        [name] => (format!("queue {name}"), "its"),
        names => (format!("queues {}", names.join(", ")), "their"),
    };
    match count {
        0 => format!("Delete {queues} with {their} counters?"),
        count => format!("Delete {queues} with {their} counters and {}?", tasks(count)),
    }
}

async fn remove(
    session: &mut Session,
    inspector: &Inspector,
    name: &str,
    force: Force,
    stop: impl Future<Output = ()>,
) -> Result<Done, CliError> {
    let was_paused = inspector.queue(name).await?.paused;
    let bar = progress::bar(session, BulkProgress::default());
    let (sender, so_far) = watch::channel(BulkProgress::default());
    let shown = bar.clone();
    let removal = inspector.delete_queue(name, force).on_progress(move |progress| {
        progress::show(&shown, progress);
        sender.send_replace(progress);
    });
    let removed = tokio::select! {
        biased;
        () = stop => None,
        removed = removal => Some(removed),
    };
    bar.finish_and_clear();
    let removed = match removed {
        Some(Ok(removed)) => removed.tasks,
        Some(Err(error)) => {
            // The inspector lets the queue go on after an error, but what ended the deletion may refuse that, too.
            if force == Force::Yes && !was_paused {
                match inspector.queue(name).await {
                    Ok(stats) if !stats.paused => {}
                    Err(error) if error.is_not_found() => {}
                    _ => note_pause(session, name),
                }
            }
            return Err(error.into());
        }
        None => {
            // A deletion that ends half way would leave the queue paused.
            if force == Force::Yes
                && !was_paused
                && let Err(error) = inspector.resume(name).await
            {
                note_pause(session, name);
                return Err(error.into());
            }
            match inspector.queue(name).await {
                // The step that was under way deleted the queue itself.
                Err(error) if error.is_not_found() => so_far.borrow().changed,
                Err(error) => return Err(error.into()),
                Ok(left) => {
                    // A deletion that was killed has left the pause.
                    let paused = if left.paused { ", paused as it was before" } else { "" };
                    return Err(CliError::Stopped(format!(
                        "stopped: queue {name} is still there with {}{paused}; the same command goes on",
                        tasks(left.size),
                    )));
                }
            }
        }
    };
    let text = match removed {
        0 => format!("queue {} is deleted\n", clean(name)),
        count => format!("queue {} is deleted with {}\n", clean(name), tasks(count)),
    };
    Ok((json!({ "tasks": removed }), text))
}

/// Tells how a queue goes on that its deletion may have left paused.
fn note_pause(session: &mut Session, name: &str) {
    session.note(&format!("queue {name} may be left paused: asynq queue resume -- {}", shell::quote(name)));
}
