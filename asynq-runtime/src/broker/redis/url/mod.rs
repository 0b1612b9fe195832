//! Where Redis is and how to log in, as a URL says it; a password goes in here and never comes out again.

mod parse;
#[cfg(test)]
mod tests;

use std::{fmt, path::PathBuf, time::Duration};

use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo,
    io::tcp::TcpSettings,
};

use super::{
    super::{BrokerError, BrokerErrorKind},
    durability::Durability,
    reply,
    tls::Tls,
};

/// Everything a URL says.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Target {
    place: Place,
    login: Login,
    tls: Option<Tls>,
    db: i64,
    wishes: Wishes,
}

/// Which servers a URL names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// One server.
    One(Address),
    /// Some nodes of a cluster, which know the others.
    Cluster(Vec<Address>),
    /// Sentinels, who know the master.
    Sentinel(Sentinels),
}

/// One server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Address {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// Who knows the master, and by which name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sentinels {
    pub(super) at: Vec<Address>,
    pub(super) master: String,
    /// The sentinels' own; they ask for none unless set up to.
    pub(super) login: Login,
}

/// User and password, if any.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Login {
    user: Option<String>,
    password: Option<String>,
}

/// What a URL wants of the broker; it comes before the options of the program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Wishes {
    pub(super) timeout: Option<Duration>,
    pub(super) connect_timeout: Option<Duration>,
    pub(super) lease: Option<Duration>,
    pub(super) allow_eviction: Option<bool>,
    pub(super) durability: Option<Durability>,
}

impl Target {
    /// Which servers.
    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// What else it asks for.
    pub(super) fn wishes(&self) -> &Wishes {
        &self.wishes
    }

    /// Whether it is to be reached by TLS.
    pub(super) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Ready to connect to one server of the target.
    pub(super) fn client(&self, address: &Address, protocol: ProtocolVersion) -> Result<Client, BrokerError> {
        self.client_as(address, &self.login, self.db, protocol)
    }

    /// Ready to ask a sentinel.
    #[cfg(feature = "sentinel")]
    pub(super) fn sentinel_client(&self, address: &Address, login: &Login) -> Result<Client, BrokerError> {
        self.client_as(address, login, 0, ProtocolVersion::RESP2)
    }

    fn client_as(
        &self,
        address: &Address,
        login: &Login,
        db: i64,
        protocol: ProtocolVersion,
    ) -> Result<Client, BrokerError> {
        let info = self.connection_info(address, login, db, protocol)?;
        match &self.tls {
            Some(tls) => tls.client(info),
            None => Client::open(info).map_err(reply::failed),
        }
    }

    fn connection_info(
        &self,
        address: &Address,
        login: &Login,
        db: i64,
        protocol: ProtocolVersion,
    ) -> Result<ConnectionInfo, BrokerError> {
        let address = match address {
            Address::Tcp { host, port } if self.tls.is_some() => {
                ConnectionAddr::TcpTls { host: host.clone(), port: *port, insecure: false, tls_params: None }
            }
            Address::Tcp { host, port } => ConnectionAddr::Tcp(host.clone(), *port),
            Address::Unix(path) => ConnectionAddr::Unix(path.clone()),
        };
        let mut settings = RedisConnectionInfo::default().set_db(db).set_protocol(protocol);
        if let Some(user) = &login.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &login.password {
            settings = settings.set_password(password);
        }
        let info = address.into_connection_info().map_err(|_| config("the Redis address cannot be used"))?;
        // A pipeline is one write: waiting for more to send would only cost time.
        Ok(info.set_tcp_settings(TcpSettings::default().set_nodelay(true)).set_redis_settings(settings))
    }
}

impl fmt::Display for Target {
    /// The URL without its password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.login.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        let scheme = if self.tls.is_some() { "rediss" } else { "redis" };
        let list = |all: &[Address]| all.iter().map(Address::to_string).collect::<Vec<_>>().join(",");
        match &self.place {
            Place::One(Address::Unix(path)) => write!(f, "redis+unix://{user}{}?db={}", path.display(), self.db),
            Place::One(address) => write!(f, "{scheme}://{user}{address}/{}", self.db),
            Place::Cluster(nodes) => write!(f, "{scheme}-cluster://{user}{}", list(nodes)),
            Place::Sentinel(Sentinels { at, master, .. }) => {
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

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

fn config(message: impl Into<String>) -> BrokerError {
    BrokerError::new(BrokerErrorKind::Config, message)
}
