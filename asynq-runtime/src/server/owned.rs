//! A spawned task that ends with its owner.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::task::{JoinError, JoinHandle};

/// Aborts its task when it is dropped; may be awaited like the handle itself.
#[derive(Debug)]
pub(crate) struct Owned<T>(JoinHandle<T>);

impl<T> Owned<T> {
    /// Takes a task in hand.
    pub(crate) fn new(handle: JoinHandle<T>) -> Self {
        Self(handle)
    }
}

impl<T> Future for Owned<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_task_ends_with_its_owner_and_answers_before_that() {
        assert_eq!(Owned::new(tokio::spawn(async { 7 })).await.unwrap(), 7);
        let (sender, receiver) = oneshot::channel::<()>();
        drop(Owned::new(tokio::spawn(async move {
            std::future::pending::<()>().await;
            drop(sender);
        })));
        assert!(receiver.await.is_err());
    }
}
