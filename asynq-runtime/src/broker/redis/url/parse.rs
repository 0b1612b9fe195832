//! Reads URLs; an error never repeats a part that may be a password.

use std::{path::PathBuf, time::Duration};

use super::{
    super::{
        super::{config, percent, timeouts},
        RedisOptions,
        durability::Durability,
        tls::Tls,
    },
    Address, BrokerError, Endpoints, Login, Sentinels, Target,
};

/// The parameters of a URL.
#[derive(Default)]
struct Query {
    db: Option<i64>,
    login: Login,
    /// The options of the program, but for those that the URL states.
    options: RedisOptions,
    durability: Option<Durability>,
    patience: Option<Duration>,
    tls: Tls,
    master: Option<String>,
    sentinel: Login,
}

/// The content of a URL, and the options with those of the program that it does not state.
type Parsed = Result<(Target, RedisOptions), BrokerError>;

impl Target {
    /// Reads the URLs that [`RedisBroker::connect`](super::super::RedisBroker::connect) lists, and Go's
    /// `redis-socket://[:password@]/path?db=`. The options that the URL states take the place of those in `options`.
    pub(in super::super) fn parse(url: &str, options: RedisOptions) -> Parsed {
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(config("a Redis URL begins with redis:// or redis+unix://"));
        };
        if url.contains(char::is_whitespace) {
            return Err(config(
                "a Redis URL has no blanks and no line breaks; write %20 for a blank, also in a password",
            ));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let query = Query::read(query, options)?;
        let tls = scheme.starts_with("rediss");
        match scheme {
            "redis+unix" | "unix" | "redis-socket" => Self::parse_unix(rest, query),
            "redis" | "rediss" => Self::parse_tcp(rest, query, tls),
            "redis-cluster" | "rediss-cluster" if cfg!(feature = "cluster") => Self::parse_cluster(rest, query, tls),
            "redis-sentinel" | "rediss-sentinel" if cfg!(feature = "sentinel") => {
                Self::parse_sentinel(rest, query, tls)
            }
            "redis-cluster" | "rediss-cluster" => Err(config(
                "this program was built without Redis Cluster: turn on the feature `cluster` of asynq-runtime",
            )),
            "redis-sentinel" | "rediss-sentinel" => Err(config(
                "this program was built without Redis Sentinel: turn on the feature `sentinel` of asynq-runtime",
            )),
            _ => Err(config(
                "this URL scheme is unknown; use redis://, redis+unix://, redis-cluster:// or redis-sentinel://, \
                 with TLS rediss://, rediss-cluster:// or rediss-sentinel://",
            )),
        }
    }

    fn parse_tcp(rest: &str, query: Query, tls: bool) -> Parsed {
        let (login, authority, db) = split(rest)?;
        Self::new(Endpoints::One(parse_host(authority, 6379)?), login, db, query, tls)
    }

    fn parse_cluster(rest: &str, query: Query, tls: bool) -> Parsed {
        let (login, authority, db) = split(rest)?;
        let (target, options) = Self::new(Endpoints::Cluster(parse_hosts(authority, 6379)?), login, db, query, tls)?;
        if target.db != 0 {
            return Err(config("asynq uses database 0 of a Redis Cluster: leave the number out"));
        }
        Ok((target, options))
    }

    fn parse_sentinel(rest: &str, mut query: Query, tls: bool) -> Parsed {
        let (login, authority, db) = split(rest)?;
        let Some(master) = query.master.take().filter(|master| !master.is_empty()) else {
            return Err(config("a URL of sentinels names the master: redis-sentinel://host:26379/0?master=mymaster"));
        };
        let sentinels = std::mem::take(&mut query.sentinel);
        check_login(&sentinels, "sentinel_user needs sentinel_pass")?;
        let sentinels = Sentinels { at: parse_hosts(authority, 26379)?, master, login: sentinels };
        Self::new(Endpoints::Sentinel(sentinels), login, db, query, tls)
    }

    fn parse_unix(rest: &str, query: Query) -> Parsed {
        let Some(slash) = rest.find('/') else {
            return Err(config("a URL of a unix socket names its path: redis+unix:///run/redis.sock"));
        };
        let (authority, path) = rest.split_at(slash);
        let (login, host) = split_login(authority);
        if !host.is_empty() {
            return Err(config("a URL of a unix socket has three slashes and no host: redis+unix:///run/redis.sock"));
        }
        let login = parse_login(login)?;
        let path = decode(path)?;
        if path == "/" {
            return Err(config("a URL of a unix socket names its path: redis+unix:///run/redis.sock"));
        }
        Self::new(Endpoints::One(Address::Unix(path.into())), login, None, query, false)
    }

    fn new(endpoints: Endpoints, login: Login, db: Option<i64>, query: Query, tls: bool) -> Parsed {
        if query.master.is_some() || query.sentinel != Login::default() {
            return Err(config("master, sentinel_user and sentinel_pass belong to redis-sentinel:// URLs"));
        }
        if !tls && query.tls != Tls::default() {
            return Err(config("ca, cert, key and tls_name are for TLS: write rediss:// (or rediss-cluster://, …)"));
        }
        let tls = if tls { Some(query.tls.checked()?) } else { None };
        let login = Login { user: query.login.user.or(login.user), password: query.login.password.or(login.password) };
        check_login(
            &login,
            "the Redis URL has a user but no password; write redis://LOGIN@host, where LOGIN is user:password, or :password without a user",
        )?;
        let durability = match (query.durability, query.patience) {
            (Some(durability), Some(patience)) => durability.within(patience),
            (durability, None) => durability.unwrap_or(query.options.durability),
            (None, Some(_)) => return Err(config("durability_timeout needs durability: durability=replicas(1)")),
        };
        let target = Self { endpoints, login, tls, db: query.db.or(db).unwrap_or(0) };
        Ok((target, RedisOptions { durability, ..query.options }))
    }
}

impl Query {
    fn read(query: &str, options: RedisOptions) -> Result<Self, BrokerError> {
        let mut read = Self { options, ..Self::default() };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let path = || decode(value).map(|path| Some(PathBuf::from(path)));
            match key {
                "db" => read.db = Some(parse_db(value)?),
                "user" => read.login.user = Some(decode(value)?),
                "pass" | "password" => read.login.password = Some(decode(value)?),
                "timeout" => read.options.call_timeout = timeouts::parse(value).map_err(config)?,
                "connect_timeout" => read.options.connect_timeout = timeouts::parse(value).map_err(config)?,
                "lease" => read.options.lease = parse_lease(value)?,
                "allow_eviction" => read.options.allow_eviction = parse_bool(value)?,
                "durability" => {
                    let durability = Durability::parse(&decode(value)?);
                    read.durability = Some(durability.ok_or_else(|| {
                        config("the durability in the Redis URL is async, replicas(N) with N from 1 to 100, or fsync")
                    })?);
                }
                "durability_timeout" => read.patience = Some(parse_patience(value)?),
                "ca" => read.tls.ca = path()?,
                "cert" => read.tls.cert = path()?,
                "key" => read.tls.key = path()?,
                "tls_name" => read.tls.name = Some(decode(value)?),
                "master" => read.master = Some(decode(value)?),
                "sentinel_user" => read.sentinel.user = Some(decode(value)?),
                "sentinel_pass" => read.sentinel.password = Some(decode(value)?),
                // The name of the parameter is not repeated: a password with an unescaped `?` could be in it.
                _ => {
                    return Err(config(
                        "the Redis URL has an unknown parameter; known are db, user, pass, timeout, connect_timeout, lease, \
                         allow_eviction, \
                         durability, durability_timeout, with TLS ca, cert, key and tls_name, and for sentinels master, \
                         sentinel_user and sentinel_pass; in a password, ? is written as %3F and & as %26",
                    ));
                }
            }
        }
        Ok(read)
    }
}

fn check_login(login: &Login, message: &str) -> Result<(), BrokerError> {
    if login.user.is_some() && login.password.is_none() { Err(config(message)) } else { Ok(()) }
}

/// Splits the part of a URL between `//` and `?` into login, hosts and database.
fn split(rest: &str) -> Result<(Login, &str, Option<i64>), BrokerError> {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, hosts) = split_login(authority);
    let db = if path.is_empty() { None } else { Some(parse_db(path)?) };
    Ok((parse_login(login)?, hosts, db))
}

/// Splits off the login, which ends with the last `@`, so that an unescaped one in a password does no harm.
fn split_login(authority: &str) -> (Option<&str>, &str) {
    match authority.rsplit_once('@') {
        Some((login, host)) => (Some(login), host),
        None => (None, authority),
    }
}

fn parse_login(login: Option<&str>) -> Result<Login, BrokerError> {
    let Some(login) = login else { return Ok(Login::default()) };
    let (user, password) = match login.split_once(':') {
        Some((user, password)) => (user, Some(decode(password)?)),
        None => (login, None),
    };
    let user = if user.is_empty() { None } else { Some(decode(user)?) };
    Ok(Login { user, password: password.filter(|password| !password.is_empty()) })
}

fn parse_hosts(hosts: &str, port: u16) -> Result<Vec<Address>, BrokerError> {
    hosts.split(',').map(|host| parse_host(host, port)).collect()
}

fn parse_host(host: &str, default_port: u16) -> Result<Address, BrokerError> {
    let (host, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let Some((host, rest)) = rest.split_once(']') else {
                return Err(config("the IPv6 address in the Redis URL has no closing bracket"));
            };
            if !rest.is_empty() && !rest.starts_with(':') {
                return Err(config("a colon goes before the port in the Redis URL: redis://[::1]:6379"));
            }
            (host, rest.strip_prefix(':'))
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
        None | Some("") => default_port,
        Some(port) => port.parse().map_err(|_| {
            config("the port in the Redis URL is not a number from 1 to 65535; a password goes before an @")
        })?,
    };
    Ok(Address::Tcp { host: decode(host)?, port })
}

fn parse_db(text: &str) -> Result<i64, BrokerError> {
    let db: Option<u32> = text.parse().ok();
    db.map(i64::from).ok_or_else(|| {
        config(
            "the database in the Redis URL is a number: redis://localhost:6379/0; in a password, / is written as %2F",
        )
    })
}

fn parse_lease(text: &str) -> Result<Duration, BrokerError> {
    let lease = asynq_grammar::duration::parse(text).ok().filter(|lease| RedisOptions::is_lease(*lease));
    lease.ok_or_else(|| config("the lease in the Redis URL is a time in whole seconds, 2s to 1h: ?lease=10s"))
}

fn parse_patience(text: &str) -> Result<Duration, BrokerError> {
    let patience = asynq_grammar::duration::parse(text).ok();
    patience.filter(|patience| Durability::PATIENCE.contains(patience)).ok_or_else(|| {
        config("the durability_timeout in the Redis URL is a time from 1ms to 1m: durability_timeout=1s")
    })
}

fn parse_bool(text: &str) -> Result<bool, BrokerError> {
    text.parse().map_err(|_| config("allow_eviction in the Redis URL is true or false"))
}

fn decode(text: &str) -> Result<String, BrokerError> {
    percent::decode(text).ok_or_else(|| {
        config(
            "the Redis URL has a percent sign that is not followed by two hexadecimal digits of UTF-8; in a password, % is \
             written as %25",
        )
    })
}
