//! Jobs that other crates see: everything public is documented.

#![deny(missing_docs, rustdoc::all, warnings)]

/// Jobs about mail.
pub mod mail {
    use asynq_runtime::prelude::*;
    use serde::{Deserialize, Serialize};

    /// The receiver.
    #[derive(Debug, Serialize, Deserialize)]
    pub struct Address(pub String);

    /// The error of a mail job.
    #[derive(Clone, Copy, Debug)]
    pub struct MailError;

    impl std::fmt::Display for MailError {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("no mail today")
        }
    }

    impl std::error::Error for MailError {}

    impl MailError {
        /// No retry repairs it.
        pub fn policy(&self) -> Policy {
            Policy::SkipRetry
        }
    }

    /// Sends one e-mail.
    #[job(on_error = MailError::policy)]
    pub async fn send(
        to: Address,
        /// Below the address.
        subject: String,
    ) -> Result<(), MailError> {
        drop((to, subject));
        Err(MailError)
    }
}

/// Makes tasks of the job.
pub fn run() {
    drop(mail::send { to: mail::Address("ann".into()), subject: "Hi".into() });
    drop(mail::send::job(mail::Address("ann".into()), "Hi"));
}
