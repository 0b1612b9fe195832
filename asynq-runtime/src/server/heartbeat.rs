//! Shows to other programs that the server is alive, and which tasks it runs.

use std::sync::Arc;

use super::{config::BEAT, retry_backoff::RetryBackoff, server_context::ServerContext};

/// Beats until it is dropped: every 5 s, and at once when the server becomes quiet or leaves.
pub(crate) async fn run(context: Arc<ServerContext>) {
    let mut retry_backoff = RetryBackoff::new("heartbeat", BEAT / 2);
    loop {
        crate::metrics::refresh();
        // Read before the beat: a change during the beat makes the next one come at once.
        let (was_quiet, was_closing) = (context.quiet.is_cancelled(), context.closing.is_cancelled());
        let (info, workers) = (context.server_info(), context.runs.worker_infos(&context.member.name));
        let beat = context.broker.beat(&context.member, &info, &workers);
        let pause = match context.answer(beat).await {
            Ok(()) => {
                retry_backoff.on_success();
                context.signals.beat.notify();
                BEAT
            }
            Err(error) if context.has_closed(&error) => return,
            Err(error) => retry_backoff.on_error(&error),
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = context.quiet.cancelled(), if !was_quiet => {}
            () = context.closing.cancelled(), if !was_closing => {}
        }
    }
}
