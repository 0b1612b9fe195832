//! Shakes hands with Redis by rustls, and explains why a handshake failed.

use std::{error::Error, io, path::Path, sync::Arc};

use chrono::{DateTime, SecondsFormat};
use redis::RedisError;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{BrokerError, Tls, config};
use crate::broker::BrokerErrorKind;

impl Tls {
    /// Shakes hands on `stream`, whose server has to show a certificate for `host` or for the name of the URL.
    ///
    /// # Errors
    ///
    /// `host` cannot be a name in a certificate; as [`config`](Self::config); or one side refuses the other's certificate, which is `failed`.
    pub(in super::super) async fn encrypted(
        &self,
        stream: TcpStream,
        host: &str,
        failed: fn(io::Error) -> BrokerError,
    ) -> Result<TlsStream<TcpStream>, BrokerError> {
        let name = self.name.as_deref().unwrap_or(host);
        let name = ServerName::try_from(name.to_owned()).map_err(|error| {
            unusable(&format!("{host:?} is not a valid name for TLS; use a host name or an IP address"), error)
        })?;
        TlsConnector::from(self.config()?).connect(name, stream).await.map_err(failed)
    }

    /// Returns the configuration of one connection; reads the files now.
    ///
    /// # Errors
    ///
    /// [`Config`](BrokerErrorKind::Config): a file cannot be read or used, or the system has no authorities to trust.
    fn config(&self) -> Result<Arc<ClientConfig>, BrokerError> {
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
        let chain = certificates(cert, "cert")?;
        let key = PrivateKeyDer::from_pem_slice(&read(key, "key")?).map_err(|error| not_pem("key", error))?;
        let message =
            "cert and key in the Redis URL cannot be used together: a certificate, and the key it was made for";
        Ok(Arc::new(config.with_client_auth_cert(chain, key).map_err(|error| unusable(message, error))?))
    }

    /// Returns the authorities of the URL, or else those of the system.
    fn authorities(&self) -> Result<RootCertStore, BrokerError> {
        let mut authorities = RootCertStore::empty();
        if let Some(ca) = &self.ca {
            for certificate in certificates(ca, "ca")? {
                authorities.add(certificate).map_err(|error| not_pem("ca", error))?;
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

/// Returns the certificates in the file, at least one.
fn certificates(path: &Path, parameter: &str) -> Result<Vec<CertificateDer<'static>>, BrokerError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(path, parameter)?).collect();
    let found = found.map_err(|error| not_pem(parameter, error))?;
    if found.is_empty() {
        let message = format!("the file that `{parameter}` in the Redis URL names holds no certificate in PEM");
        return Err(config(message));
    }
    Ok(found)
}

fn not_pem(parameter: &str, error: impl Error + Send + Sync + 'static) -> BrokerError {
    let message = format!("the file that `{parameter}` in the Redis URL names cannot be used: it has to be in PEM");
    unusable(&message, error)
}

fn unusable(message: &str, error: impl Error + Send + Sync + 'static) -> BrokerError {
    BrokerError::with_source(BrokerErrorKind::Config, message, error)
}

fn read(path: &Path, parameter: &str) -> Result<Vec<u8>, BrokerError> {
    std::fs::read(path).map_err(|error| {
        unusable(&format!("cannot read the file that `{parameter}` in the Redis URL names: {}", path.display()), error)
    })
}

/// Explains `error` if its cause is a certificate or the TLS of either side. Such an error does not pass by itself, so
/// that waiting does not help.
pub(in super::super) fn explain(error: &RedisError) -> Option<BrokerError> {
    let cause = cause(error)?;
    let (kind, message) = meaning(cause)?;
    Some(match of_any_time(cause) {
        Some(cause) => BrokerError::with_source(kind, message, cause),
        None => BrokerError::with_source(kind, message, error.clone()),
    })
}

/// Returns the error without the time of its check, which would make each attempt's text another: a text that was logged already is not
/// logged again.
fn of_any_time(error: &rustls::Error) -> Option<rustls::Error> {
    use rustls::{CertificateError as Bad, Error};
    match error {
        Error::InvalidCertificate(Bad::ExpiredContext { .. }) => Some(Error::InvalidCertificate(Bad::Expired)),
        Error::InvalidCertificate(Bad::NotValidYetContext { .. }) => Some(Error::InvalidCertificate(Bad::NotValidYet)),
        _ => None,
    }
}

/// Returns a time of a certificate as people read it.
fn date(time: UnixTime) -> String {
    let time = i64::try_from(time.as_secs()).ok().and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    time.map_or_else(|| "a time out of range".to_owned(), |time| time.to_rfc3339_opts(SecondsFormat::Secs, true))
}

/// Returns rustls's own error inside the redis crate's, which hides it in an `io::Error` in an `Arc`.
fn cause(error: &RedisError) -> Option<&rustls::Error> {
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

fn meaning(error: &rustls::Error) -> Option<(BrokerErrorKind, String)> {
    use rustls::{AlertDescription as Alert, CertificateError as Bad, Error};
    let text = match error {
        Error::InvalidCertificate(bad) => match bad {
            Bad::ExpiredContext { not_after, .. } => &format!("it expired at {}: renew it", date(*not_after)),
            Bad::NotValidYetContext { not_before, .. } => {
                &format!("it is not valid before {}: check the clocks", date(*not_before))
            }
            Bad::Revoked => "it was revoked",
            Bad::UnknownIssuer => "no trusted authority signed it; name its authority by ca= in the URL",
            // A certificate of openssl without further options has the host in its common name alone.
            Bad::NotValidForNameContext { presented, .. } if presented.is_empty() => {
                "it names no host: make one with the host in its subjectAltName, because its common name does not count"
            }
            Bad::NotValidForName | Bad::NotValidForNameContext { .. } => {
                "it is for another host than was asked for; where that is right, name the host in it by tls_name= in the URL"
            }
            // Such as that of an authority in place of one that it signed, which `openssl req -x509` makes.
            _ => {
                "make one for a server: of X.509 version 3, with the host in its subjectAltName, with CA:FALSE also where it signs \
                 itself, and with serverAuth if it has an extendedKeyUsage"
            }
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
        // With TLS 1.2 also that of a server which got no certificate.
        Error::AlertReceived(Alert::HandshakeFailure) => {
            let text = "Redis refused the handshake: it wants a certificate of ours, by cert= and key= in the URL, or has no cipher of \
                        TLS in common with this program";
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustls::{AlertDescription, CertificateError, Error};

    use super::*;

    #[test]
    fn the_choice_of_a_provider_for_the_process_is_left_to_the_program() {
        let _ = Tls::default().config();
        assert!(CryptoProvider::get_default().is_none());
    }

    fn explained(error: Error) -> BrokerError {
        explain(&RedisError::from(io::Error::new(io::ErrorKind::InvalidData, error))).expect("an explanation")
    }

    #[test]
    fn a_refused_certificate_is_found_inside_the_errors_that_carry_it() {
        use BrokerErrorKind::{Config, Denied};
        let nameless = CertificateError::NotValidForNameContext {
            expected: ServerName::try_from("h").unwrap(),
            presented: Vec::new(),
        };
        let cases = [
            (Error::InvalidCertificate(CertificateError::UnknownIssuer), Denied, "ca="),
            (Error::InvalidCertificate(CertificateError::NotValidForName), Denied, "another host"),
            (Error::InvalidCertificate(nameless), Denied, "subjectAltName"),
            (Error::InvalidCertificate(CertificateError::InvalidPurpose), Denied, "serverAuth"),
            (Error::AlertReceived(AlertDescription::CertificateRequired), Denied, "cert="),
            (Error::AlertReceived(AlertDescription::HandshakeFailure), Denied, "cert="),
            (Error::AlertReceived(AlertDescription::ProtocolVersion), Config, "in common"),
            (Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType), Config, "does not speak TLS"),
        ];
        for (error, kind, text) in cases {
            let explained = explained(error);
            assert_eq!(explained.kind(), kind, "{explained}");
            assert!(explained.to_string().contains(text), "{explained}");
        }
        assert!(explain(&RedisError::from(io::Error::from(io::ErrorKind::ConnectionRefused))).is_none());
    }

    #[test]
    fn a_certificate_that_is_not_valid_now_is_refused_with_its_own_time_and_the_same_text_each_time() {
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let expired = |seconds| CertificateError::ExpiredContext { time: at(seconds), not_after: at(1_767_225_600) };
        let early = |seconds| CertificateError::NotValidYetContext { time: at(seconds), not_before: at(1_893_456_000) };
        for (first, second, date) in [
            (expired(1_796_059_682), expired(1_796_059_683), "2026-01-01T00:00:00Z"),
            (early(1_796_059_682), early(1_796_059_683), "2030-01-01T00:00:00Z"),
        ] {
            let [first, second] = [first, second].map(|bad| explained(Error::InvalidCertificate(bad)).to_string());
            assert!(first.contains(date), "{first}");
            assert_eq!(first, second, "a warning that was logged is not logged again");
        }
    }
}
