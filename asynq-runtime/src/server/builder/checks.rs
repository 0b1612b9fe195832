//! Checks the options of a server, and fills in the missing ones.

use std::time::Duration;

use asynq_grammar::{Pattern, names::check_queue};

use super::super::{choice::Choice, error::ServerError, handlers::Handlers, queues::Entry};
use crate::job::{IntoSpan, JobDescriptor, JobOptions, Registry};

/// Returns the jobs of a server. No job and no handler at all is an error, unless the server `may_idle`.
pub(super) fn registry(
    given: Option<Registry>,
    registered: Vec<JobDescriptor>,
    handlers: &Handlers,
    may_idle: bool,
) -> Result<Registry, ServerError> {
    let base = match given {
        Some(registry) => registry,
        None => Registry::linked()?,
    };
    let registry = Registry::from_descriptors(base.iter().copied().chain(registered))?;
    if let Some(both) = handlers.patterns().find(|pattern| registry.get(pattern).is_some()) {
        return Err(ServerError::option("handle", format!("`{both}` is a job already: it would never get there")));
    }
    if handlers.is_empty() && !may_idle {
        registry.check_not_empty()?;
    }
    Ok(registry)
}

/// Returns the jobs and handlers to serve.
pub(super) fn chosen(
    choice: &Choice,
    registry: Registry,
    mut handlers: Handlers,
) -> Result<(Registry, Handlers), ServerError> {
    if choice.is_everything() {
        return Ok((registry, handlers));
    }
    let names: Vec<&str> = registry.iter().map(|job| job.name).chain(handlers.patterns()).collect();
    let chosen = choice.check(&names)?;
    handlers.retain(|pattern| chosen.keeps(pattern));
    let jobs = registry.iter().filter(|job| chosen.keeps(job.name)).copied();
    Ok((Registry::from_descriptors(jobs)?, handlers))
}

/// Returns the queues of a server that was given none: those that its jobs name, and the default one if it serves all jobs of the
/// program. A server of some jobs must not take from a queue that none of them names.
pub(super) fn default_queues(registry: &Registry, is_whole: bool) -> Vec<(String, u32)> {
    let mut names = if is_whole { vec![JobOptions::DEFAULT_QUEUE] } else { Vec::new() };
    for job in registry.iter() {
        if !names.contains(&job.options.queue) {
            names.push(job.options.queue);
        }
    }
    names.into_iter().map(|name| (name.to_owned(), 1)).collect()
}

/// Returns the queues and patterns to serve, with weights and limits.
pub(super) fn entries(queues: Vec<(String, u32)>, limits: Vec<(String, usize)>) -> Result<Vec<Entry>, ServerError> {
    let mut entries = Vec::with_capacity(queues.len());
    for (name, weight) in queues {
        let pattern = queue_pattern("queues", &name)?;
        if weight == 0 {
            let reason = format!("queue `{name}` has weight 0: give it at least 1, or leave it out");
            return Err(ServerError::option("queues", reason));
        }
        entries.push(Entry { pattern, weight, limit: None });
    }
    for (name, limit) in limits {
        let refused = |reason: String| Err(ServerError::option("queue_concurrency", reason));
        let Some(entry) = entries.iter_mut().find(|entry| entry.pattern.as_str() == name) else {
            return refused(format!("this server does not serve `{name}`"));
        };
        if limit == 0 {
            return refused(format!("queue `{name}` would never run: give it at least 1, or leave it out"));
        }
        entry.limit = Some(limit);
    }
    Ok(entries)
}

/// Reads a time.
pub(super) fn span(option: &'static str, span: impl IntoSpan) -> Result<Duration, ServerError> {
    span.into_span().map_err(|error| ServerError::option(option, error))
}

/// Reads the name of a queue, or a pattern of queues.
pub(super) fn queue_pattern(option: &'static str, text: &str) -> Result<Pattern, ServerError> {
    if !text.contains('*') {
        // A name that is not valid has the same error as everywhere.
        crate::task::QueueName::new(text)?;
    }
    Pattern::new(text, check_queue).map_err(|why| ServerError::option(option, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(queues: &[(&str, u32)], limits: &[(&str, usize)]) -> Result<Vec<(String, u32, Option<usize>)>, String> {
        let queues = queues.iter().map(|&(name, weight)| (name.to_owned(), weight)).collect();
        let limits = limits.iter().map(|&(name, limit)| (name.to_owned(), limit)).collect();
        let entries = entries(queues, limits).map_err(|error| error.to_string())?;
        Ok(entries.into_iter().map(|e| (e.pattern.to_string(), e.weight, e.limit)).collect())
    }

    #[test]
    fn a_server_without_queues_serves_default_unless_it_has_a_part_of_the_jobs() {
        let jobs = Registry::default();
        assert_eq!(default_queues(&jobs, true), [("default".to_owned(), 1)]);
        assert_eq!(default_queues(&jobs, false), []);
    }

    #[test]
    fn limits_are_those_of_the_queues_and_patterns_as_they_were_written() {
        let checked = checked(&[("mails", 2), ("tenant:*", 1)], &[("tenant:*", 4)]);
        assert_eq!(checked, Ok(vec![("mails".to_owned(), 2, None), ("tenant:*".to_owned(), 1, Some(4))]));
    }

    #[test]
    fn queues_that_cannot_be_served_are_an_error() {
        for (queues, limits, expected) in [
            (&[("a", 0)][..], &[][..], "queue `a` has weight 0"),
            (&[("a**", 1)], &[], "invalid option `queues`: \"a**\" cannot be used"),
            (&[("a{*}", 1)], &[], "`{`"),
            (&[("a", 1)], &[("b", 1)], "this server does not serve `b`"),
            (&[("a", 1)], &[("a", 0)], "queue `a` would never run"),
        ] {
            let error = checked(queues, limits).unwrap_err();
            assert!(error.contains(expected), "{error}\n  should contain\n{expected}");
        }
    }
}
