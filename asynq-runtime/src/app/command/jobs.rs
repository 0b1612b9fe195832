//! `jobs`: lists every job of the program, and the rows of its services. Needs no broker.

use std::time::Duration;

use asynq_grammar::duration;
use chrono::SecondsFormat;
use serde_json::{Value, json};

use super::{super::table::Table, AppError, print, print_json};
use crate::{
    inspector::time,
    job::{Codec, JobDescriptor, JobOptions, Registry},
    server::{ServiceEntry, ServiceRow},
    task::UniqueUntil,
};

pub(in super::super) fn jobs(services: &[&ServiceEntry], as_json: bool) -> Result<(), AppError> {
    let registry = Registry::linked()?;
    let services: Vec<(&str, Vec<ServiceRow>)> = services.iter().map(|entry| (entry.name, (entry.rows)())).collect();
    if as_json {
        return print_json(&to_json(&registry, &services));
    }
    registry.check_not_empty()?;
    print(to_text(&registry, &services))
}

fn to_text(registry: &Registry, services: &[(&str, Vec<ServiceRow>)]) -> String {
    let mut table = Table::new(&["JOB", "QUEUE", "OPTIONS", "ARGUMENTS", "PLACE"]);
    for job in registry.iter() {
        let shape = if job.fingerprint().no_arguments { "none".to_owned() } else { short(&job.fingerprint().text()) };
        let mark = match &job.fingerprint().self_describing {
            Some(_) if job.codec == Codec::Postcard => " (postcard cannot carry this: write codec = \"json\")",
            _ if partly_checked(job) => " (partly checked)",
            _ => "",
        };
        let arguments = format!("{shape}{mark}");
        table.row([job.name.into(), job.options.queue.into(), options(job), arguments, job.place()]);
    }
    let mut text = table.to_string();
    text.push_str(&services_table(services));
    if registry.iter().any(partly_checked) {
        text.push_str(
            "\npartly checked: a type's own `Deserialize` hides a part of the arguments, so that a change there is not \
             noticed before a task runs. Write `codec = \"json\"`, or `fingerprint = \"v2\"` and change it by hand.\n",
        );
    }
    text
}

/// Shortens a shape for a table; `--json` has all of it.
fn short(shape: &str) -> String {
    const WIDEST: usize = 60;
    match shape.char_indices().nth(WIDEST) {
        Some((end, _)) => format!("{}…", &shape[..end]),
        None => shape.to_owned(),
    }
}

/// Returns the rows that services add, under a heading of their own; an empty text where there are none.
pub(super) fn services_table(services: &[(&str, Vec<ServiceRow>)]) -> String {
    if services.iter().all(|(_, rows)| rows.is_empty()) {
        return String::new();
    }
    let mut table = Table::new(&["SERVICE", "WHAT", "DETAIL", "NEXT"]);
    for (name, rows) in services {
        for row in rows {
            let next = row.next.first().map(|at| at.to_rfc3339_opts(SecondsFormat::Secs, true)).unwrap_or_default();
            table.row([(*name).to_owned(), row.subject.clone(), row.detail.clone(), next]);
        }
    }
    format!("\n{table}")
}

/// Returns the options of the job's tasks, as text for people.
pub(super) fn options(job: &JobDescriptor) -> String {
    // The options are all named, so that none is forgotten, here and in the JSON below.
    let JobOptions {
        queue: _,
        retry,
        timeout,
        deadline,
        expires,
        retention,
        max_crashes,
        kill_after,
        group,
        unique,
        unique_until,
        unique_extend,
        debounce,
        debounce_max,
    } = job.options;
    let limit = timeout.or(if deadline.is_some() { None } else { Some(JobOptions::DEFAULT_TIMEOUT) });
    let span = |what: &str, span: Option<Duration>| span.map(|span| format!("{what} {}", duration::format(span)));
    let parts = [
        Some(format!("retry {retry}")),
        job.backoff.map(|backoff| format!("backoff {backoff}")),
        span("timeout", limit),
        span("deadline", deadline),
        span("expires", expires),
        group.map(|group| format!("group {group}")),
        span("unique", unique),
        (!job.unique_by.is_empty()).then(|| format!("unique_by {}", job.unique_by.join(" "))),
        span("debounce", debounce),
        span("debounce_max", debounce_max),
        (unique_until != UniqueUntil::End).then(|| format!("unique_until {}", word(unique_until))),
        unique_extend.then(|| "unique_extend".to_owned()),
        span("retention", retention),
        max_crashes.map(|n| format!("max_crashes {n}")),
        span("kill_after", kill_after),
        (!job.aliases.is_empty()).then(|| format!("alias {}", job.aliases.join(" "))),
        (job.upgrades > 0).then(|| "upgrade".to_owned()),
        job.on_archive.map(|_| "on_archive".to_owned()),
        (job.codec == Codec::Json).then(|| "json".to_owned()),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Returns the word of the attribute.
fn word(until: UniqueUntil) -> &'static str {
    match until {
        UniqueUntil::End => "end",
        UniqueUntil::Success => "success",
        UniqueUntil::Start => "start",
    }
}

/// Returns whether the fingerprint covers only a part of the arguments. A JSON payload has no fingerprint to be checked by.
fn partly_checked(job: &JobDescriptor) -> bool {
    job.codec == Codec::Postcard && !job.fingerprint().complete
}

fn to_json(registry: &Registry, services: &[(&str, Vec<ServiceRow>)]) -> Value {
    let jobs: Vec<Value> = registry.iter().map(job_to_json).collect();
    let services = services.iter().flat_map(|(name, rows)| {
        rows.iter().map(move |row| {
            let next: Vec<_> = row.next.iter().copied().map(time).collect();
            json!({ "service": name, "subject": row.subject, "detail": row.detail, "next": next })
        })
    });
    json!({ "jobs": jobs, "services": services.collect::<Vec<_>>() })
}

fn job_to_json(job: &JobDescriptor) -> Value {
    let options = &job.options;
    let fingerprint = job.fingerprint();
    let seconds = |span: Option<Duration>| span.map(|span| span.as_secs_f64());
    json!({
        "name": job.name,
        "queue": options.queue,
        "retry": options.retry,
        "timeout_seconds": seconds(options.timeout),
        "deadline_seconds": seconds(options.deadline),
        "expires_seconds": seconds(options.expires),
        "group": options.group,
        "unique_seconds": seconds(options.unique),
        "unique_by": job.unique_by,
        "debounce_seconds": seconds(options.debounce),
        "debounce_max_seconds": seconds(options.debounce_max),
        "unique_until": options.unique.or(options.debounce).map(|_| word(options.unique_until)),
        "unique_extend": options.unique_extend,
        "retention_seconds": seconds(options.retention),
        "max_crashes": options.max_crashes.unwrap_or(JobOptions::DEFAULT_MAX_CRASHES),
        "kill_after_seconds": seconds(options.kill_after),
        "aliases": job.aliases,
        "upgrades": job.upgrades,
        "on_archive": job.on_archive.is_some(),
        "backoff": job.backoff.map(|backoff| backoff.to_string()),
        "codec": job.codec.as_str(),
        "arguments": {
            "shape": fingerprint.shape,
            "fingerprint": (job.codec == Codec::Postcard).then(|| format!("{:08x}", fingerprint.value)),
            "partly_checked": partly_checked(job),
            "none": fingerprint.no_arguments,
        },
        "states": job.requires.iter().map(|state| state.name()).collect::<Vec<_>>(),
        "file": job.file,
        "line": job.line,
    })
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::job::{Backoff, Job, JobContext, JobResult, Upgrade};

    #[derive(Serialize, Deserialize)]
    struct Mail {
        to: String,
    }

    impl Job for Mail {
        const NAME: &'static str = "mail";
        const OPTIONS: JobOptions = JobOptions::new()
            .queue("critical")
            .retry(5)
            .timeout(Duration::from_secs(180))
            .unique(Duration::from_secs(3600));
        type Output = JobResult;
        async fn run(self, _: &JobContext) -> JobResult {
            Ok(())
        }
    }

    #[derive(Serialize, Deserialize)]
    struct Note {}

    impl Job for Note {
        const NAME: &'static str = "note";
        const OPTIONS: JobOptions = JobOptions::new()
            .expires(Duration::from_secs(600))
            .group("digest")
            .unique(Duration::from_secs(60))
            .unique_until(UniqueUntil::Success)
            .unique_extend()
            .kill_after(Duration::from_secs(30));
        const ALIASES: &'static [&'static str] = &["memo"];
        const UPGRADES: &'static [Upgrade<Self>] = &[Upgrade::new(|earlier| earlier.through(|Mail { .. }| Self {}))];
        const UNIQUE_BY: &'static [&'static str] = &["to", "campaign"];
        const BACKOFF: Option<Backoff> = Some(Backoff::linear(Duration::from_secs(10)));
        type Output = JobResult;
        async fn run(self, _: &JobContext) -> JobResult {
            Ok(())
        }
    }

    #[test]
    fn every_option_is_displayed_in_the_words_of_the_attribute() {
        let job = JobDescriptor::of::<Note>("src/note.rs", 1);
        assert_eq!(
            options(&job),
            "retry 25, backoff linear(10s), timeout 30m, expires 10m, group digest, unique 1m, \
             unique_by to campaign, unique_until success, unique_extend, kill_after 30s, alias memo, upgrade"
        );
        let json = job_to_json(&job);
        assert_eq!((&json["group"], &json["expires_seconds"]), (&json!("digest"), &json!(600.0)));
        assert_eq!((&json["unique_until"], &json["unique_extend"]), (&json!("success"), &json!(true)));
        assert_eq!((&json["unique_by"], &json["upgrades"]), (&json!(["to", "campaign"]), &json!(1)));
        assert_eq!(json["backoff"], "linear(10s)");
        assert_eq!(
            (&json["kill_after_seconds"], &json["aliases"], &json["on_archive"]),
            (&json!(30.0), &json!(["memo"]), &json!(false))
        );
        let mail = job_to_json(&JobDescriptor::of::<Tidy>("src/tidy.rs", 1));
        assert_eq!(
            (&mail["group"], &mail["backoff"], &mail["unique_until"]),
            (&Value::Null, &Value::Null, &Value::Null)
        );
        assert_eq!(mail["unique_extend"], false);
        assert_eq!((&mail["unique_by"], &mail["upgrades"]), (&json!([]), &json!(0)));
        let mut debounced = JobDescriptor::of::<Tidy>("src/tidy.rs", 1);
        debounced.options = JobOptions::new().debounce(Duration::from_secs(30)).unique_until(UniqueUntil::Success);
        assert_eq!(job_to_json(&debounced)["unique_until"], "success");
    }

    #[derive(Serialize)]
    struct Picky;

    impl<'de> Deserialize<'de> for Picky {
        fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
            String::deserialize(d).and_then(|_| Err(serde::de::Error::custom("never")))
        }
    }

    #[derive(Serialize, Deserialize)]
    struct Tidy {
        why: Picky,
        by: u8,
    }

    impl Job for Tidy {
        const NAME: &'static str = "tidy";
        type Output = JobResult;
        async fn run(self, _: &JobContext) -> JobResult {
            Ok(())
        }
    }

    fn registry() -> Registry {
        let jobs = [JobDescriptor::of::<Mail>("src/mail.rs", 4), JobDescriptor::of::<Tidy>("src/tidy.rs", 7)];
        Registry::from_descriptors(jobs).unwrap()
    }

    fn services() -> Vec<(&'static str, Vec<ServiceRow>)> {
        let next = vec![DateTime::from_timestamp(1_893_553_445, 0).unwrap()];
        vec![("scheduler", vec![ServiceRow { subject: "mail".into(), detail: "*/5 * * * *".into(), next }])]
    }

    #[test]
    fn the_table_shows_queue_options_arguments_and_place() {
        let text = to_text(&registry(), &services());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..6],
            [
                "JOB   QUEUE     OPTIONS                         ARGUMENTS                                   PLACE",
                "mail  critical  retry 5, timeout 3m, unique 1h  {to: str}                                   src/mail.rs:4",
                "tidy  default   retry 25, timeout 30m           {why: str, by: _} of Tidy (partly checked)  src/tidy.rs:7",
                "",
                "SERVICE    WHAT  DETAIL       NEXT",
                "scheduler  mail  */5 * * * *  2030-01-02T03:04:05Z",
            ]
        );
        assert!(text.contains("fingerprint = \"v2\"") && text.contains("codec = \"json\""), "{text}");
    }

    #[test]
    fn a_long_shape_is_cut_between_characters() {
        assert_eq!(short(&"ä".repeat(60)), "ä".repeat(60));
        assert_eq!(short(&"ä".repeat(61)), format!("{}…", "ä".repeat(60)));
    }

    #[test]
    fn json_has_the_documented_fields() {
        let json = to_json(&registry(), &services());
        let mail = &json["jobs"][0];
        assert_eq!(mail["name"], "mail");
        assert_eq!(mail["timeout_seconds"], 180.0);
        assert_eq!(mail["retention_seconds"], Value::Null);
        assert_eq!(mail["max_crashes"], 3);
        assert_eq!(mail["arguments"]["shape"], "{to: str}");
        assert_eq!(mail["arguments"]["fingerprint"].as_str().map(str::len), Some(8));
        assert_eq!(json["jobs"][1]["arguments"]["partly_checked"], true);
        assert_eq!(json["services"][0]["next"][0], "2030-01-02T03:04:05.000Z");
    }
}
