//! Reads settings from flags and environment variables: the first that says something counts.

use std::time::Duration;

use clap::ArgMatches;

use super::error::AppError;
use crate::{connect::URL_VARIABLE, job::IntoSpan, task::QueueName};

/// What flags and environment can say. `None` leaves it to the set-up, and then to the default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) url: Option<String>,
    pub(super) queues: Option<Vec<(String, u32)>>,
    pub(super) concurrency: Option<usize>,
    pub(super) shutdown_timeout: Option<Duration>,
    pub(super) log_format: Option<LogFormat>,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// A variable of this process; one that is no UTF-8 counts as not set.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

impl Settings {
    /// What the environment says; `get` reads a variable.
    pub(super) fn from_env(get: impl Fn(&str) -> Option<String>) -> Result<Self, AppError> {
        Self::read(|field| (field.variable, get(field.variable)))
    }

    /// What the flags say.
    pub(super) fn from_flags(flags: &ArgMatches) -> Result<Self, AppError> {
        Self::read(|field| (field.flag, flags.try_get_one::<String>(field.id).ok().flatten().cloned()))
    }

    /// These settings, and `lower` where they say nothing.
    pub(super) fn or(self, lower: Self) -> Self {
        Self {
            url: self.url.or(lower.url),
            queues: self.queues.or(lower.queues),
            concurrency: self.concurrency.or(lower.concurrency),
            shutdown_timeout: self.shutdown_timeout.or(lower.shutdown_timeout),
            log_format: self.log_format.or(lower.log_format),
        }
    }

    fn read(get: impl Fn(&Field) -> (&'static str, Option<String>)) -> Result<Self, AppError> {
        fn field<T>(
            (what, text): (&'static str, Option<String>),
            parse: impl FnOnce(&str) -> Result<T, String>,
        ) -> Result<Option<T>, AppError> {
            match text.as_deref().map(str::trim) {
                None | Some("") => Ok(None),
                Some(text) => parse(text).map(Some).map_err(|reason| AppError::setting(what, reason)),
            }
        }
        Ok(Self {
            url: field(get(&URL), |text| Ok(text.to_owned()))?,
            queues: field(get(&QUEUES), parse_queues)?,
            concurrency: field(get(&CONCURRENCY), parse_concurrency)?,
            shutdown_timeout: field(get(&SHUTDOWN_TIMEOUT), |text| text.into_span().map_err(|e| e.to_string()))?,
            log_format: field(get(&LOG_FORMAT), parse_log_format)?,
        })
    }
}

/// One setting's names.
pub(super) struct Field {
    /// The id of the flag.
    pub(super) id: &'static str,
    /// The flag as it is written.
    pub(super) flag: &'static str,
    /// The environment variable.
    pub(super) variable: &'static str,
}

pub(super) const URL: Field = Field { id: "url", flag: "--url", variable: URL_VARIABLE };
pub(super) const QUEUES: Field = Field { id: "queues", flag: "--queues", variable: "ASYNQ_QUEUES" };
pub(super) const CONCURRENCY: Field = Field { id: "concurrency", flag: "--concurrency", variable: "ASYNQ_CONCURRENCY" };
pub(super) const SHUTDOWN_TIMEOUT: Field =
    Field { id: "shutdown-timeout", flag: "--shutdown-timeout", variable: "ASYNQ_SHUTDOWN_TIMEOUT" };
pub(super) const LOG_FORMAT: Field = Field { id: "log-format", flag: "--log-format", variable: "ASYNQ_LOG_FORMAT" };

/// `critical=6,default=3`; a queue without a weight has weight 1.
fn parse_queues(text: &str) -> Result<Vec<(String, u32)>, String> {
    let mut queues: Vec<(String, u32)> = Vec::new();
    for entry in text.split(',') {
        let (name, weight) = match entry.rsplit_once('=') {
            Some((name, weight)) => (name.trim(), weight.trim()),
            None => (entry.trim(), "1"),
        };
        let queue = QueueName::new(name).map_err(|error| format!("{error} (in {text:?})"))?;
        let weight = match weight.parse::<u32>() {
            Ok(weight) if weight > 0 => weight,
            _ => return Err(format!("the weight of queue `{queue}` is {weight:?}; write a whole number from 1 up")),
        };
        if queues.iter().any(|(known, _)| queue == known.as_str()) {
            return Err(format!("queue `{queue}` is named twice"));
        }
        queues.push((queue.as_str().to_owned(), weight));
    }
    Ok(queues)
}

fn parse_concurrency(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(concurrency) if concurrency > 0 => Ok(concurrency),
        _ => Err(format!("{text:?} is not a number of tasks; write a whole number from 1 up")),
    }
}

fn parse_log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(format!("{text:?} is no log format; write text or json")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(variables: &[(&str, &str)]) -> Result<Settings, String> {
        let get = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned());
        Settings::from_env(get).map_err(|error| error.to_string())
    }

    #[test]
    fn every_variable_is_read() {
        let settings = env(&[
            ("ASYNQ_URL", "redis://h"),
            ("ASYNQ_QUEUES", " critical=6, default "),
            ("ASYNQ_CONCURRENCY", "20"),
            ("ASYNQ_SHUTDOWN_TIMEOUT", "1m30s"),
            ("ASYNQ_LOG_FORMAT", "json"),
        ]);
        let expected = Settings {
            url: Some("redis://h".into()),
            queues: Some(vec![("critical".into(), 6), ("default".into(), 1)]),
            concurrency: Some(20),
            shutdown_timeout: Some(Duration::from_secs(90)),
            log_format: Some(LogFormat::Json),
        };
        assert_eq!(settings, Ok(expected));
        assert_eq!(env(&[("ASYNQ_URL", " "), ("ASYNQ_QUEUES", "")]), Ok(Settings::default()));
    }

    #[test]
    fn what_cannot_be_read_names_its_variable_and_says_what_to_write() {
        for (name, text, expected) in [
            ("ASYNQ_QUEUES", "a=0", "ASYNQ_QUEUES: the weight of queue `a` is \"0\"; write a whole number from 1 up"),
            ("ASYNQ_QUEUES", "a=x", "ASYNQ_QUEUES: the weight of queue `a` is \"x\"; write a whole number from 1 up"),
            ("ASYNQ_QUEUES", "a,a=2", "ASYNQ_QUEUES: queue `a` is named twice"),
            ("ASYNQ_QUEUES", "a,,b", "ASYNQ_QUEUES: \"\" cannot be used: queue name must not be empty"),
            ("ASYNQ_QUEUES", "{a}=1", "ASYNQ_QUEUES: \"{a}\" cannot be used: queue name must not contain `{`"),
            ("ASYNQ_CONCURRENCY", "0", "ASYNQ_CONCURRENCY: \"0\" is not a number of tasks"),
            ("ASYNQ_CONCURRENCY", "many", "ASYNQ_CONCURRENCY: \"many\" is not a number of tasks"),
            ("ASYNQ_SHUTDOWN_TIMEOUT", "5", "ASYNQ_SHUTDOWN_TIMEOUT: invalid duration \"5\": `5` has no unit"),
            ("ASYNQ_LOG_FORMAT", "xml", "ASYNQ_LOG_FORMAT: \"xml\" is no log format; write text or json"),
        ] {
            let error = env(&[(name, text)]).unwrap_err();
            assert!(error.starts_with(expected), "{error}\n  should start with\n{expected}");
        }
    }

    #[test]
    fn the_higher_settings_win_one_by_one() {
        let flags = Settings { concurrency: Some(1), ..Settings::default() };
        let env = Settings { concurrency: Some(2), url: Some("sqlite://env.db".into()), ..Settings::default() };
        let both = flags.or(env);
        assert_eq!((both.concurrency, both.url.as_deref()), (Some(1), Some("sqlite://env.db")));
    }
}
