//! The flags that locate the broker: those of this tool and those of Go's tool.

use asynq_runtime::URL_VARIABLE;
use clap::Args;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};

use crate::error::CliError;

/// The default address of Go's tool.
const GO_URI: &str = "127.0.0.1:6379";
const GO_CLUSTER: &str = "127.0.0.1:7000,127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003,127.0.0.1:7004,127.0.0.1:7005";

/// Flags that say which broker; hidden ones are Go's.
#[derive(Debug, Default, Args)]
pub(crate) struct BrokerFlags {
    /// Where the tasks are, such as redis://127.0.0.1:6379/0 or sqlite://asynq.db [env: ASYNQ_URL]
    ///
    /// Also redis+unix://, rediss:// (TLS), redis-cluster:// and redis-sentinel://. Without it and without ASYNQ_URL it is
    /// sqlite://asynq.db, as for a worker. A password in it can be seen by others on this machine: ASYNQ_URL cannot.
    #[arg(long, global = true, value_name = "URL")]
    url: Option<String>,
    #[arg(short, long, global = true, hide = true, value_name = "HOST:PORT")]
    uri: Option<String>,
    #[arg(short = 'n', long, global = true, hide = true, value_name = "NUMBER")]
    db: Option<u32>,
    #[arg(short, long, global = true, hide = true)]
    password: Option<String>,
    #[arg(short = 'U', long, global = true, hide = true)]
    username: Option<String>,
    #[arg(long, global = true, hide = true)]
    cluster: bool,
    #[arg(long = "cluster_addrs", alias = "cluster-addrs", global = true, hide = true)]
    cluster_addrs: Option<String>,
    #[arg(long, global = true, hide = true)]
    tls: bool,
    #[arg(long = "tls_server", alias = "tls-server", global = true, hide = true)]
    tls_server: Option<String>,
    #[arg(long, global = true, hide = true)]
    insecure: bool,
    #[arg(long, global = true, hide = true)]
    config: Option<String>,
}

impl BrokerFlags {
    /// Returns the URL that the flags name, or `None` without such flags.
    pub(crate) fn url(&self) -> Result<Option<String>, CliError> {
        let usage = |text: String| Err(CliError::Usage(text));
        if self.config.is_some() {
            return usage(format!(
                "--config: no configuration file is read; write {URL_VARIABLE}=redis://HOST:PORT/DB"
            ));
        }
        if self.insecure {
            return usage(
                "--insecure: certificates are always checked; name your own authority instead: \
                          --url 'rediss://HOST:PORT?ca=/path/to/ca.pem'"
                    .into(),
            );
        }
        let go = self.gos_flags();
        match (&self.url, go.is_empty()) {
            (None, true) => Ok(None),
            (Some(url), true) => Ok(Some(url.trim().to_owned())),
            (Some(_), false) => usage(format!(
                "{} and --url say the same twice; write it in the URL: redis://LOGIN@HOST:PORT/DB, where LOGIN is USER:PASSWORD",
                go.join(", ")
            )),
            (None, false) => self.gos_url().map(Some),
        }
    }

    /// Whether a flag says where the broker is; without one, the others mean Go's default, on this host.
    pub(crate) fn name_a_host(&self) -> bool {
        self.url.is_some() || self.uri.is_some() || self.cluster_addrs.is_some()
    }

    /// Returns the names of Go's flags that were given.
    fn gos_flags(&self) -> Vec<&'static str> {
        let flags = [
            (self.uri.is_some(), "--uri"),
            (self.db.is_some(), "--db"),
            (self.password.is_some(), "--password"),
            (self.username.is_some(), "--username"),
            (self.cluster, "--cluster"),
            (self.cluster_addrs.is_some(), "--cluster_addrs"),
            (self.tls, "--tls"),
            (self.tls_server.is_some(), "--tls_server"),
        ];
        flags.into_iter().filter(|(given, _)| *given).map(|(_, flag)| flag).collect()
    }

    fn gos_url(&self) -> Result<String, CliError> {
        // As with Go's tool, the name alone asks for TLS.
        let secure = if self.tls || self.tls_server.is_some() { "s" } else { "" };
        let (scheme, hosts) = match (self.cluster, &self.cluster_addrs, &self.uri) {
            (true, _, Some(_)) => {
                return Err(CliError::Usage("--uri names one server and --cluster many; write --cluster_addrs".into()));
            }
            (true, hosts, None) => ("-cluster", hosts.as_deref().unwrap_or(GO_CLUSTER)),
            (false, Some(_), _) => {
                return Err(CliError::Usage("--cluster_addrs needs --cluster".into()));
            }
            (false, None, uri) => ("", uri.as_deref().unwrap_or(GO_URI)),
        };
        if hosts.contains("://") {
            return Err(CliError::Usage("--uri takes HOST:PORT; a URL is written --url URL".into()));
        }
        let login = match (&self.username, &self.password) {
            (None, None) => String::new(),
            (user, password) => {
                let [user, password] = [user, password].map(|part| encoded(part.as_deref().unwrap_or_default()));
                format!("{user}:{password}@")
            }
        };
        let db = self.db.filter(|&db| db > 0).map(|db| format!("/{db}")).unwrap_or_default();
        let name = self.tls_server.as_deref().map(|name| format!("?tls_name={}", encoded(name))).unwrap_or_default();
        Ok(format!("redis{secure}{scheme}://{login}{hosts}{db}{name}"))
    }
}

/// Percent-encodes `text`, so that any password can stand in a URL.
fn encoded(text: &str) -> PercentEncode<'_> {
    const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(text, ESCAPED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags() -> BrokerFlags {
        BrokerFlags::default()
    }

    #[test]
    fn gos_flags_make_a_url() {
        let text = |text: &str| Some(text.to_owned());
        for (flags, url) in [
            (flags(), None),
            (BrokerFlags { url: text(" sqlite://a.db "), ..flags() }, text("sqlite://a.db")),
            (BrokerFlags { uri: text("h:7777"), ..flags() }, text("redis://h:7777")),
            (BrokerFlags { db: Some(3), ..flags() }, text("redis://127.0.0.1:6379/3")),
            (BrokerFlags { db: Some(0), ..flags() }, text("redis://127.0.0.1:6379")),
            (BrokerFlags { password: text("a@b/c?d"), ..flags() }, text("redis://:a%40b%2Fc%3Fd@127.0.0.1:6379")),
            (
                BrokerFlags { uri: text("h:1"), username: text("ann"), password: text("x"), tls: true, ..flags() },
                text("rediss://ann:x@h:1"),
            ),
            (BrokerFlags { cluster: true, cluster_addrs: text("a:1,b:2"), ..flags() }, text("redis-cluster://a:1,b:2")),
            (BrokerFlags { cluster: true, tls: true, ..flags() }, text(&format!("rediss-cluster://{GO_CLUSTER}"))),
            (
                BrokerFlags { uri: text("h:1"), db: Some(2), tls_server: text("redis.example"), ..flags() },
                text("rediss://h:1/2?tls_name=redis.example"),
            ),
        ] {
            assert_eq!(flags.url().unwrap(), url, "{flags:?}");
        }
    }

    #[test]
    fn an_invalid_flag_is_refused_with_a_valid_example_and_without_its_password() {
        let canary = || Some("canary".to_owned());
        for (flags, part) in [
            (BrokerFlags { config: canary(), ..flags() }, "ASYNQ_URL="),
            (BrokerFlags { url: canary(), tls_server: canary(), ..flags() }, "--tls_server and --url"),
            (BrokerFlags { insecure: true, ..flags() }, "ca="),
            (BrokerFlags { url: canary(), password: canary(), ..flags() }, "--password and --url say the same twice"),
            (BrokerFlags { url: canary(), db: Some(1), tls: true, ..flags() }, "--db, --tls and --url"),
            (BrokerFlags { cluster: true, uri: canary(), ..flags() }, "--cluster_addrs"),
            (BrokerFlags { cluster_addrs: canary(), ..flags() }, "needs --cluster"),
            (BrokerFlags { uri: Some("redis://:canary@h".into()), ..flags() }, "--url URL"),
        ] {
            let error = flags.url().unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert!(error.line().contains(part), "{}\n  should contain\n{part}", error.line());
            // An example would lose what stands in it in place of a password.
            assert!(!error.line().contains("canary") && !error.line().contains("***"), "{}", error.line());
        }
    }
}
