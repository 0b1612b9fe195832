//! Handlers of task types that no Rust type stands for, found by the rule of Go's mux.

use std::{collections::BTreeMap, fmt, future::Future, sync::Arc};

use super::{error::ServerError, mux};
use crate::job::{BoxFuture, IntoJobResult, RawTask, RunResult};

/// Runs a raw task.
pub(crate) type Handler = Arc<dyn Fn(RawTask) -> BoxFuture<'static, RunResult> + Send + Sync>;

/// The handlers of a server by their patterns.
#[derive(Clone, Default)]
pub(crate) struct Handlers(BTreeMap<String, Handler>);

/// Returns why a pattern that ends in `*` is wrong; `None` for any other.
pub(super) fn wildcard_refusal(pattern: &str) -> Option<String> {
    match pattern.strip_suffix('*')? {
        "" => Some("a pattern is a name or its start, without `*`: write what the names begin with".to_owned()),
        start => Some(format!("a pattern is a name or its start: write `{start}` in place of `{pattern}`")),
    }
}

impl Handlers {
    /// Checks the patterns.
    ///
    /// # Errors
    ///
    /// A pattern is blank, is given twice, or ends in a `*`.
    pub(crate) fn new(given: Vec<(String, Handler)>) -> Result<Self, ServerError> {
        let mut handlers = BTreeMap::new();
        for (pattern, handler) in given {
            if pattern.trim().is_empty() {
                return Err(ServerError::option(
                    "handle",
                    "a pattern must not be blank: write a task type, or its start",
                ));
            }
            if let Some(reason) = wildcard_refusal(&pattern) {
                return Err(ServerError::option("handle", reason));
            }
            if handlers.contains_key(&pattern) {
                return Err(ServerError::option("handle", format!("the pattern `{pattern}` is there twice")));
            }
            handlers.insert(pattern, handler);
        }
        Ok(Self(handlers))
    }

    /// Returns the handler of this type.
    pub(crate) fn find(&self, r#type: &str) -> Option<&Handler> {
        mux::find(&self.0, r#type)
    }

    /// Returns the pattern by which this type has its handler.
    pub(crate) fn pattern_of(&self, r#type: &str) -> Option<&str> {
        mux::find(self.0.keys().map(|pattern| (pattern, pattern.as_str())), r#type)
    }

    pub(crate) fn patterns(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keeps only the handlers whose patterns `keeps` accepts.
    pub(crate) fn retain(&mut self, keeps: impl Fn(&str) -> bool) {
        self.0.retain(|pattern, _| keeps(pattern));
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
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

    fn handlers(patterns: &[&str]) -> Result<Handlers, ServerError> {
        let named = |pattern: &&str| {
            let pattern = (*pattern).to_owned();
            let name = pattern.clone();
            (pattern, handler(move |_| std::future::ready(Err::<(), _>(JobError::fail(name.clone())))))
        };
        Handlers::new(patterns.iter().map(named).collect())
    }

    async fn found(handlers: &Handlers, r#type: &str) -> Option<String> {
        let run = handlers.find(r#type)?(RawTask::new(r#type, "")).await;
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
