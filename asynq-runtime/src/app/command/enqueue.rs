//! `enqueue NAME JSON`: one task, its arguments checked against their types.

use asynq_grammar::shell;
use chrono::{DateTime, SecondsFormat, Utc};
use clap::ArgMatches;

use super::{
    super::{
        env::Settings,
        error::{AppError, as_line},
    },
    print, producer,
};
use crate::{
    censor::usage_without_passwords,
    job::{JobDescriptor, PreparedTask, RawTask, Registry},
};

pub(in super::super) async fn enqueue(
    settings: Settings,
    has_set_up: bool,
    flags: &ArgMatches,
) -> Result<(), AppError> {
    let registry = Registry::linked()?;
    let text = |id: &str| flags.get_one::<String>(id).map(String::as_str);
    let task = prepare(&registry, text("name").unwrap_or_default(), text("arguments"))?;
    let mut task = RawTask::from_prepared(task);
    if let Some(queue) = text("queue") {
        task = task.queue(queue);
    }
    if let Some(span) = text("in") {
        task = task.process_in(span);
    }
    if let Some(at) = text("at") {
        task = task.process_at(parse_time(at)?);
    }
    if let Some(group) = text("group") {
        task = task.group(group);
    }
    let client = producer(&settings, has_set_up).await?;
    let info = client.enqueue(task).await?;
    let due = match info.next_process_at {
        Some(at) if info.state == crate::TaskState::Scheduled => {
            format!(", due {}", at.to_rfc3339_opts(SecondsFormat::AutoSi, true))
        }
        _ => String::new(),
    };
    let broker = client.broker().location();
    print(format_args!("{} is {} in {} on {broker}{due}\n", info.id, info.state, info.queue))
}

/// Returns the task of the job `name` with these arguments.
fn prepare(registry: &Registry, name: &str, arguments: Option<&str>) -> Result<PreparedTask, AppError> {
    let Some(job) = registry.get(name) else {
        let known: Vec<_> = registry.iter().map(|job| format!("`{}`", job.name)).collect();
        let hint = match known.as_slice() {
            [] => format!("; {}", crate::job::RegistryError::NoJobs),
            known => format!("; it has {}; {}", known.join(", "), crate::job::LINKED_BY_NAME),
        };
        return Err(AppError::UnknownJob { name: name.chars().take(80).collect(), hint });
    };
    let wrong = |reason: String| AppError::Arguments { job: job.name, reason, shape: shape(job) };
    let value = match arguments {
        None => serde_json::Value::Null,
        Some(text) => serde_json::from_str(text).map_err(|error| {
            // The shape of a lone text, which may be optional.
            let is_text = job.fingerprint().shape.trim_end_matches('?') == "str";
            let hint = if is_text { format!(": write {}", as_json(text)) } else { String::new() };
            wrong(format!("this is not JSON ({error}){hint}"))
        })?,
    };
    if let Some(unknown) = unknown_field(job, &value) {
        return Err(wrong(format!("unknown field `{unknown}`")));
    }
    job.prepare(&value).map_err(|error| match arguments {
        None => wrong("none were given".to_owned()),
        Some(_) => wrong(error.to_string()),
    })
}

fn shape(job: &JobDescriptor) -> String {
    match job.fingerprint() {
        fingerprint if fingerprint.no_arguments => "none".to_owned(),
        fingerprint => fingerprint.text(),
    }
}

/// Says how a text is written in JSON, as a shell takes it. A text that is long, or that the line of the error would change, is not
/// repeated: a copy of it would enqueue another text.
fn as_json(text: &str) -> String {
    let json = shell::quote(&serde_json::Value::from(text).to_string());
    let is_shown_whole = text.chars().count() <= 80 && as_line(&json, usage_without_passwords) == json;
    if is_shown_whole { json } else { "it in double quotes, as in '\"Ann\"'".to_owned() }
}

/// Returns a field that serde would skip in silence: on a command line it is a typing error.
fn unknown_field(job: &JobDescriptor, value: &serde_json::Value) -> Option<String> {
    let fingerprint = job.fingerprint();
    let fields = fingerprint.fields.as_ref()?;
    let given = value.as_object()?;
    given.keys().find(|given| !fields.contains(&given.as_str())).map(|field| field.chars().take(80).collect())
}

fn parse_time(text: &str) -> Result<DateTime<Utc>, AppError> {
    DateTime::parse_from_rfc3339(text).map(|at| at.with_timezone(&Utc)).map_err(|error| {
        AppError::setting(
            "--at",
            format!("{text:?} is not a valid time ({error}); write one such as 2030-01-31T09:00:00Z"),
        )
    })
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::job::{Job, JobContext, JobResult};

    macro_rules! job {
        ($(#[$meta:meta])* $type:ident $name:literal $body:tt) => {
            #[derive(Serialize, Deserialize)]
            $(#[$meta])*
            struct $type $body

            impl Job for $type {
                const NAME: &'static str = $name;
                type Output = JobResult;
                async fn run(self, _: &JobContext) -> JobResult {
                    Ok(())
                }
            }
        };
    }

    job!(Mail "mail" { to: String, copies: Option<u8> });
    job!(Letter "letter" { #[serde(alias = "to")] recipient: String, subject: String, copy: Option<String> });
    job!(Tidy "tidy" {});
    job!(#[serde(transparent)] One "one" { path: String });

    fn checked(name: &str, arguments: Option<&str>) -> Result<(), String> {
        let registry = Registry::only::<(Mail, Letter, Tidy, One)>().unwrap();
        prepare(&registry, name, arguments).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn arguments_that_fit_make_a_task() {
        for (name, arguments) in [
            ("mail", Some(r#"{"to":"a@b.c","copies":2}"#)),
            ("mail", Some(r#"{"to":"a@b.c"}"#)),
            ("mail", Some(r#"["a@b.c",2]"#)),
            ("tidy", None),
            ("tidy", Some("{}")),
            ("one", Some("\"a.png\"")),
        ] {
            assert_eq!(checked(name, arguments), Ok(()), "{name} {arguments:?}");
        }
    }

    #[test]
    fn the_error_of_arguments_that_do_not_fit_shows_arguments_that_do() {
        let long = "x".repeat(81);
        let by_example = r#"at line 1 column 1): write it in double quotes, as in '"Ann"'; it takes str"#;
        for (name, arguments, expected) in [
            ("mail", Some(r#"{"copies":2}"#), "`mail` does not take these arguments: missing field `to`"),
            ("mail", Some(r#"{"to":7}"#), "invalid type: integer `7`, expected a string"),
            ("mail", Some(r#"{"to":"a","copys":1}"#), "unknown field `copys`; it takes {to: str, copies: u8?}"),
            ("mail", Some(r#"["a",2,3]"#), "these arguments: an array has more elements than its type"),
            ("mail", Some("{to: 1}"), "this is not JSON (key must be a string at line 1 column 2)"),
            ("one", Some("a b.png"), r#"at line 1 column 1): write '"a b.png"'; it takes str"#),
            ("one", Some(long.as_str()), by_example),
            ("one", Some("a  b"), by_example),
            ("one", Some("redis://:secret@host"), by_example),
            ("mail", None, "`mail` does not take these arguments: none were given; it takes {to: str, copies: u8?}"),
            ("letter", Some(r#"{"to":"a"}"#), "`subject`; it takes {recipient: str, subject: str, copy: str?}"),
            ("tidy", Some("[1]"), "it takes none"),
            ("one", Some("null"), "invalid type: null, expected a string; it takes str"),
            (
                "male",
                None,
                "no job `male`; it has `letter`, `mail`, `one`, `tidy`; jobs of another crate are linked by naming it",
            ),
        ] {
            let error = checked(name, arguments).unwrap_err();
            assert!(error.contains(expected), "{error}\n  should contain\n{expected}");
        }
    }

    #[test]
    fn a_time_is_written_in_rfc_3339() {
        assert_eq!(parse_time("2030-01-31T10:00:00+01:00").unwrap().to_rfc3339(), "2030-01-31T09:00:00+00:00");
        let error = parse_time("tomorrow").unwrap_err().to_string();
        assert!(error.starts_with("--at: \"tomorrow\" is not a valid time"), "{error}");
    }
}
