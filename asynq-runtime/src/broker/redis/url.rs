//! Reads the URL of a single Redis; a password goes in here and never comes out again.

use std::{fmt, path::PathBuf, time::Duration};

use redis::{
    ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo, io::tcp::TcpSettings,
};

use super::super::{BrokerError, BrokerErrorKind, percent};

/// Where Redis is and how to log in.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Target {
    address: Address,
    user: Option<String>,
    password: Option<String>,
    db: i64,
    lease: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Address {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

impl Target {
    /// Reads `redis://[user[:password]@]host[:port][/db]`, `redis+unix:///path?db=&user=&pass=` and Go's
    /// `redis-socket://[:password@]/path?db=`.
    pub(super) fn parse(url: &str) -> Result<Self, BrokerError> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(config("a Redis URL begins with redis:// or redis+unix://"));
        };
        match scheme {
            "redis" => Self::parse_tcp(rest),
            "redis+unix" | "unix" | "redis-socket" => Self::parse_unix(rest),
            "rediss" => Err(config("rediss:// needs TLS, which this version does not have yet; use redis://")),
            "redis-cluster" => {
                Err(config("redis-cluster:// needs Redis Cluster, which this version does not have yet; use redis://"))
            }
            "redis-sentinel" => Err(config(
                "redis-sentinel:// needs Redis Sentinel, which this version does not have yet; use redis://",
            )),
            _ => Err(config("this URL scheme is unknown; use redis:// or redis+unix://")),
        }
    }

    fn parse_tcp(rest: &str) -> Result<Self, BrokerError> {
        let (rest, query) = split_query(rest);
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, host) = split_login(authority);
        let (user, password) = parse_login(login)?;
        let address = parse_host(host)?;
        let mut target = Self { address, user, password, db: 0, lease: None };
        if !path.is_empty() {
            target.db = parse_db(path)?;
        }
        target.read_query(query)?;
        Ok(target)
    }

    fn parse_unix(rest: &str) -> Result<Self, BrokerError> {
        let (rest, query) = split_query(rest);
        let Some(slash) = rest.find('/') else {
            return Err(config("a URL of a unix socket names its path: redis+unix:///run/redis.sock"));
        };
        let (authority, path) = rest.split_at(slash);
        let (login, host) = split_login(authority);
        if !host.is_empty() {
            return Err(config("a URL of a unix socket has three slashes and no host: redis+unix:///run/redis.sock"));
        }
        let (user, password) = parse_login(login)?;
        let path = decode(path)?;
        if path == "/" {
            return Err(config("a URL of a unix socket names its path: redis+unix:///run/redis.sock"));
        }
        let mut target = Self { address: Address::Unix(path.into()), user, password, db: 0, lease: None };
        target.read_query(query)?;
        Ok(target)
    }

    fn read_query(&mut self, query: &str) -> Result<(), BrokerError> {
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            match key {
                "db" => self.db = parse_db(value)?,
                "user" => self.user = Some(decode(value)?),
                "pass" | "password" => self.password = Some(decode(value)?),
                "lease" => self.lease = Some(parse_lease(value)?),
                // Its name is not repeated: a password with an unescaped `?` could be in it.
                _ => return Err(config("the Redis URL has an unknown parameter; known are db, user, pass and lease")),
            }
        }
        if self.user.is_some() && self.password.is_none() {
            return Err(config(
                "the Redis URL has a user but no password; write redis://user:password@host, or redis://:password@host",
            ));
        }
        Ok(())
    }

    /// The lease that the URL asks for, `?lease=10s`.
    pub(super) fn lease(&self) -> Option<Duration> {
        self.lease
    }

    /// What the redis crate needs to connect.
    pub(super) fn connection_info(&self, protocol: ProtocolVersion) -> Result<ConnectionInfo, BrokerError> {
        let address = match &self.address {
            Address::Tcp { host, port } => ConnectionAddr::Tcp(host.clone(), *port),
            Address::Unix(path) => ConnectionAddr::Unix(path.clone()),
        };
        let mut login = RedisConnectionInfo::default().set_db(self.db).set_protocol(protocol);
        if let Some(user) = &self.user {
            login = login.set_username(user);
        }
        if let Some(password) = &self.password {
            login = login.set_password(password);
        }
        let info = address.into_connection_info().map_err(|_| config("the Redis address cannot be used"))?;
        // A pipeline is one write: waiting for more to send would only cost time.
        Ok(info.set_tcp_settings(TcpSettings::default().set_nodelay(true)).set_redis_settings(login))
    }
}

impl fmt::Display for Target {
    /// The URL without its password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        match &self.address {
            Address::Tcp { host, port } if host.contains(':') => write!(f, "redis://{user}[{host}]:{port}/{}", self.db),
            Address::Tcp { host, port } => write!(f, "redis://{user}{host}:{port}/{}", self.db),
            Address::Unix(path) => write!(f, "redis+unix://{user}{}?db={}", path.display(), self.db),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn config(message: &str) -> BrokerError {
    BrokerError::new(BrokerErrorKind::Config, message)
}

fn split_query(rest: &str) -> (&str, &str) {
    rest.split_once('?').unwrap_or((rest, ""))
}

/// The last `@` ends the login, so that an unescaped one in a password does no harm.
fn split_login(authority: &str) -> (Option<&str>, &str) {
    match authority.rsplit_once('@') {
        Some((login, host)) => (Some(login), host),
        None => (None, authority),
    }
}

fn parse_login(login: Option<&str>) -> Result<(Option<String>, Option<String>), BrokerError> {
    let Some(login) = login else { return Ok((None, None)) };
    let (user, password) = match login.split_once(':') {
        Some((user, password)) => (user, Some(decode(password)?)),
        None => (login, None),
    };
    let user = if user.is_empty() { None } else { Some(decode(user)?) };
    Ok((user, password.filter(|password| !password.is_empty())))
}

fn parse_host(host: &str) -> Result<Address, BrokerError> {
    let (host, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let Some((host, port)) = rest.split_once(']') else {
                return Err(config("the IPv6 address in the Redis URL has no closing bracket"));
            };
            (host, port.strip_prefix(':'))
        }
        None => match host.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (host, None),
        },
    };
    if host.is_empty() {
        return Err(config("the Redis URL names no host: redis://localhost:6379"));
    }
    let port = match port {
        None | Some("") => 6379,
        Some(port) => port.parse().map_err(|_| {
            config("the port in the Redis URL is no number from 1 to 65535; a password goes before an @")
        })?,
    };
    Ok(Address::Tcp { host: decode(host)?, port })
}

fn parse_db(text: &str) -> Result<i64, BrokerError> {
    let db: Option<u32> = text.parse().ok();
    db.map(i64::from).ok_or_else(|| config("the database in the Redis URL is a number: redis://localhost:6379/0"))
}

fn parse_lease(text: &str) -> Result<Duration, BrokerError> {
    let lease = asynq_grammar::duration::parse(text).ok().filter(|lease| {
        // The wire counts leases in whole seconds; of one there would be nothing left.
        lease.subsec_nanos() == 0 && (2..=3600).contains(&lease.as_secs())
    });
    lease.ok_or_else(|| config("the lease in the Redis URL is a time in whole seconds, 2s to 1h: ?lease=10s"))
}

fn decode(text: &str) -> Result<String, BrokerError> {
    percent::decode(text).ok_or_else(|| {
        config("the Redis URL has a percent sign that is not followed by two hexadecimal digits of UTF-8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16, user: Option<&str>, password: Option<&str>, db: i64) -> Target {
        let address = Address::Tcp { host: host.into(), port };
        Target { address, user: user.map(Into::into), password: password.map(Into::into), db, lease: None }
    }

    fn unix(path: &str, user: Option<&str>, password: Option<&str>, db: i64) -> Target {
        Target { address: Address::Unix(path.into()), ..tcp("", 0, user, password, db) }
    }

    #[test]
    fn every_form_of_url_is_read() {
        let cases = [
            ("redis://localhost", tcp("localhost", 6379, None, None, 0)),
            ("redis://localhost:6380/3", tcp("localhost", 6380, None, None, 3)),
            ("redis://localhost/", tcp("localhost", 6379, None, None, 0)),
            ("redis://:pw@h:1/2", tcp("h", 1, None, Some("pw"), 2)),
            ("redis://u:p%40%2F%25@h", tcp("h", 6379, Some("u"), Some("p@/%"), 0)),
            ("redis://u:p@ss@h", tcp("h", 6379, Some("u"), Some("p@ss"), 0)),
            ("redis://[::1]:7/1", tcp("::1", 7, None, None, 1)),
            ("redis://h?db=4&user=u&pass=p", tcp("h", 6379, Some("u"), Some("p"), 4)),
            ("redis+unix:///run/r.sock", unix("/run/r.sock", None, None, 0)),
            ("redis+unix:///run/r%20s.sock?db=2&user=u&pass=%25", unix("/run/r s.sock", Some("u"), Some("%"), 2)),
            ("redis-socket://:pw@/run/r.sock?db=5", unix("/run/r.sock", None, Some("pw"), 5)),
        ];
        for (url, expected) in cases {
            let target = Target::parse(url).unwrap();
            assert!(target == expected, "{url} was read as {target}");
        }
        let ten = Target::parse("redis://h?lease=10s").unwrap();
        assert_eq!(ten.lease(), Some(Duration::from_secs(10)));
    }

    #[test]
    fn a_url_that_cannot_be_used_says_why_and_keeps_the_password() {
        let cases = [
            ("canary", "redis://"),
            ("rediss://:canary@h", "TLS"),
            ("redis-cluster://:canary@h", "Cluster"),
            ("redis-sentinel://:canary@h", "Sentinel"),
            ("http://u:canary@h", "scheme"),
            ("redis://:canary@", "host"),
            ("redis://h:canary", "port"),
            ("redis://:canary@h/one", "database"),
            ("redis://:canary@h/-1", "database"),
            ("redis://canary@h", "no password"),
            ("redis://:canary%zz@h", "percent"),
            ("redis://:canary@h?canary=1", "parameter"),
            ("redis://:canary@h?lease=soon", "lease"),
            ("redis://:canary@h?lease=2500ms", "lease"),
            ("redis://:canary@h?lease=1s", "2s to 1h"),
            ("redis+unix://host/canary.sock", "three slashes"),
            ("redis+unix://", "path"),
            ("redis://[::1", "bracket"),
        ];
        for (url, expected) in cases {
            let error = Target::parse(url).unwrap_err();
            assert_eq!(error.kind(), BrokerErrorKind::Config);
            assert!(error.to_string().contains(expected), "{url}: {error}");
            assert!(!format!("{error} {error:?}").contains("canary"), "{url}: {error:?}");
        }
    }

    #[test]
    fn no_text_of_a_target_shows_the_password() {
        for url in ["redis://u:canary@h:1/2", "redis://:canary@[::1]", "redis+unix:///s?pass=canary"] {
            let target = Target::parse(url).unwrap();
            let info = target.connection_info(ProtocolVersion::RESP3).unwrap();
            assert!(!format!("{target} {target:?} {info:?}").contains("canary"));
        }
        assert_eq!(Target::parse("redis://u:pw@h:1/2").unwrap().to_string(), "redis://u@h:1/2");
    }
}
