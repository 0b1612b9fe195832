//! Handlers of task types that no Rust type stands for, found by the rule of Go's mux.

use std::sync::Arc;

use super::{error::ServerError, mux::Patterns};
use crate::job::{BoxFuture, IntoJobResult, RawTask, RunResult};

/// Runs a raw task.
pub(crate) type Handler = Arc<dyn Fn(RawTask) -> BoxFuture<'static, RunResult> + Send + Sync>;

/// The handlers of a server by their patterns.
pub(crate) type Handlers = Patterns<Handler>;

/// Adds a handler.
///
/// # Errors
///
/// The pattern is blank, is there already, or ends in a `*`.
pub(super) fn add(handlers: &mut Handlers, pattern: String, handler: Handler) -> Result<(), ServerError> {
    if pattern.trim().is_empty() {
        return Err(ServerError::option("handle", "a pattern must not be blank: write a task type, or its start"));
    }
    handlers.add("handle", pattern, handler)
}

/// Makes a handler of a function of a raw task.
pub(crate) fn handler<F, R>(run: F) -> Handler
where
    F: Fn(RawTask) -> R + Send + Sync + 'static,
    R: Future + Send + 'static,
    R::Output: IntoJobResult<Value = ()>,
{
    Arc::new(move |task| {
        let running = run(task);
        Box::pin(async move { running.await.into_job_result().map(|()| None) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobError;

    fn handlers(patterns: &[&'static str]) -> Result<Handlers, ServerError> {
        let mut handlers = Handlers::default();
        for &pattern in patterns {
            let run = handler(move |_| std::future::ready(Err::<(), _>(JobError::fail(pattern))));
            add(&mut handlers, pattern.to_owned(), run)?;
        }
        Ok(handlers)
    }

    async fn found(handlers: &Handlers, r#type: &str) -> Option<String> {
        let (_, run) = handlers.find(r#type)?;
        let run = run(RawTask::new(r#type, "")).await;
        run.err().map(|error| error.to_string())
    }

    #[tokio::test]
    async fn the_exact_pattern_counts_and_then_the_longest_start() {
        let handlers = handlers(&["image:", "image:resize", "im", "mail"]).unwrap();
        for (r#type, expected) in [
            ("image:resize", Some("image:resize")),
            ("image:resize:big", Some("image:resize")),
            ("image:crop", Some("image:")),
            ("image", Some("im")),
            ("mail", Some("mail")),
            ("mailing", Some("mail")),
            ("video", None),
            ("", None),
        ] {
            assert_eq!(found(&handlers, r#type).await.as_deref(), expected, "{type}");
        }
    }

    #[test]
    fn a_pattern_twice_or_blank_is_refused() {
        for (patterns, expected) in [
            (&["a", "b", "a"][..], "`a` is there twice"),
            (&[" "], "must not be blank"),
            (&["report:*"], "write `report:` in place of `report:*`"),
            (&["*"], "write what the names begin with"),
        ] {
            let error = handlers(patterns).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
