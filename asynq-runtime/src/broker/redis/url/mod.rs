//! The servers and the login that a Redis URL names; a password is read from it and never shown again.

mod parse;
#[cfg(test)]
mod tests;

use std::{fmt, path::PathBuf};

use redis::{Pipeline, ProtocolVersion, RedisConnectionInfo, Value};

use super::{
    super::{BrokerError, BrokerErrorKind},
    reply::answer,
    tls::Tls,
};

/// The name and the version of this library, which `CLIENT LIST` of Redis 7.2 and newer shows.
const LIBRARY: [(&str, &str); 2] = [("LIB-NAME", "asynq-runtime"), ("LIB-VER", env!("CARGO_PKG_VERSION"))];

/// The content of a URL.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// The servers.
    pub(super) endpoints: Endpoints,
    /// The login of the servers.
    pub(super) login: Login,
    /// The settings of TLS, if the URL asks for it.
    pub(super) tls: Option<Tls>,
    db: i64,
}

/// Which servers a URL names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Endpoints {
    /// A single server.
    One(Address),
    /// Some nodes of a cluster, which know the others.
    Cluster(Vec<Address>),
    /// Sentinels, which know the master.
    Sentinel(Sentinels),
}

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Address {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// The addresses of the sentinels, and the name by which they know the master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sentinels {
    pub(super) at: Vec<Address>,
    pub(super) master: String,
    /// The login of the sentinels; they require one only if they are configured to.
    pub(super) login: Login,
}

/// User and password, if any.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Login {
    user: Option<String>,
    password: Option<String>,
}

impl Target {
    /// Adds the commands that follow the login. They are not part of it, because the redis crate looks at the first answer of a login
    /// after it has read all of them, and a server that refuses a connection answers only once.
    pub(super) fn introduce(&self, pipeline: &mut Pipeline) {
        if self.db != 0 {
            pipeline.cmd("SELECT").arg(self.db);
        }
        for (field, value) in LIBRARY {
            pipeline.cmd("CLIENT").arg("SETINFO").arg(field).arg(value);
        }
    }

    /// Takes the answers to [`introduce`](Self::introduce) from those of a pipeline.
    pub(super) fn introduced(&self, answers: &mut impl Iterator<Item = Value>) -> Result<(), BrokerError> {
        if self.db != 0 {
            answer(answers.next().unwrap_or_default())?;
        }
        // Redis before 7.2 does not know the command.
        answers.by_ref().take(LIBRARY.len()).for_each(drop);
        Ok(())
    }
}

/// Takes the answer to the call of [`Login::auth`].
pub(super) fn authenticated(answers: Vec<Value>) -> Result<(), BrokerError> {
    match answer(answers.into_iter().next().unwrap_or_default()) {
        // Without the answer as its source: a proxy may repeat the password in it.
        Err(error) if error.kind() == BrokerErrorKind::Unexpected => Err(BrokerError::new(
            BrokerErrorKind::Denied,
            "Redis refused the login: check user and password in the URL",
        )),
        answer => answer.map(drop),
    }
}

impl Login {
    /// Returns the call that logs in, if `protocol` is RESP2. The redis crate takes every error that answers its own for a wrong password.
    pub(super) fn auth(&self, protocol: ProtocolVersion) -> Option<Pipeline> {
        let password = self.password.as_deref().filter(|_| protocol == ProtocolVersion::RESP2)?;
        // Some proxies take a password alone, which is that of this user.
        let user = self.user.as_deref().filter(|user| *user != "default");
        let mut auth = redis::pipe();
        auth.cmd("AUTH").arg(user).arg(password);
        Some(auth)
    }

    pub(super) fn at(&self, protocol: ProtocolVersion) -> RedisConnectionInfo {
        let mut settings = RedisConnectionInfo::default().set_protocol(protocol).set_skip_set_lib_name();
        if protocol == ProtocolVersion::RESP2 {
            return settings;
        }
        if let Some(user) = &self.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &self.password {
            settings = settings.set_password(password);
        }
        settings
    }
}

impl fmt::Display for Target {
    /// Writes the URL without its password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.login.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        let scheme = if self.tls.is_some() { "rediss" } else { "redis" };
        let list = |all: &[Address]| all.iter().map(Address::to_string).collect::<Vec<_>>().join(",");
        match &self.endpoints {
            Endpoints::One(Address::Unix(path)) => write!(f, "redis+unix://{user}{}?db={}", path.display(), self.db),
            Endpoints::One(address) => write!(f, "{scheme}://{user}{address}/{}", self.db),
            Endpoints::Cluster(nodes) => write!(f, "{scheme}-cluster://{user}{}", list(nodes)),
            Endpoints::Sentinel(Sentinels { at, master, .. }) => {
                write!(f, "{scheme}-sentinel://{user}{}/{}?master={master}", list(at), self.db)
            }
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

partial_debug!(Login { user, .. });
