//! An OS thread with a current-thread runtime, for tasks that jobs must not hold up.
//!
//! A server's heartbeat runtime and the connections of its broker share one thread: an answer of Redis then reaches the
//! waiting task without waking another thread.

use std::{
    io,
    sync::{Arc, mpsc},
    thread,
};

use tokio::runtime;
use tokio_util::sync::CancellationToken;

/// The thread. It ends, with every task that is left on it, when the last clone is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Thread(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    runtime: runtime::Handle,
    end: CancellationToken,
}

impl Thread {
    /// Starts a thread of this name.
    pub(crate) fn start(name: &'static str) -> io::Result<Self> {
        Self::start_by(thread::Builder::new().name(name.to_owned()))
    }

    fn start_by(thread: thread::Builder) -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().thread_name("asynq-blocking").build()?;
        let handle = runtime.handle().clone();
        let end = CancellationToken::new();
        let ended = end.clone();
        // A runtime inside the closure would be dropped here where the system refuses the thread: in an async context that panics.
        let (sender, receiver) = mpsc::channel::<runtime::Runtime>();
        let spawned = thread.spawn(move || {
            let Ok(runtime) = receiver.recv() else { return };
            runtime.block_on(ended.cancelled());
            // A plain drop would wait for a name look-up that hangs.
            runtime.shutdown_background();
        });
        if let Err(error) = spawned {
            runtime.shutdown_background();
            return Err(error);
        }
        // The thread waits for it.
        let _ = sender.send(runtime);
        Ok(Self(Arc::new(Inner { runtime: handle, end })))
    }

    /// Returns a handle that runs tasks on the thread and does not keep it alive.
    pub(crate) fn tasks(&self) -> Tasks {
        Tasks { runtime: self.0.runtime.clone(), end: CancellationToken::new() }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

/// Tasks of one owner, most of them on a thread, which end together. Clones are the same tasks.
#[derive(Debug, Clone)]
pub(crate) struct Tasks {
    runtime: runtime::Handle,
    end: CancellationToken,
}

impl Tasks {
    /// Runs `task` until it ends, [`end`](Self::end) is called, or the thread ends. After that no task runs.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let end = self.end.clone();
        self.runtime.spawn(async move {
            tokio::select! {
                biased;
                () = end.cancelled() => {}
                () = task => {}
            }
        });
    }

    /// Returns a handle for tasks of the same owner on another runtime; they end together with the others.
    pub(crate) fn on(&self, runtime: runtime::Handle) -> Self {
        Self { runtime, end: self.end.clone() }
    }

    /// Returns the runtime of these tasks, for tasks that their owner ends by itself.
    pub(crate) fn runtime(&self) -> &runtime::Handle {
        &self.runtime
    }

    /// Ends all of them.
    pub(crate) fn end(&self) {
        self.end.cancel();
    }
}

/// Returns the size of a stack that no machine has room for.
#[cfg(test)]
pub(crate) fn stack_without_room() -> usize {
    // Three of the four GiB that a process of 32 bits can address.
    usize::try_from(1_u64 << 60).unwrap_or(3 << 30)
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    /// Spawns a task that goes on until it is ended, and returns a receiver that learns of its end.
    fn endless(tasks: &Tasks) -> oneshot::Receiver<()> {
        let (sender, ended) = oneshot::channel::<()>();
        tasks.spawn(async move {
            std::future::pending::<()>().await;
            drop(sender);
        });
        ended
    }

    #[tokio::test]
    async fn a_thread_that_the_system_refuses_is_an_error_in_an_async_context_too() {
        assert!(Thread::start_by(thread::Builder::new().stack_size(stack_without_room())).is_err());
    }

    #[tokio::test]
    async fn tasks_of_one_owner_end_together_and_those_of_another_go_on() {
        let thread = Thread::start("t").unwrap();
        let (one, other) = (thread.tasks(), thread.tasks());
        let (ended, mut goes_on) = (endless(&one), endless(&other));
        one.clone().end();
        assert!(ended.await.is_err());
        assert!(endless(&one).await.is_err(), "nothing is begun any more");
        assert!(goes_on.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Empty));
        drop((thread.clone(), thread));
        assert!(goes_on.await.is_err(), "the thread has ended");
    }

    #[tokio::test]
    async fn tasks_on_another_runtime_end_with_their_owners() {
        let thread = Thread::start("t").unwrap();
        let tasks = thread.tasks();
        let other_runtime = tasks.on(runtime::Handle::current());
        let (sender, thread_id) = oneshot::channel();
        other_runtime.spawn(async move { sender.send(std::thread::current().id()).unwrap() });
        assert_eq!(thread_id.await.unwrap(), std::thread::current().id());
        let ended = endless(&other_runtime);
        tasks.end();
        assert!(ended.await.is_err());
    }
}
