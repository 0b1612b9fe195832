//! Reads a `sqlite:` URL: the file, and the options of its query.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use crate::broker::{BrokerError, config, percent, timeouts};

/// Returns the URL by which [`Location::parse`] finds `file` again.
pub(super) fn url_of(file: &Path) -> String {
    format!("sqlite://{}", file.display().to_string().replace('%', "%25").replace('?', "%3F"))
}

/// Where the tasks are and how they are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Location {
    /// The file, or `None` for a database in memory.
    pub(super) file: Option<PathBuf>,
    /// `durability=normal`: a power cut may take the last commits (a killed process takes none).
    pub(super) normal: bool,
    /// `shared=1`: the file may belong to another program; our tables get a prefix.
    pub(super) shared: bool,
    /// `network_fs=i-know`: do not refuse file systems that cannot share memory between hosts.
    pub(super) network_fs: bool,
    /// `timeout=10s`: longest wait for an answer.
    pub(super) timeout: Option<Duration>,
    /// `connect_timeout=10s`: longest wait for the file to be opened.
    pub(super) connect_timeout: Option<Duration>,
}

impl Location {
    /// Returns the location of a database in memory.
    pub(super) fn memory() -> Self {
        Self::default()
    }

    /// Reads `sqlite://path`, `sqlite:path` or `sqlite::memory:`, each with an optional query.
    ///
    /// # Errors
    ///
    /// [`Config`](crate::broker::BrokerErrorKind::Config) names the part that cannot be used.
    pub(super) fn parse(url: &str) -> Result<Self, BrokerError> {
        let Some(rest) = url.strip_prefix("sqlite:") else {
            // The URL is not shown: a URL of another broker may have a password in it.
            return Err(config("this is not a SQLite URL; write sqlite://path/to/file.db"));
        };
        let rest = rest.strip_prefix("//").unwrap_or(rest);
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut location = Self::memory();
        if path != ":memory:" {
            let path = percent::decode(path).ok_or_else(|| {
                config(format!("{url:?}: a % must be followed by two hex digits, and the path be UTF-8"))
            })?;
            if path.is_empty() {
                return Err(config(format!(
                    "{url:?} names no file; write sqlite://path/to/file.db or sqlite::memory:"
                )));
            }
            if path.contains('\0') {
                return Err(config("the path of a SQLite file cannot contain a zero byte"));
            }
            location.file = Some(Path::new(&path).to_path_buf());
        }
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=').unwrap_or((pair, "")) {
                ("durability", value @ ("normal" | "full")) => location.normal = value == "normal",
                ("durability", value) => {
                    return Err(config(format!("durability={value} is unknown; use full or normal")));
                }
                ("shared", value @ ("0" | "1")) => location.shared = value == "1",
                ("shared", value) => return Err(config(format!("shared={value} is unknown; use 0 or 1"))),
                ("network_fs", "i-know") => location.network_fs = true,
                ("network_fs", value) => return Err(config(format!("network_fs={value} is unknown; use i-know"))),
                ("timeout", value) => location.timeout = Some(timeouts::parse(value).map_err(config)?),
                ("connect_timeout", value) => location.connect_timeout = Some(timeouts::parse(value).map_err(config)?),
                (key, _) => {
                    return Err(config(format!(
                        "unknown option {key:?} in a SQLite URL; known: durability, shared, network_fs, timeout, \
                         connect_timeout"
                    )));
                }
            }
        }
        Ok(location)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::BrokerErrorKind;

    #[test]
    fn the_url_that_is_shown_of_a_file_leads_to_it() {
        for file in ["/var/lib/jobs.db", "/a b/50%20off?.db", "/%41/%zz#1&x=y.db"] {
            let location = Location { file: Some(file.into()), ..Location::memory() };
            assert_eq!(Location::parse(&url_of(Path::new(file))).unwrap(), location, "{}", url_of(Path::new(file)));
        }
    }

    #[test]
    fn every_form_of_the_url_is_read() {
        let file = |path: &str| Some(PathBuf::from(path));
        for (url, expected) in [
            ("sqlite://jobs.db", Location { file: file("jobs.db"), ..Location::memory() }),
            ("sqlite:jobs.db", Location { file: file("jobs.db"), ..Location::memory() }),
            ("sqlite:///var/lib/jobs.db", Location { file: file("/var/lib/jobs.db"), ..Location::memory() }),
            ("sqlite:/var/a%20b.db?", Location { file: file("/var/a b.db"), ..Location::memory() }),
            ("sqlite::memory:", Location::memory()),
            ("sqlite://:memory:", Location::memory()),
            (
                "sqlite://a?timeout=2s&connect_timeout=1m",
                Location {
                    file: file("a"),
                    timeout: Some(Duration::from_secs(2)),
                    connect_timeout: Some(Duration::from_secs(60)),
                    ..Location::memory()
                },
            ),
            ("sqlite://a?durability=normal", Location { file: file("a"), normal: true, ..Location::memory() }),
            (
                "sqlite://a?shared=1&network_fs=i-know",
                Location { file: file("a"), shared: true, network_fs: true, ..Location::memory() },
            ),
        ] {
            assert_eq!(Location::parse(url).unwrap(), expected, "{url}");
        }
    }

    #[test]
    fn the_error_of_an_invalid_url_names_the_invalid_part() {
        for (url, part) in [
            ("redis://:canary@localhost", "not a SQLite URL"),
            ("sqlite://", "names no file"),
            ("sqlite:", "names no file"),
            ("sqlite://a%2", "two hex digits"),
            ("sqlite://caf%E9.db", "UTF-8"),
            ("sqlite://a%00", "zero byte"),
            ("sqlite://a?durability=off", "durability=off"),
            ("sqlite://a?shared=yes", "shared=yes"),
            ("sqlite://a?network_fs=1", "network_fs=1"),
            ("sqlite://a?mode=ro", "\"mode\""),
            ("sqlite://a?timeout=9", "?timeout=3s"),
            ("sqlite://a?connect_timeout=2m", "?timeout=3s"),
        ] {
            let error = Location::parse(url).unwrap_err();
            assert_eq!(error.kind(), BrokerErrorKind::Config, "{url}");
            assert!(error.to_string().contains(part), "{url}: {error}");
            assert!(!error.to_string().contains("canary"), "{url}: {error}");
        }
    }
}
