//! Delivers a message: into the outbox, or to the mail server that `SMTP_URL` names.

use std::sync::Arc;

use asynq_runtime::prelude::{BoxError, JobError};
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor, transport::smtp};

use crate::{meter::Meter, outbox::Outbox};

/// What every run of the job needs: its `State`.
#[derive(Debug)]
pub(crate) struct PostOffice {
    outbox: Outbox,
    smtp: Option<AsyncSmtpTransport<Tokio1Executor>>,
    pub(crate) meter: Arc<Meter>,
}

impl PostOffice {
    /// A post office that sends to `smtp_url`, if there is one, and otherwise writes into `outbox`.
    ///
    /// # Errors
    ///
    /// The URL is none that lettre reads. Without the feature `smtp-tls` that includes every URL that asks for TLS.
    pub(crate) fn open(outbox: Outbox, smtp_url: Option<&str>, meter: Arc<Meter>) -> Result<Self, BoxError> {
        let smtp = match smtp_url {
            None => None,
            // The URL may hold a password: it is not shown.
            Some(url) => Some(smtp_at(url).map_err(|error| format!("SMTP_URL cannot be used: {error}"))?),
        };
        Ok(Self { outbox, smtp, meter })
    }

    /// Delivers the message of one task.
    ///
    /// # Errors
    ///
    /// Archived at once where the mail server says that it will never take this message; tried again otherwise.
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

fn smtp_at(url: &str) -> Result<AsyncSmtpTransport<Tokio1Executor>, smtp::Error> {
    Ok(AsyncSmtpTransport::<Tokio1Executor>::from_url(url)?.build())
}
