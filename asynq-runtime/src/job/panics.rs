//! Catches the panics of jobs with their place and message, and leaves everybody's panic hook in force.
//!
//! A caught panic carries only its value; where it happened is known to the panic hook alone. So ours is put in front of
//! the one that is there, notes the place for its thread, and goes on to it.

use std::{
    any::Any,
    cell::RefCell,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook},
    pin::Pin,
    sync::Once,
    task::{Context, Poll},
};

use super::BoxFuture;

thread_local! {
    /// Where this thread last panicked, `FILE:LINE`.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Notes from now on where panics happen. A hook that is set later and does not go on to this one hides the places.
pub(crate) fn note_places() {
    HOOK.call_once(|| {
        let next = take_hook();
        set_hook(Box::new(move |info| {
            let place = info.location().map(|at| format!("{}:{}", at.file(), at.line()));
            // A thread that is ending has no place to note it.
            let _ = PLACE.try_with(|last| last.replace(place));
            next(info);
        }));
    });
}

/// Runs `f`; a panic in it comes back as a text in asynq's words: `panic [FILE:LINE]: VALUE`.
///
/// # Errors
///
/// It panicked.
pub(crate) fn catch<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(text)
}

/// Runs `f`; a panic in it goes on, but with its place, so that [`catch`] on another thread can tell it.
pub(super) fn with_place<T>(f: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(value) => value,
        Err(panic) => resume_unwind(Box::new(Placed(text(panic)))),
    }
}

/// A future whose panics, when it is polled, end it with their text; one when it is dropped is told in the log.
pub(crate) struct Caught<T>(Option<BoxFuture<'static, T>>);

impl<T> Caught<T> {
    pub(crate) fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self(Some(Box::pin(future)))
    }
}

impl<T> Future for Caught<T> {
    type Output = Result<T, String>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = &mut self.0 else { return Poll::Pending };
        match catch(|| future.as_mut().poll(cx)) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

impl<T> Drop for Caught<T> {
    fn drop(&mut self) {
        let future = self.0.take();
        if let Err(panic) = catch(|| drop(future)) {
            tracing::error!("code of the program panicked while it was dropped: {panic}");
        }
    }
}

/// A panic whose text is made already.
struct Placed(String);

fn text(panic: Box<dyn Any + Send>) -> String {
    let panic = match panic.downcast::<Placed>() {
        Ok(placed) => return placed.0,
        Err(panic) => panic,
    };
    let value = if let Some(text) = panic.downcast_ref::<&str>() {
        text
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.as_str()
    } else {
        "a value that is not text"
    };
    let text = match PLACE.try_with(RefCell::take).ok().flatten() {
        Some(place) => format!("panic [{place}]: {value}"),
        None => format!("panic: {value}"),
    };
    // The value's own drop may panic too; that one has nothing to add.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(panic)));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_comes_back_with_its_place_and_message() {
        note_places();
        let line = line!() + 1;
        let text = catch(|| panic!("kaboom {}", 7)).unwrap_err();
        assert_eq!(text, format!("panic [{}:{line}]: kaboom 7", file!()));
        assert_eq!(catch(|| 3), Ok(3));
    }

    #[test]
    fn a_panic_of_another_thread_keeps_its_own_place() {
        note_places();
        let line = line!() + 1;
        let thread = std::thread::spawn(|| with_place(|| panic!("over there")));
        let panic = thread.join().unwrap_err();
        let text = catch(|| resume_unwind(panic)).unwrap_err();
        assert_eq!(text, format!("panic [{}:{line}]: over there", file!()));
    }

    #[test]
    fn a_panic_of_a_drop_stays_inside() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("while dropped");
            }
        }
        let bomb = Bomb;
        drop(Caught::new(async move {
            let _bomb = bomb;
            std::future::pending::<()>().await;
        }));
    }
}
