//! TLS by rustls: the authorities that are trusted, the certificate of this client, and the reasons of a failed
//! handshake.
//!
//! No option skips a check, and no connection falls back to plain text: a `rediss://` URL is TLS or an error.

use std::path::PathBuf;
#[cfg(feature = "tls")]
use std::sync::Arc;

use redis::RedisError;
#[cfg(feature = "tls")]
use rustls::{
    ClientConfig, RootCertStore,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};

use super::super::{BrokerError, BrokerErrorKind, config};

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
        if self.name.as_ref().is_some_and(|name| ServerName::try_from(name.as_str()).is_err()) {
            return Err(config(
                "tls_name in the Redis URL is not a valid name for TLS: use a host name or an IP address",
            ));
        }
        Ok(self)
    }
}

#[cfg(feature = "tls")]
impl Tls {
    /// Returns the name that the certificate of the server at `host` has to have.
    pub(super) fn name<'a>(&'a self, host: &'a str) -> &'a str {
        self.name.as_deref().unwrap_or(host)
    }

    /// Returns the configuration of one connection; reads the files now.
    ///
    /// # Errors
    ///
    /// [`Config`](BrokerErrorKind::Config): a file cannot be read or used, or the system has no authorities to trust.
    pub(super) fn config(&self) -> Result<Arc<ClientConfig>, BrokerError> {
        // The provider that the program has chosen for its process, else ring, in C and assembly that any C compiler builds. It is
        // not installed: the program may choose one of its own later.
        let provider = CryptoProvider::get_default().cloned().unwrap_or_else(|| Arc::new(ring::default_provider()));
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let message = "the provider of cryptography that this program installed for rustls has no version of TLS";
        let config = config.map_err(|error| unusable(message, error))?;
        let config = config.with_root_certificates(self.authorities()?);
        let (Some(cert), Some(key)) = (&self.cert, &self.key) else {
            return Ok(Arc::new(config.with_no_client_auth()));
        };
        let chain = CertificateDer::pem_slice_iter(&read(cert, "cert")?).collect::<Result<Vec<_>, _>>();
        let key = PrivateKeyDer::from_pem_slice(&read(key, "key")?);
        let (chain, key) = chain.and_then(|chain| Ok((chain, key?))).map_err(not_pem)?;
        let message =
            "cert and key in the Redis URL cannot be used together: a certificate, and the key it was made for";
        Ok(Arc::new(config.with_client_auth_cert(chain, key).map_err(|error| unusable(message, error))?))
    }

    /// Returns the authorities of the URL, or else those of the system.
    fn authorities(&self) -> Result<RootCertStore, BrokerError> {
        let mut authorities = RootCertStore::empty();
        if let Some(ca) = &self.ca {
            let pem = read(ca, "ca")?;
            for certificate in CertificateDer::pem_slice_iter(&pem) {
                authorities.add(certificate.map_err(not_pem)?).map_err(not_pem)?;
            }
            if authorities.is_empty() {
                return Err(config("the file that `ca` in the Redis URL names holds no certificate in PEM"));
            }
            return Ok(authorities);
        }
        let found = rustls_native_certs::load_native_certs();
        // A bad file among the system's does no harm; without any authority, no server can be trusted.
        authorities.add_parsable_certificates(found.certs);
        if authorities.is_empty() {
            let message = "this system names no certificate authorities; name one by ca= in the Redis URL";
            return Err(match found.errors.into_iter().next() {
                Some(error) => unusable(message, error),
                None => config(message),
            });
        }
        Ok(authorities)
    }
}

#[cfg(feature = "tls")]
fn not_pem(error: impl std::error::Error + Send + Sync + 'static) -> BrokerError {
    unusable("the certificates that the Redis URL names cannot be used: ca, cert and key are files in PEM", error)
}

#[cfg(feature = "tls")]
fn unusable(message: &str, error: impl std::error::Error + Send + Sync + 'static) -> BrokerError {
    BrokerError::with_source(BrokerErrorKind::Config, message, error)
}

#[cfg(not(feature = "tls"))]
impl Tls {
    /// Returns the error of a program that was built without TLS.
    pub(super) fn missing(&self) -> BrokerError {
        config(WITHOUT)
    }
}

#[cfg(feature = "tls")]
fn read(path: &std::path::Path, parameter: &str) -> Result<Vec<u8>, BrokerError> {
    std::fs::read(path).map_err(|error| {
        unusable(&format!("cannot read the file that `{parameter}` in the Redis URL names: {}", path.display()), error)
    })
}

/// Explains `error` if its cause is a certificate or the TLS of either side. Such an error does not pass by itself, so
/// that waiting does not help.
#[cfg(feature = "tls")]
pub(super) fn explain(error: &RedisError) -> Option<(BrokerErrorKind, String)> {
    cause(error).and_then(meaning)
}

#[cfg(not(feature = "tls"))]
pub(super) fn explain(_: &RedisError) -> Option<(BrokerErrorKind, String)> {
    None
}

/// Returns rustls's own error inside the redis crate's, which hides it in an `io::Error` in an `Arc`.
#[cfg(feature = "tls")]
fn cause(error: &RedisError) -> Option<&rustls::Error> {
    use std::{error::Error, io, sync::Arc};
    let source = Error::source(error)?;
    let inner: &(dyn Error + 'static) = match source.downcast_ref::<Arc<dyn Error + Send + Sync>>() {
        Some(shared) => &**shared,
        None => source,
    };
    match inner.downcast_ref::<io::Error>() {
        Some(io) => io.get_ref()?.downcast_ref(),
        None => inner.downcast_ref(),
    }
}

#[cfg(feature = "tls")]
fn meaning(error: &rustls::Error) -> Option<(BrokerErrorKind, String)> {
    use rustls::{AlertDescription as Alert, CertificateError as Bad, Error};
    let text = match error {
        Error::InvalidCertificate(bad) => match bad {
            Bad::Expired | Bad::ExpiredContext { .. } => "it has expired",
            Bad::NotValidYet | Bad::NotValidYetContext { .. } => "it is not valid yet: check the clocks",
            Bad::Revoked => "it was revoked",
            Bad::UnknownIssuer => "no trusted authority signed it; name its authority by ca= in the URL",
            Bad::NotValidForName | Bad::NotValidForNameContext { .. } => {
                "it is for another host than the URL names; where that is right, name the host in it by tls_name= in the URL"
            }
            _ => "see the cause",
        },
        Error::AlertReceived(
            Alert::CertificateRequired
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied,
        ) => {
            let text = "Redis refused our certificate: name the right one by cert= and key= in the URL";
            return Some((BrokerErrorKind::Denied, text.to_owned()));
        }
        Error::AlertReceived(_) | Error::PeerIncompatible(_) => {
            let text = "Redis and this program have no version or cipher of TLS in common: see the cause";
            return Some((BrokerErrorKind::Config, text.to_owned()));
        }
        Error::InvalidMessage(_) => {
            let text = "the server does not speak TLS on this port; redis:// would be plain text";
            return Some((BrokerErrorKind::Config, text.to_owned()));
        }
        _ => return None,
    };
    Some((BrokerErrorKind::Denied, format!("the certificate of Redis is refused: {text}")))
}

#[cfg(all(test, feature = "tls"))]
mod tests {
    use std::io;

    use rustls::{AlertDescription, CertificateError, Error};

    use super::*;

    #[test]
    fn the_choice_of_a_provider_for_the_process_is_left_to_the_program() {
        let _ = Tls::default().config();
        assert!(CryptoProvider::get_default().is_none());
    }

    #[test]
    fn a_refused_certificate_is_found_inside_the_errors_that_carry_it() {
        let cases = [
            (Error::InvalidCertificate(CertificateError::Expired), BrokerErrorKind::Denied, "expired"),
            (Error::InvalidCertificate(CertificateError::UnknownIssuer), BrokerErrorKind::Denied, "ca="),
            (Error::InvalidCertificate(CertificateError::NotValidForName), BrokerErrorKind::Denied, "another host"),
            (Error::AlertReceived(AlertDescription::CertificateRequired), BrokerErrorKind::Denied, "cert="),
            (Error::AlertReceived(AlertDescription::ProtocolVersion), BrokerErrorKind::Config, "in common"),
            (
                Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType),
                BrokerErrorKind::Config,
                "does not speak TLS",
            ),
        ];
        for (error, kind, text) in cases {
            let wrapped = RedisError::from(io::Error::new(io::ErrorKind::InvalidData, error));
            let (found, message) = explain(&wrapped).unwrap();
            assert_eq!(found, kind);
            assert!(message.contains(text), "{message}");
        }
        assert!(explain(&RedisError::from(io::Error::from(io::ErrorKind::ConnectionRefused))).is_none());
    }
}
