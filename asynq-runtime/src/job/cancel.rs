//! The request to an attempt to stop, which costs nothing until a task waits for it.

use std::sync::OnceLock;

use tokio_util::sync::CancellationToken;

/// The request to an attempt to stop, which most attempts never get: its token is made by the first caller that makes the request or
/// waits for it.
#[derive(Debug, Default)]
pub struct Cancel(OnceLock<CancellationToken>);

impl Cancel {
    /// Makes the request.
    pub fn cancel(&self) {
        self.token().cancel();
    }

    /// Returns whether the request was made.
    pub fn is_cancelled(&self) -> bool {
        self.0.get().is_some_and(CancellationToken::is_cancelled)
    }

    /// Waits until the request is made.
    pub async fn cancelled(&self) {
        self.token().cancelled().await;
    }

    fn token(&self) -> &CancellationToken {
        self.0.get_or_init(CancellationToken::new)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn a_cancel_reaches_all_who_share_it_before_and_during_a_wait() {
        let cancel = Arc::new(Cancel::default());
        let other = Arc::clone(&cancel);
        assert!(!other.is_cancelled());
        let waits = tokio::spawn(async move { other.cancelled().await });
        tokio::task::yield_now().await;
        cancel.cancel();
        waits.await.unwrap();
        assert!(cancel.is_cancelled());
        cancel.cancelled().await;
    }
}
