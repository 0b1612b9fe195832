//! Writes the documentation of the generated items.

use std::time::Duration;

use asynq_grammar::duration;
use syn::ext::IdentExt;

use super::{
    attr::Attr,
    model::JobModel,
    parameter::Argument,
    setting::{Pause, UniqueUntil},
};

/// Returns the paragraph under the user's own words on the struct.
pub(super) fn of_struct(job: &JobModel) -> String {
    let mut facts = vec![format!("Job `{}`", job.name)];
    facts.extend(facts_of(&job.attr));
    if let Some(arguments) = &job.unique_by {
        let names: Vec<_> = arguments.iter().map(|ident| format!("`{}`", ident.unraw())).collect();
        facts.push(format!("unique by {}", names.join(" and ")));
    }
    match job.attr.backoff.as_deref() {
        Some(Pause::Declared(backoff)) => facts.push(format!("backs off {backoff}")),
        Some(Pause::By(_)) => facts.push("backs off by a function".to_owned()),
        None => {}
    }
    if let Some(path) = job.attr.aggregates.as_deref() {
        let name = path.segments.last().map(|segment| segment.ident.unraw().to_string()).unwrap_or_default();
        facts.push(format!("made of many `{name}`"));
    }
    if job.attr.is_json() {
        facts.push("JSON payload".to_owned());
    }
    let schedule = job.attr.schedule.sentence().map(|sentence| format!("{sentence}.\n\n")).unwrap_or_default();
    let has_words = job.struct_attrs().any(|attr| attr.path().is_ident("doc"));
    let gap = if has_words { "\n" } else { "" };
    let runs = if job.signature.is_contract {
        "Another program runs it.".to_owned()
    } else {
        format!("Runs {}.", function(job))
    };
    format!("{gap}{schedule}{}.\n{runs}", facts.join(" · "))
}

fn facts_of(attr: &Attr) -> Vec<String> {
    let time = |span: &Duration| duration::format(*span);
    let retry = |count: &u32| match count {
        0 => "no retries".to_owned(),
        1 => "up to 1 retry".to_owned(),
        _ => format!("up to {count} retries"),
    };
    [
        attr.queue.as_deref().map(|queue| format!("queue `{queue}`")),
        attr.retry.as_deref().map(retry),
        attr.timeout.as_deref().map(|span| format!("times out after {}", time(span))),
        attr.deadline.as_deref().map(|span| format!("to be done within {} of the enqueue", time(span))),
        attr.expires.as_deref().map(|span| format!("expires {} after the enqueue", time(span))),
        attr.group.as_deref().map(|group| format!("waits in group `{group}` to be aggregated")),
        attr.debounce.as_deref().map(|span| format!("debounced for {}", time(span))),
        attr.debounce_max.as_deref().map(|span| format!("debounced for {} at most", time(span))),
        attr.unique.as_deref().map(|span| format!("unique for {}", time(span))),
        attr.unique_until.as_deref().and_then(until),
        attr.unique_extend.as_deref().and_then(|extend| extend.then(|| "unique as long as it runs".to_owned())),
        attr.retention.as_deref().map(|span| format!("kept for {}", time(span))),
        attr.max_crashes.as_deref().map(|count| format!("archived at crash {count}")),
        attr.kill_after.as_deref().map(|span| format!("given up {} after its time is over", time(span))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn until(until: &UniqueUntil) -> Option<String> {
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

pub(super) fn of_enqueue(how: &str) -> String {
    format!(
        "Enqueues this job {how}.\n\n# Errors\n\n\
         When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached."
    )
}

/// Returns the function as a link, if rustdoc can follow one.
fn function(job: &JobModel) -> String {
    let ident = job.ident().to_string();
    if ident.starts_with("r#") || job.signature.is_contract {
        format!("`{}()`", job.ident().unraw())
    } else {
        format!("[`{ident}()`]")
    }
}
