//! The settings of TLS: the authorities that are trusted, and the certificate of this client. `tls/client.rs` shakes hands by rustls.
//!
//! No option skips a check, and no connection falls back to plain text: a `rediss://` URL is TLS or an error.

#[cfg(feature = "tls")]
mod client;

use std::path::PathBuf;

pub(super) use self::client::explain;
use super::super::{BrokerError, config};

/// Why `rediss://` is an error where TLS is not built in.
const WITHOUT: &str = "this program was built without TLS: turn on the feature `tls` of asynq-runtime";

/// The settings of TLS. The files are in PEM and are read for each new connection, so that a renewed certificate needs no restart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tls {
    /// Authorities to trust instead of the system's.
    pub(super) ca: Option<PathBuf>,
    /// Our own certificate.
    pub(super) cert: Option<PathBuf>,
    /// The key of our certificate.
    pub(super) key: Option<PathBuf>,
    /// The name in the certificates of the servers, if that is not the host.
    pub(super) name: Option<String>,
}

impl Tls {
    /// Returns these settings if they can be used; the files are not read yet.
    pub(super) fn checked(self) -> Result<Self, BrokerError> {
        if !cfg!(feature = "tls") {
            return Err(config(WITHOUT));
        }
        if self.cert.is_some() != self.key.is_some() {
            return Err(config("a client certificate takes both cert and key in the Redis URL"));
        }
        #[cfg(feature = "tls")]
        if self.name.as_deref().is_some_and(|name| rustls::pki_types::ServerName::try_from(name).is_err()) {
            return Err(config(
                "tls_name in the Redis URL is not a valid name for TLS: use a host name or an IP address",
            ));
        }
        Ok(self)
    }
}

/// Stands in where TLS is not built in; [`Tls::checked`] refuses all settings there.
#[cfg(not(feature = "tls"))]
mod client {
    use std::io;

    use redis::RedisError;
    use tokio::net::TcpStream;

    use super::{BrokerError, Tls, WITHOUT, config};

    impl Tls {
        pub(in super::super) async fn encrypted(
            &self,
            _: TcpStream,
            _: &str,
            _: fn(io::Error) -> BrokerError,
        ) -> Result<TcpStream, BrokerError> {
            Err(config(WITHOUT))
        }
    }

    pub(in super::super) fn explain(_: &RedisError) -> Option<BrokerError> {
        None
    }
}
