//! Reads settings from flags and environment variables: the first one that has a setting counts.

use std::{
    ffi::OsString,
    num::{NonZeroU32, NonZeroUsize},
    time::Duration,
};

use super::error::AppError;
use crate::{
    censor::usage_without_passwords,
    connect::{URL_VARIABLE, text_of_variable},
    job::IntoSpan,
    task::QueueName,
};

/// The settings that flags and environment can have. `None` leaves one to the set-up, and then to the default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) url: Option<String>,
    pub(super) queues: Option<Vec<Queue>>,
    pub(super) only: Option<Vec<String>>,
    pub(super) except: Option<Vec<String>>,
    pub(super) concurrency: Option<usize>,
    pub(super) shutdown_timeout: Option<Duration>,
    pub(super) log_format: Option<LogFormat>,
}

/// An entry of `--queues`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Queue {
    /// A queue or a pattern.
    pub(super) name: String,
    pub(super) weight: u32,
    /// How many tasks run at a time at most.
    pub(super) limit: Option<usize>,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Returns a variable of this process.
pub(super) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Returns whether a terminal should get colours, by the environment variables `NO_COLOR` and `TERM`.
pub fn wants_colours(no_color: Option<OsString>, term: Option<OsString>) -> bool {
    no_color.is_none_or(|value| value.is_empty()) && term.is_none_or(|term| term != "dumb")
}

impl Settings {
    /// Reads the settings of the environment; `get` returns a variable. A blank variable counts as not set.
    pub(super) fn from_env(get: impl Fn(&str) -> Option<OsString>) -> Result<Self, AppError> {
        Self::read(|field| Ok((field.variable, get(field.variable))))
    }

    /// Reads the settings of the flags.
    #[cfg(feature = "main")]
    pub(super) fn from_flags(flags: &clap::ArgMatches) -> Result<Self, AppError> {
        // A blank variable counts as not set, because not every system that starts programs can leave one out. A flag can be left
        // out, and one without a value comes from a variable of a script that is not set: the default must not take its place.
        Self::read(|field| {
            let text = flags.try_get_one::<String>(field.flag).ok().flatten();
            if text.is_some_and(|text| text.trim().is_empty()) {
                let is_only = field.flag == ONLY.flag;
                let reason =
                    if is_only { crate::server::NO_JOB } else { "it is empty: give it a value, or leave it out" };
                return Err(AppError::setting(field.flag, reason));
            }
            Ok((field.flag, text.map(OsString::from)))
        })
    }

    /// Returns these settings, and those of `lower` where these have none.
    pub(super) fn or(self, lower: Self) -> Self {
        Self {
            url: self.url.or(lower.url),
            queues: self.queues.or(lower.queues),
            only: self.only.or(lower.only),
            except: self.except.or(lower.except),
            concurrency: self.concurrency.or(lower.concurrency),
            shutdown_timeout: self.shutdown_timeout.or(lower.shutdown_timeout),
            log_format: self.log_format.or(lower.log_format),
        }
    }

    fn read(get: impl Fn(&Field) -> Result<(&'static str, Option<OsString>), AppError>) -> Result<Self, AppError> {
        fn field<T>(
            (what, text): (&'static str, Option<OsString>),
            parse: impl FnOnce(&str) -> Result<T, String>,
        ) -> Result<Option<T>, AppError> {
            let text = text_of_variable(text).map_err(|reason| AppError::setting(what, reason))?;
            text.map(|text| parse(&text)).transpose().map_err(|reason| AppError::setting(what, reason))
        }
        Ok(Self {
            url: field(get(&URL)?, |text| Ok(text.to_owned()))?,
            queues: field(get(&QUEUES)?, parse_queues)?,
            only: field(get(&ONLY)?, parse_names)?,
            except: field(get(&EXCEPT)?, parse_names)?,
            concurrency: field(get(&CONCURRENCY)?, parse_concurrency)?,
            shutdown_timeout: field(get(&SHUTDOWN_TIMEOUT)?, |text| text.into_span().map_err(|e| e.to_string()))?,
            log_format: field(get(&LOG_FORMAT)?, parse_log_format)?,
        })
    }
}

/// The names of a setting.
#[cfg_attr(not(feature = "main"), allow(dead_code, reason = "there are no flags without `main!`"))]
pub(super) struct Field {
    /// The flag as it is written.
    pub(super) flag: &'static str,
    /// The environment variable.
    pub(super) variable: &'static str,
}

pub(super) const URL: Field = Field { flag: "--url", variable: URL_VARIABLE };
pub(super) const QUEUES: Field = Field { flag: "--queues", variable: "ASYNQ_QUEUES" };
pub(super) const ONLY: Field = Field { flag: "--only", variable: "ASYNQ_ONLY" };
pub(super) const EXCEPT: Field = Field { flag: "--except", variable: "ASYNQ_EXCEPT" };
pub(super) const CONCURRENCY: Field = Field { flag: "--concurrency", variable: "ASYNQ_CONCURRENCY" };
pub(super) const SHUTDOWN_TIMEOUT: Field = Field { flag: "--shutdown-timeout", variable: "ASYNQ_SHUTDOWN_TIMEOUT" };
pub(super) const LOG_FORMAT: Field = Field { flag: "--log-format", variable: "ASYNQ_LOG_FORMAT" };

/// Parses `critical=6,default=3/10,tenant:*`: name, weight and most tasks at a time; the default weight is 1.
fn parse_queues(text: &str) -> Result<Vec<Queue>, String> {
    parse_entries(text).map_err(|reason| {
        // The error of an entry quotes a part of the text, in which the password of a URL in the wrong place is not recognised any more.
        let clean = usage_without_passwords(text);
        if clean == text {
            return reason;
        }
        format!("{clean:?} is not a list of queues; write names with their weights, such as critical=6,default")
    })
}

fn parse_entries(text: &str) -> Result<Vec<Queue>, String> {
    let mut queues: Vec<Queue> = Vec::new();
    for entry in text.split(',') {
        let (name, weight) = match entry.rsplit_once('=') {
            Some((name, weight)) => (name.trim(), weight.trim()),
            None => (entry.trim(), "1"),
        };
        if !entry.contains('=')
            && let Some((queue, limit)) = name.rsplit_once('/')
            && limit.trim().parse::<usize>().is_ok()
        {
            return Err(format!(
                "{name:?} is a limit without a weight; write {queue}=1/{limit}, or {name}=1 if that is the queue"
            ));
        }
        let name = QueueName::new(name).map_err(|error| format!("{error} (in {text:?})"))?.as_str().to_owned();
        let (weight, limit) = match weight.split_once('/') {
            Some((weight, limit)) => (weight.trim(), Some(limit.trim())),
            None => (weight, None),
        };
        let wrong = |what: &str, text: &str| {
            format!("the {what} of queue `{name}` is {text:?}; write a whole number from 1 up")
        };
        let weight = weight.parse::<NonZeroU32>().map_err(|_| wrong("weight", weight))?.get();
        let limit = limit.map(|limit| limit.parse::<NonZeroUsize>().map_err(|_| wrong("limit", limit))).transpose()?;
        let limit = limit.map(NonZeroUsize::get);
        if queues.iter().any(|known| known.name == name) {
            return Err(format!("queue `{name}` is named twice"));
        }
        queues.push(Queue { name, weight, limit });
    }
    Ok(queues)
}

/// Parses `send_email,mail:*`.
fn parse_names(text: &str) -> Result<Vec<String>, String> {
    let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    if names.iter().any(String::is_empty) {
        return Err(format!("{text:?} has an empty name; write names of jobs with commas between them"));
    }
    Ok(names)
}

fn parse_concurrency(text: &str) -> Result<usize, String> {
    text.parse::<NonZeroUsize>().map(NonZeroUsize::get).map_err(|_| {
        format!("{text:?} is not a number of tasks; write a whole number from 1 up, or leave it out for one for each processor")
    })
}

fn parse_log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(format!("{text:?} is not a log format; write text or json")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(variables: &[(&str, &str)]) -> Result<Settings, String> {
        let get = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).into());
        Settings::from_env(get).map_err(|error| error.to_string())
    }

    fn queue(name: &str, weight: u32, limit: Option<usize>) -> Queue {
        Queue { name: name.into(), weight, limit }
    }

    #[test]
    fn every_variable_is_read() {
        let settings = env(&[
            ("ASYNQ_URL", "redis://h"),
            ("ASYNQ_QUEUES", " critical=6, default , tenant:*= 2 / 10,team/mail,team/3=1"),
            ("ASYNQ_ONLY", "send_email, mail:*"),
            ("ASYNQ_EXCEPT", "mail:bye"),
            ("ASYNQ_CONCURRENCY", "20"),
            ("ASYNQ_SHUTDOWN_TIMEOUT", "1m30s"),
            ("ASYNQ_LOG_FORMAT", "json"),
        ]);
        let expected = Settings {
            url: Some("redis://h".into()),
            queues: Some(vec![
                queue("critical", 6, None),
                queue("default", 1, None),
                queue("tenant:*", 2, Some(10)),
                queue("team/mail", 1, None),
                queue("team/3", 1, None),
            ]),
            only: Some(vec!["send_email".into(), "mail:*".into()]),
            except: Some(vec!["mail:bye".into()]),
            concurrency: Some(20),
            shutdown_timeout: Some(Duration::from_secs(90)),
            log_format: Some(LogFormat::Json),
        };
        assert_eq!(settings, Ok(expected));
        assert_eq!(env(&[("ASYNQ_URL", " "), ("ASYNQ_QUEUES", "")]), Ok(Settings::default()));
    }

    #[test]
    fn the_error_of_an_invalid_variable_names_it_and_says_what_to_write() {
        for (name, text, expected) in [
            ("ASYNQ_QUEUES", "a=0", "ASYNQ_QUEUES: the weight of queue `a` is \"0\"; write a whole number from 1 up"),
            ("ASYNQ_QUEUES", "a=x", "ASYNQ_QUEUES: the weight of queue `a` is \"x\"; write a whole number from 1 up"),
            ("ASYNQ_QUEUES", "a=1/0", "ASYNQ_QUEUES: the limit of queue `a` is \"0\"; write a whole number from 1 up"),
            ("ASYNQ_QUEUES", "a=/5", "ASYNQ_QUEUES: the weight of queue `a` is \"\"; write a whole number from 1 up"),
            (
                "ASYNQ_QUEUES",
                "b,a/5",
                "ASYNQ_QUEUES: \"a/5\" is a limit without a weight; write a=1/5, or a/5=1 if that is the queue",
            ),
            ("ASYNQ_ONLY", "a,,b", "ASYNQ_ONLY: \"a,,b\" has an empty name"),
            ("ASYNQ_QUEUES", "a,a=2", "ASYNQ_QUEUES: queue `a` is named twice"),
            ("ASYNQ_QUEUES", "a,,b", "ASYNQ_QUEUES: \"\" cannot be used: queue name must not be empty"),
            (
                "ASYNQ_QUEUES",
                "unix:///s?user=u&pass=canary,rest",
                "ASYNQ_QUEUES: \"unix:///s?user=u&pass=***\" is not a list of queues; write names with their weights",
            ),
            ("ASYNQ_QUEUES", "{a}=1", "ASYNQ_QUEUES: \"{a}\" cannot be used: queue name must not contain `{`"),
            (
                "ASYNQ_CONCURRENCY",
                "0",
                "ASYNQ_CONCURRENCY: \"0\" is not a number of tasks; write a whole number from 1 up, or leave it out for one",
            ),
            ("ASYNQ_CONCURRENCY", "many", "ASYNQ_CONCURRENCY: \"many\" is not a number of tasks"),
            ("ASYNQ_SHUTDOWN_TIMEOUT", "5", "ASYNQ_SHUTDOWN_TIMEOUT: invalid duration \"5\": `5` has no unit"),
            ("ASYNQ_LOG_FORMAT", "xml", "ASYNQ_LOG_FORMAT: \"xml\" is not a log format; write text or json"),
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

    #[test]
    fn colours_are_off_on_a_dumb_terminal_and_with_no_color() {
        for (no_color, term, expected) in [
            (None, None, true),
            (Some(""), Some("xterm"), true),
            (Some("1"), Some("xterm"), false),
            (None, Some("dumb"), false),
        ] {
            let wants = wants_colours(no_color.map(Into::into), term.map(Into::into));
            assert_eq!(wants, expected, "{no_color:?} {term:?}");
        }
    }
}
