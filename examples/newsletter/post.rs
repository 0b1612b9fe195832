//! Delivers a message: into the outbox, or to the mail server that `SMTP_URL` names.

use std::sync::Arc;

use asynq_runtime::prelude::{BoxError, JobError};
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};

use crate::{meter::Meter, outbox::Outbox};

/// The `State` of the job, which every run needs.
#[derive(Debug)]
pub(crate) struct PostOffice {
    outbox: Outbox,
    smtp: Option<AsyncSmtpTransport<Tokio1Executor>>,
    pub(crate) meter: Arc<Meter>,
}

impl PostOffice {
    /// Opens a post office that sends to `smtp_url`, if there is one, and otherwise writes into `outbox`.
    ///
    /// # Errors
    ///
    /// The URL cannot be used. Without the feature `smtp-tls` this includes every URL that asks for TLS.
    pub(crate) fn open(outbox: Outbox, smtp_url: Option<&str>, meter: Arc<Meter>) -> Result<Self, BoxError> {
        let smtp = match smtp_url {
            None => None,
            // The URL may hold a password, so the error does not show it.
            Some(url) => Some(smtp_at(url).map_err(|error| format!("SMTP_URL cannot be used: {error}"))?),
        };
        Ok(Self { outbox, smtp, meter })
    }

    /// Delivers the message of one task.
    ///
    /// # Errors
    ///
    /// The task is archived at once if the mail server says that it will never take this message; otherwise it is tried again.
    pub(crate) async fn deliver(&self, task_id: &str, message: Message) -> Result<(), JobError> {
        if let Some(smtp) = &self.smtp {
            return match smtp.send(message).await {
                Ok(_) => Ok(()),
                Err(error) if error.is_permanent() => Err(JobError::skip_retry(error)),
                Err(error) => Err(JobError::fail(error)),
            };
        }
        let (outbox, task_id) = (self.outbox.clone(), task_id.to_owned());
        tokio::task::spawn_blocking(move || outbox.write(&task_id, &message.formatted())).await??;
        Ok(())
    }
}

/// Takes any URL that lettre reads: `smtps://user:password@host`, `smtp://host?tls=required`, `smtp://localhost:1025`.
#[cfg(feature = "smtp-tls")]
fn smtp_at(url: &str) -> Result<AsyncSmtpTransport<Tokio1Executor>, BoxError> {
    Ok(AsyncSmtpTransport::<Tokio1Executor>::from_url(url)?.build())
}

/// Takes `smtp://host:port` alone: lettre reads URLs only when it is built with TLS, and without TLS no password is sent.
#[cfg(not(feature = "smtp-tls"))]
fn smtp_at(url: &str) -> Result<AsyncSmtpTransport<Tokio1Executor>, BoxError> {
    let (host, port) = host_and_port(url).ok_or(
        "without TLS it has to be smtp://host or smtp://host:port; for a password, smtps:// or ?tls=required use \
         `cargo run --features smtp-tls --example newsletter`",
    )?;
    Ok(AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(host).port(port).build())
}

#[cfg(not(feature = "smtp-tls"))]
fn host_and_port(url: &str) -> Option<(&str, u16)> {
    let address = url.strip_prefix("smtp://")?.trim_end_matches('/');
    if address.contains(['@', '/', '?', '#']) {
        return None;
    }
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (address, 25),
    };
    (!host.is_empty()).then_some((host, port))
}

#[cfg(all(test, not(feature = "smtp-tls")))]
mod tests {
    use super::*;

    #[test]
    fn without_tls_a_url_is_a_host_and_a_port() {
        let cases = [
            ("smtp://localhost:1025", Some(("localhost", 1025))),
            ("smtp://mail.example/", Some(("mail.example", 25))),
            ("smtp://ann:secret@mail.example", None),
            ("smtps://mail.example", None),
            ("smtp://mail.example?tls=required", None),
            ("smtp://mail.example:port", None),
            ("smtp://", None),
            ("mail.example", None),
        ];
        for (url, expected) in cases {
            assert_eq!(host_and_port(url), expected, "{url}");
        }
    }
}
