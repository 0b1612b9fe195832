//! Settings of a dashboard from environment variables; secrets also from files, as containers get them.

use std::{env, ffi::OsString, fs, net::IpAddr};

use asynq_runtime::app::text_of_variable;

use crate::{builder::Dashboard, error::DashboardError, host::HOSTS};

/// The variable for the address of a worker's dashboard.
pub(crate) const DASHBOARD: &str = "ASYNQ_DASHBOARD";
/// The variable for the address of a worker's metrics and health checks.
pub(crate) const METRICS: &str = "ASYNQ_METRICS";
/// The variable that says whether these metrics have the numbers of all queues.
pub(crate) const METRICS_QUEUES: &str = "ASYNQ_METRICS_QUEUES";

const TITLE: &str = "ASYNQ_DASHBOARD_TITLE";
const READ_ONLY: &str = "ASYNQ_DASHBOARD_READ_ONLY";
const MOUNT: &str = "ASYNQ_DASHBOARD_MOUNT";
const PASSWORD_HASH: [&str; 2] = ["ASYNQ_DASHBOARD_PASSWORD_HASH", "ASYNQ_DASHBOARD_PASSWORD_HASH_FILE"];
/// The names that a password itself would have, which are refused: a dashboard that ignored them would be open.
const PASSWORD: [&str; 2] = ["ASYNQ_DASHBOARD_PASSWORD", "ASYNQ_DASHBOARD_PASSWORD_FILE"];
const TOKEN: [&str; 2] = ["ASYNQ_DASHBOARD_TOKEN", "ASYNQ_DASHBOARD_TOKEN_FILE"];
const TRUSTED_HEADER: &str = "ASYNQ_DASHBOARD_TRUSTED_HEADER";
const TRUSTED_PROXIES: &str = "ASYNQ_DASHBOARD_TRUSTED_PROXIES";

impl Dashboard {
    /// Applies the settings of environment variables:
    ///
    /// | variable | |
    /// |---|---|
    /// | `ASYNQ_DASHBOARD_PASSWORD_HASH`, `…_FILE` | [`password_hash`](Self::password_hash), or the file that holds it |
    /// | `ASYNQ_DASHBOARD_TOKEN`, `…_FILE` | [`bearer_token`](Self::bearer_token), or the file that holds it |
    /// | `ASYNQ_DASHBOARD_TRUSTED_HEADER` | [`trusted_header`](Self::trusted_header) |
    /// | `ASYNQ_DASHBOARD_TRUSTED_PROXIES` | [`trust_proxy`](Self::trust_proxy), several addresses with commas |
    /// | `ASYNQ_DASHBOARD_READ_ONLY` | `true` or `false`, `yes` or `no`, `1` or `0` |
    /// | `ASYNQ_DASHBOARD_HOSTS` | [`allow_host`](Self::allow_host), several with commas |
    /// | `ASYNQ_DASHBOARD_MOUNT` | [`mount`](Self::mount), where a proxy passes the path on as it is |
    /// | `ASYNQ_DASHBOARD_TITLE` | [`title`](Self::title) |
    ///
    /// A blank variable counts as not set, and blanks around a value are dropped.
    ///
    /// # Errors
    ///
    /// A variable is not valid or not UTF-8 text, or its file cannot be read; or `ASYNQ_DASHBOARD_PASSWORD` or its `…_FILE` is set,
    /// because a dashboard takes the hash of a password alone.
    #[allow(clippy::wrong_self_convention)] // it reads as `Dashboard::new(&client).from_env()?`
    pub fn from_env(mut self) -> Result<Self, DashboardError> {
        for variable in PASSWORD {
            if text(variable)?.is_some() {
                return Err(DashboardError::Variable { variable, reason: hash_instead() });
            }
        }
        if let Some(hash) = secret(PASSWORD_HASH)? {
            self = self.password_hash(hash);
        }
        if let Some(token) = secret(TOKEN)? {
            self = self.bearer_token(token);
        }
        if let Some(name) = text(TRUSTED_HEADER)? {
            self = self.trusted_header(name);
        }
        self = proxies(&text(TRUSTED_PROXIES)?.unwrap_or_default())?.into_iter().fold(self, Self::trust_proxy);
        if let Some(title) = text(TITLE)? {
            self = self.title(title);
        }
        if let Some(path) = text(MOUNT)? {
            self = self.mount(path);
        }
        if let Some(read_only) = yes_or_no(READ_ONLY, text(READ_ONLY)?)? {
            self = self.read_only(read_only);
        }
        Ok(parts(&text(HOSTS)?.unwrap_or_default()).fold(self, Self::allow_host))
    }
}

/// Returns the settings that take the place of a password in a variable.
fn hash_instead() -> String {
    let [hash, file] = PASSWORD_HASH;
    format!(
        "a dashboard takes only the hash of a password: set {hash} to the output of `asynq hash-password`, or {file} to \
         the path of a file that holds it"
    )
}

/// Returns the parts between the commas of a list.
fn parts(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|part| !part.is_empty())
}

/// Returns the addresses of a list.
fn proxies(list: &str) -> Result<Vec<IpAddr>, DashboardError> {
    let address = |part: &str| {
        part.parse().map_err(|_| DashboardError::Variable {
            variable: TRUSTED_PROXIES,
            reason: format!("`{part}` is not an address; write one such as 10.0.0.5, without a port or a mask"),
        })
    };
    parts(list).map(address).collect()
}

/// Returns the value of a variable without blanks around it, if it is set and not blank.
pub(crate) fn text(variable: &'static str) -> Result<Option<String>, DashboardError> {
    utf8(variable, env::var_os(variable))
}

/// Returns a value as text. A value that is not UTF-8 is an error: a dashboard that took its login for unset would be open.
fn utf8(variable: &'static str, value: Option<OsString>) -> Result<Option<String>, DashboardError> {
    text_of_variable(value).map_err(|reason| DashboardError::Variable { variable, reason: reason.to_owned() })
}

/// Returns whether a variable says yes.
pub(crate) fn flag(variable: &'static str) -> Result<bool, DashboardError> {
    Ok(yes_or_no(variable, text(variable)?)?.unwrap_or(false))
}

fn yes_or_no(variable: &'static str, text: Option<String>) -> Result<Option<bool>, DashboardError> {
    match text.as_deref() {
        None => Ok(None),
        Some("true" | "1" | "yes") => Ok(Some(true)),
        Some("false" | "0" | "no") => Ok(Some(false)),
        Some(other) => {
            let reason = format!("it is `{other}`; write true or false");
            Err(DashboardError::Variable { variable, reason })
        }
    }
}

/// Returns a secret from its variable, or from the file that another variable names.
fn secret([direct, file]: [&'static str; 2]) -> Result<Option<String>, DashboardError> {
    let wrong = |reason| DashboardError::Variable { variable: file, reason };
    match (text(direct)?, text(file)?) {
        (Some(_), Some(_)) => Err(wrong(format!("give either it or {direct}"))),
        (secret, None) => Ok(secret),
        (None, Some(path)) => match fs::read_to_string(&path) {
            Ok(secret) => Ok(Some(secret.trim().to_owned())),
            Err(error) => Err(wrong(format!("{path} cannot be read: {error}"))),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    #[test]
    fn a_value_that_is_not_text_is_not_taken_for_unset() {
        let read = |bytes: &[u8]| utf8(TOKEN[0], Some(OsString::from_vec(bytes.to_vec())));
        assert_eq!(utf8(TOKEN[0], None).expect("unset"), None);
        assert_eq!((read(b"").expect("empty"), read(b" ").expect("blank")), (None, None));
        assert_eq!(read(b" words\n").expect("text").as_deref(), Some("words"));
        assert_eq!(yes_or_no(READ_ONLY, read(b"true ").expect("text")).expect("yes or no"), Some(true));
        let error = read(b"words\xff").expect_err("not text").to_string();
        assert_eq!(error, "ASYNQ_DASHBOARD_TOKEN: its value is not UTF-8 text");
    }

    #[test]
    fn proxies_are_addresses_with_commas() {
        for (list, addresses) in [
            ("", &[][..]),
            (" , ", &[]),
            ("10.0.0.5", &["10.0.0.5"]),
            ("10.0.0.5, 2001:db8::1 ,,127.0.0.1", &["10.0.0.5", "2001:db8::1", "127.0.0.1"]),
        ] {
            let expected: Vec<IpAddr> = addresses.iter().map(|address| address.parse().expect("an address")).collect();
            assert_eq!(proxies(list).expect(list), expected, "{list}");
        }
        for wrong in ["proxy.example.com", "10.0.0.5:443", "10.0.0.0/8", "10.0.0", "10.0.0.5 10.0.0.6", "[2001:db8::1]"]
        {
            let error = proxies(&format!("127.0.0.1,{wrong}")).expect_err(wrong).to_string();
            assert!(error.starts_with("ASYNQ_DASHBOARD_TRUSTED_PROXIES: ") && error.contains(wrong), "{error}");
        }
    }
}
