//! The host names that the dashboard answers to, against DNS rebinding, by which a foreign page reaches a local port
//! under a name of its own.

use std::net::IpAddr;

use axum::{
    extract::Request,
    http::{Uri, header},
};

use crate::failure::{Failure, Kind};

/// The variable that allows host names.
pub(crate) const HOSTS: &str = "ASYNQ_DASHBOARD_HOSTS";

/// The host names that the dashboard answers to.
#[derive(Debug, Clone)]
pub(crate) enum Hosts {
    /// The names of this machine for itself, and the allowed names.
    Only {
        /// The allowed names in lower case, without port.
        allowed: Vec<String>,
        /// The command-line flag that allows another name; `None` where a program of the user's builds the
        /// dashboard and calls `allow_host`.
        flag: Option<&'static str>,
    },
    /// Any name: for metrics and health checks alone, on a public port.
    Any,
}

impl Hosts {
    /// Refuses a host that is not allowed.
    pub(crate) fn check(&self, host: Option<&str>) -> Result<(), Failure> {
        let Self::Only { allowed, flag } = self else { return Ok(()) };
        let Some(name) = host.and_then(name_of) else {
            return Err(Failure::new(Kind::Host, "the request names no host"));
        };
        if is_loopback(&name) || allowed.contains(&name) {
            return Ok(());
        }
        let how = match flag {
            Some(flag) => format!("`{flag} {name}` or the variable {HOSTS}"),
            None => format!("`.allow_host({name:?})`"),
        };
        let message = format!("the host `{name}` is not allowed: if people come by this name, allow it with {how}");
        Err(Failure::new(Kind::Host, message))
    }
}

/// Returns the host that the request is addressed to, port included.
pub(crate) fn of(request: &Request) -> Option<String> {
    // HTTP/2 has the host in the URI.
    let named = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    named.or_else(|| request.uri().authority().map(|authority| authority.as_str())).map(str::to_owned)
}

/// Returns the name of `name:port`, in lower case, without the dot at the end.
pub(crate) fn name_of(host: &str) -> Option<String> {
    let uri: Uri = host.parse().ok()?;
    let authority =
        uri.authority().filter(|authority| !authority.as_str().contains('@') && uri.path_and_query().is_none())?;
    let name = authority.host().to_ascii_lowercase();
    let name = name.strip_suffix('.').unwrap_or(&name);
    (!name.is_empty()).then(|| name.to_owned())
}

fn is_loopback(name: &str) -> bool {
    let address = name.trim_start_matches('[').trim_end_matches(']');
    // Browsers resolve *.localhost to this machine without a lookup.
    name == "localhost" || name.ends_with(".localhost") || address.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_and_allowed_hosts_are_accepted() {
        let allowed = vec!["jobs.example.com".into(), "[2001:db8::1]".into(), "10.0.0.5".into()];
        let hosts = Hosts::Only { allowed, flag: None };
        for good in [
            "localhost",
            "LOCALHOST:8080",
            "localhost.:8080",
            "127.0.0.1:1",
            "127.9.9.9",
            "[::1]:8080",
            "dash.localhost",
            "jobs.example.com",
            "Jobs.Example.Com.:443",
            "[2001:db8::1]:8080",
            "10.0.0.5:80",
        ] {
            assert_eq!(hosts.check(Some(good)), Ok(()), "{good}");
        }
        for bad in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "evil.example:8080",
            "jobs.example.com.evil.example",
            "xjobs.example.com",
            "evillocalhost",
            "10.0.0.6",
            "user@localhost",
            "",
            ":8080",
            "localhost/x",
            "localhost:8080:9",
        ] {
            assert!(hosts.check(Some(bad)).is_err(), "{bad}");
        }
        assert!(hosts.check(None).is_err());
        assert_eq!(Hosts::Any.check(None), Ok(()));
    }

    #[test]
    fn a_refused_host_is_answered_with_the_setting_that_allows_it() {
        for (flag, how) in [
            (None, "allow it with `.allow_host(\"jobs.example.com\")`"),
            (Some("--allow-host"), "`--allow-host jobs.example.com` or the variable ASYNQ_DASHBOARD_HOSTS"),
        ] {
            let refused = Hosts::Only { allowed: Vec::new(), flag }.check(Some("jobs.example.com:443"));
            let message = refused.expect_err("a foreign name").message;
            assert!(message.ends_with(how), "{message}");
        }
    }
}
