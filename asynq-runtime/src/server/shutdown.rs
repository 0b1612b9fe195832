//! Leaves in order and in time, as SIGTERM and SIGINT ask for: quiet, drain, requeue, settle, leave.
//!
//! However the broker behaves, a shutdown takes no longer than its timeout and a second (docs/design/recovery.md#shutdown).

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, timeout_at};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{hooks::LifecycleHooks, os_signals::OsRequests, server_context::ServerContext, stop::Why};
use crate::{broker::far, client::Client};

/// How long jobs that were asked to stop may take to notice, from the end of the timeout on.
const NOTICE: Duration = Duration::from_millis(250);
/// When the broker must have taken the outcomes, from the end of the timeout on.
const SETTLE: Duration = Duration::from_millis(700);
/// When the server must have left, from the end of the timeout on.
const LEAVE: Duration = Duration::from_millis(850);

/// Ends the server's work. Runs on the heartbeat runtime.
pub(crate) async fn drain(context: Arc<ServerContext>, lifecycle_hooks: LifecycleHooks, closes_broker: bool) {
    let end = far(Instant::now(), context.config.shutdown_timeout);
    let running = context.runs.running();
    log!(info, running, timeout = ?context.config.shutdown_timeout, "leaving: takes no more tasks");
    context.quiet.cancel();
    context.closing.cancel();
    context.runs.wake_fetcher();
    // Where jobs block every thread of their runtime nothing ends there, and a program without a hook must not be told of a slow one.
    let hooks = (!lifecycle_hooks.on_drain.is_empty()).then(|| {
        let client = Client::new(Arc::clone(&context.broker));
        AbortOnDropHandle::new(context.jobs.spawn(lifecycle_hooks.drain(client)))
    });
    let nothing_runs = async {
        context.fetched_last.cancelled().await;
        context.runs.emptied().await;
    };
    if !within(end, nothing_runs).await {
        let running = context.runs.running();
        if running > 0 {
            log!(warn, running, "the shutdown timeout is over: jobs that still run are requeued");
        }
        context.outbox.gather();
        context.runs.stop_all(Why::Leaving);
        let nothing_runs = async {
            // A fetch that was under way may still bring tasks, which have not been asked to stop.
            context.fetched_last.cancelled().await;
            context.runs.stop_all(Why::Leaving);
            context.runs.emptied().await;
        };
        within(end + NOTICE, nothing_runs).await;
    }
    if let Some(hooks) = hooks
        && !within(end, async { drop(hooks.await) }).await
    {
        log!(warn, "a hook on_drain took longer than the shutdown timeout and is dropped");
    }
    // Jobs that block their thread have not noticed the request. Their tasks are requeued without them, or settled where only a
    // hook blocks.
    context.requeue(&context.runs.unended());
    // The fetcher has not noticed either where such a job blocks its thread.
    let why = match timeout_at(end + SETTLE, context.release_unanswered(Duration::ZERO)).await {
        Ok(answer) => answer.err().map(|error| error.to_string()),
        Err(_) => Some("the broker did not answer in time".to_owned()),
    };
    if let Some(why) = why {
        log!(warn, "tasks of an unanswered dequeue, if any, run again when their lease expires: {why}");
    }
    context.outbox.send_requeued();
    if !within(end + SETTLE, context.outbox.emptied()).await
        && let Err(error) = context.outbox.outcome()
    {
        log!(error, "{error}");
    }
    // `closing` stops the aggregator as well: it releases its sets to their groups.
    within(end + SETTLE, context.aggregated_last.cancelled()).await;
    // `closing` stops the services as well, which may still be using the broker.
    within(end + SETTLE, context.services_ended.cancelled()).await;
    context.leaving.cancel();
    let leave = async {
        // A server that holds tasks does not leave: they return when their leases expire.
        if context.runs.is_empty()
            && let Err(error) = context.broker.leave(&context.member).await
        {
            log!(warn, "could not leave the list of servers, which forgets this one in 10 s: {error}");
        }
        if closes_broker {
            context.broker.close().await;
        }
    };
    within(end + LEAVE, leave).await;
    log!(info, server = %context.member.name, "has left");
}

/// Handles the requests of the operating system until one asks to leave or `leave` is cancelled, then drains. Runs on the heartbeat
/// runtime.
pub(crate) async fn handle_requests(
    mut requests: OsRequests,
    context: Arc<ServerContext>,
    leave: CancellationToken,
    drain: impl Future<Output = ()>,
) {
    let asked = async {
        requests.quiet().await;
        if !requests.is_leaving() {
            log!(info, "quiet: takes no more tasks, and what runs goes on");
            context.quiet.cancel();
        }
        requests.obey().await;
    };
    leave.run_until_cancelled(asked).await;
    drain.await;
}

async fn within(end: Instant, future: impl Future<Output = ()>) -> bool {
    timeout_at(end, future).await.is_ok()
}
