//! Writes the documentation of the generated items.

use std::time::Duration;

use asynq_grammar::duration;
use syn::ext::IdentExt;

use super::{
    model::{JobModel, Options},
    parameter::Argument,
    setting::{Codec, Pause, UniqueUntil},
};

/// Returns the paragraph under the user's own words on the struct.
pub(super) fn of_struct(job: &JobModel) -> String {
    let mut facts = vec![format!("Job `{}`", job.name)];
    facts.extend(facts_of(&job.options));
    if let Some(arguments) = &job.unique_by {
        let names: Vec<_> = arguments.iter().map(|ident| format!("`{}`", ident.unraw())).collect();
        facts.push(format!("unique by {}", names.join(" and ")));
    }
    match &job.backoff {
        Some(Pause::Declared(backoff)) => facts.push(format!("backs off {backoff}")),
        Some(Pause::By(_)) => facts.push("backs off by a function".to_owned()),
        None => {}
    }
    if let Some(path) = &job.aggregates {
        let name = path.segments.last().map(|segment| segment.ident.unraw().to_string()).unwrap_or_default();
        facts.push(format!("made of many `{name}`"));
    }
    if job.codec == Codec::Json {
        facts.push("JSON payload".to_owned());
    }
    let schedule = job.schedule.as_ref().map(|schedule| format!("{}.\n\n", schedule.sentence())).unwrap_or_default();
    let has_words = job.struct_attrs().any(|attr| attr.path().is_ident("doc"));
    let gap = if has_words { "\n" } else { "" };
    let runs = if job.is_contract { "Another program runs it.".to_owned() } else { format!("Runs {}.", function(job)) };
    format!("{gap}{schedule}{}.\n{runs}", facts.join(" · "))
}

fn facts_of(options: &Options) -> Vec<String> {
    let time = |seconds| duration::format(Duration::from_secs(seconds));
    let retry = |count| match count {
        0 => "no retries".to_owned(),
        1 => "up to 1 retry".to_owned(),
        _ => format!("up to {count} retries"),
    };
    [
        options.queue.as_ref().map(|queue| format!("queue `{queue}`")),
        options.retry.map(retry),
        options.timeout.map(|seconds| format!("times out after {}", time(seconds))),
        options.deadline.map(|seconds| format!("to be done within {} of the enqueue", time(seconds))),
        options.expires.map(|span| format!("expires {} after the enqueue", duration::format(span))),
        options.group.as_ref().map(|group| format!("waits in group `{group}` to be aggregated")),
        options.debounce.map(|span| format!("debounced for {}", duration::format(span))),
        options.debounce_max.map(|span| format!("debounced for {} at most", duration::format(span))),
        options.unique.map(|seconds| format!("unique for {}", time(seconds))),
        options.unique_until.and_then(until),
        options.unique_extend.then(|| "unique as long as it runs".to_owned()),
        options.retention.map(|seconds| format!("kept for {}", time(seconds))),
        options.max_crashes.map(|count| format!("archived at crash {count}")),
        options.kill_after.map(|span| format!("given up {} after its time is over", duration::format(span))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn until(until: UniqueUntil) -> Option<String> {
    match until {
        UniqueUntil::End => None,
        UniqueUntil::Success => Some("unique until it succeeds".to_owned()),
        UniqueUntil::Start => Some("unique until it starts".to_owned()),
    }
}

pub(super) fn of_field(job: &JobModel, argument: &Argument) -> String {
    format!("Argument `{}` of {}.", argument.name(), function(job))
}

pub(super) fn of_job() -> &'static str {
    "This job with these arguments, ready for options of one enqueue, such as `.queue(\"low\")`.\n\n\
     Nothing is sent before `.enqueue(&client)`."
}

pub(super) fn of_enqueue() -> String {
    format!("Enqueues this job with the options declared on the function.\n\n{ERRORS}")
}

pub(super) fn of_enqueue_in() -> String {
    format!("Enqueues this job to run after a delay: a `Duration`, or text such as `\"10m\"`.\n\n{ERRORS}")
}

pub(super) fn of_enqueue_at() -> String {
    format!("Enqueues this job to run at a given time.\n\n{ERRORS}")
}

const ERRORS: &str = "# Errors\n\nWhen the task is a duplicate, an option or argument is not valid, or the broker \
                      cannot be reached.";

/// Returns the function as a link, if rustdoc can follow one.
fn function(job: &JobModel) -> String {
    let ident = job.ident().to_string();
    if ident.starts_with("r#") || job.is_contract {
        format!("`{}()`", job.ident().unraw())
    } else {
        format!("[`{ident}()`]")
    }
}
