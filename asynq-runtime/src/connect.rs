//! Chooses the broker from a URL.

use std::{ffi::OsString, path::PathBuf, sync::Arc};

use crate::{
    broker::{Broker, BrokerError, config},
    thread::Thread,
};

/// The variable that names the broker.
pub const URL_VARIABLE: &str = "ASYNQ_URL";
/// The URL of the broker of a program that names none.
pub const DEFAULT_URL: &str = "sqlite://asynq.db";
/// The schemes of the URLs of Redis.
const REDIS_SCHEMES: [&str; 8] = [
    "redis",
    "redis+unix",
    "redis-socket",
    "rediss",
    "redis-cluster",
    "rediss-cluster",
    "redis-sentinel",
    "rediss-sentinel",
];

/// Returns the URL in `ASYNQ_URL`, or [`DEFAULT_URL`].
///
/// # Errors
///
/// The variable is not text: another broker must not take its place.
pub(crate) fn url_from_env() -> Result<String, BrokerError> {
    let url = text_of_variable(std::env::var_os(URL_VARIABLE));
    let url = url.map_err(|reason| config(format!("{URL_VARIABLE}: {reason}")))?;
    Ok(url.unwrap_or_else(|| DEFAULT_URL.to_owned()))
}

/// Returns the value of a variable without blanks around it; `None` if it is blank or not set.
///
/// # Errors
///
/// The value is not text. The error does not show it, because it may hold a password.
pub fn text_of_variable(value: Option<OsString>) -> Result<Option<String>, &'static str> {
    let text = value.unwrap_or_default().into_string().map_err(|_| "its value is not UTF-8 text")?;
    Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty()))
}

/// Returns whether each connection to `url` has a database of its own.
pub(crate) fn is_in_memory(url: &str) -> bool {
    url.split('?').next().is_some_and(|place| matches!(place, "sqlite::memory:" | "sqlite://:memory:"))
}

/// Connects to the broker at `url`.
///
/// # Errors
///
/// The scheme is unknown or not compiled in, or the broker refuses or does not answer.
pub(crate) async fn connect(url: &str) -> Result<Arc<dyn Broker>, BrokerError> {
    connect_on(None, url).await
}

/// Returns the SQLite file of `url` if it does not exist.
#[cfg(feature = "sqlite")]
pub(crate) fn missing_file(url: &str) -> Option<PathBuf> {
    crate::broker::sqlite::file_of(url).filter(|file| matches!(file.try_exists(), Ok(false)))
}

/// Returns `None`, because no URL of this build names a file.
#[cfg(not(feature = "sqlite"))]
pub(crate) fn missing_file(_url: &str) -> Option<PathBuf> {
    None
}

/// Connects to the broker at `url`, unless it is a SQLite file that does not exist.
///
/// # Errors
///
/// As [`connect`], or there is no such file.
pub(crate) async fn connect_existing(url: &str) -> Result<Arc<dyn Broker>, BrokerError> {
    if let Some(file) = missing_file(url) {
        // The mistake behind a relative path is the folder.
        let file = std::path::absolute(&file).unwrap_or(file);
        return Err(config(format!(
            "there is no SQLite file {file:?}: name the broker by {URL_VARIABLE} (or --url of a command), such as \
             redis://127.0.0.1:6379 or sqlite:///var/lib/app/asynq.db"
        )));
    }
    connect(url).await
}

/// Connects to the broker at `url`. A broker that needs a thread for its I/O takes `thread`, or starts one if there is none.
///
/// # Errors
///
/// As [`connect`].
pub(crate) async fn connect_on(thread: Option<Thread>, url: &str) -> Result<Arc<dyn Broker>, BrokerError> {
    #[cfg(not(feature = "redis"))]
    let _ = thread;
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(config(
            "clients and servers need a tokio runtime: connect inside one, such as that of `#[tokio::main]`; a program without \
             async keeps one `tokio::runtime::Runtime` and calls its `block_on` for each call of them",
        ));
    }
    let scheme = url.split(':').next().unwrap_or_default();
    match scheme {
        #[cfg(feature = "sqlite")]
        "sqlite" => Ok(Arc::new(crate::broker::sqlite::SqliteBroker::open(url, Default::default()).await?)),
        #[cfg(feature = "redis")]
        _ if REDIS_SCHEMES.contains(&scheme) => {
            use crate::broker::redis::RedisBroker;
            Ok(Arc::new(match thread {
                Some(thread) => RedisBroker::connect_on(thread, url, Default::default()).await?,
                None => RedisBroker::connect(url, Default::default()).await?,
            }))
        }
        // The URL itself is not shown: there may be a password in it.
        _ if scheme == "sqlite" || REDIS_SCHEMES.contains(&scheme) => Err(not_built(url)),
        _ => Err(config(
            "the broker's URL starts with no known scheme: write for example sqlite://asynq.db or redis://127.0.0.1:6379; \
             docs/brokers.md lists all",
        )),
    }
}

/// Returns the error of a program that was built without the broker of `url`.
fn not_built(url: &str) -> BrokerError {
    let feature = if url.starts_with("sqlite:") { "sqlite" } else { "redis" };
    let remedy = format!("turn on the feature `{feature}` of asynq-runtime");
    let reason = if url == DEFAULT_URL {
        format!(
            "{DEFAULT_URL}, which is the broker where none is named, is not built into this program: set {URL_VARIABLE}, or \
             {remedy}"
        )
    } else {
        format!("this program was built without the broker of its URL: {remedy}")
    };
    config(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_broker_that_is_not_built_in_names_the_variable_or_the_feature() {
        let error = |url| not_built(url).to_string();
        assert!(
            error(DEFAULT_URL).contains("where none is named, is not built into this program: set ASYNQ_URL"),
            "{}",
            error(DEFAULT_URL)
        );
        for (url, feature) in [("sqlite:///var/lib/asynq.db", "sqlite"), ("rediss://:canary@h", "redis")] {
            let error = error(url);
            assert!(error.ends_with(&format!("turn on the feature `{feature}` of asynq-runtime")), "{error}");
            assert!(!error.contains("ASYNQ_URL") && !error.contains("canary"), "{error}");
        }
    }
}
