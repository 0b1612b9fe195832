//! Catches the panics of jobs with their place and message, and leaves the program's panic hook in force.
//!
//! A caught panic carries only its value; only the panic hook knows where it happened. So the hook of this module is put in
//! front of the existing one: it notes the place for its thread, and the backtrace where `RUST_BACKTRACE` asks for one, and
//! calls the existing one.

use std::{
    any::Any,
    backtrace::{Backtrace, BacktraceStatus},
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook},
    pin::Pin,
    sync::Once,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;

use crate::task::cut;

/// Most bytes of a backtrace that are kept; the frames nearest to the panic come first.
const LONGEST_BACKTRACE: usize = 4096;

thread_local! {
    /// Where this thread last panicked.
    static LAST: RefCell<Option<Noted>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// The facts of a panic that the hook knows.
struct Noted {
    /// `FILE:LINE`.
    place: Option<String>,
    backtrace: Backtrace,
    /// The panic's value as text, by which a panic that was resumed, and called no hook, is told from it.
    value: String,
}

/// Notes from now on where panics happen. A hook that is set later and does not call this one hides the places.
pub(crate) fn note_places() {
    HOOK.call_once(|| {
        let next = take_hook();
        set_hook(Box::new(move |info| {
            let place = info.location().map(|at| format!("{}:{}", at.file(), at.line()));
            let noted = Noted { place, backtrace: Backtrace::capture(), value: shown(info.payload()).to_owned() };
            // A thread that is ending may have dropped its thread-local storage already.
            let _ = LAST.try_with(|last| last.replace(Some(noted)));
            next(info);
        }));
    });
}

/// Runs `f` and returns a panic in it as a text in asynq's words: `panic [FILE:LINE]: VALUE`. Where the environment asks for
/// a backtrace, its newest frames follow on lines of their own.
///
/// # Errors
///
/// `f` panicked.
// Not inlined: a backtrace is cut at this frame where the compiler has inlined `catch_unwind`.
#[inline(never)]
pub fn catch<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(text)
}

/// Runs `f` and returns a panic in it with its place, for [`catch`] on another thread, which resumes the panic.
///
/// # Errors
///
/// `f` panicked.
// Not inlined, as `catch`.
#[inline(never)]
pub(crate) fn catch_with_place<T>(f: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|panic| Box::new(RenderedPanic(text(panic))) as Box<dyn Any + Send>)
}

/// A future that ends with the text of a panic when polling it panics; a panic when it is dropped is logged.
pub(crate) struct Caught<'a, T>(Option<BoxFuture<'a, T>>);

impl<'a, T> Caught<'a, T> {
    pub(crate) fn new(future: impl Future<Output = T> + Send + 'a) -> Self {
        Self(Some(Box::pin(future)))
    }
}

impl<'a, T> From<BoxFuture<'a, T>> for Caught<'a, T> {
    fn from(future: BoxFuture<'a, T>) -> Self {
        Self(Some(future))
    }
}

impl<T> Future for Caught<'_, T> {
    type Output = Result<T, String>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = &mut self.0 else { return Poll::Pending };
        match catch(|| future.as_mut().poll(cx)) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

impl<T> Drop for Caught<'_, T> {
    fn drop(&mut self) {
        let future = self.0.take();
        if let Err(panic) = catch(|| drop(future)) {
            log!(error, "code of the program panicked while it was dropped: {panic}");
        }
    }
}

/// A panic whose text is made already.
struct RenderedPanic(String);

fn text(panic: Box<dyn Any + Send>) -> String {
    let panic = match panic.downcast::<RenderedPanic>() {
        Ok(rendered) => return rendered.0,
        Err(panic) => panic,
    };
    let value = shown(&*panic);
    let noted = LAST.try_with(RefCell::take).ok().flatten().filter(|noted| noted.value == value);
    let (place, backtrace) = noted.map_or((None, None), |noted| (noted.place, Some(noted.backtrace)));
    let mut text = match place {
        Some(place) => format!("panic [{place}]: {value}"),
        None => format!("panic: {value}"),
    };
    if let Some(backtrace) = backtrace.filter(|backtrace| backtrace.status() == BacktraceStatus::Captured) {
        text.push('\n');
        text.push_str(cut(frames(&backtrace.to_string()), LONGEST_BACKTRACE).trim_end());
    }
    // The value's own drop may panic too; such a panic has nothing to add.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(panic)));
    text
}

/// Returns the value of a panic as text.
pub(crate) fn shown(value: &(dyn Any + Send)) -> &str {
    match value.downcast_ref::<&str>() {
        Some(text) => text,
        None => value.downcast_ref::<String>().map_or("a value that is not text", String::as_str),
    }
}

/// Returns the frames of the program in a backtrace that the standard library printed: without the frames of the panic itself
/// above them, and without those of the job's callers below. A backtrace without names stays as it is.
fn frames(backtrace: &str) -> &str {
    const OF_THE_PANIC: [&str; 4] =
        ["core::panicking::", "std::panicking::", "rust_begin_unwind", "__rust_end_short_backtrace"];
    // A release build may have inlined the frames of the standard library.
    const OF_THE_CATCH: [&str; 4] =
        ["std::panicking::catch_unwind", "std::panicking::try", "__rust_try", concat!(module_path!(), "::catch")];
    let (mut begin, mut end, mut at) = (0, backtrace.len(), 0);
    let mut is_above = false;
    for line in backtrace.split_inclusive('\n') {
        let is = |names: &[&str]| names.iter().any(|name| line.contains(name));
        // The place of a frame is on a line of its own, below the name.
        let is_name = !line.trim_start().starts_with("at ");
        if is_name && is(&OF_THE_CATCH) {
            end = at;
            break;
        }
        is_above = if is_name { is(&OF_THE_PANIC) } else { is_above };
        at += line.len();
        if is_above {
            begin = at;
        }
    }
    &backtrace[begin..end]
}

#[cfg(test)]
mod tests {
    use std::panic::resume_unwind;

    use super::*;

    /// Returns a text without the backtrace that the environment may ask for.
    fn first_line(text: &str) -> &str {
        text.lines().next().unwrap_or_default()
    }

    #[test]
    fn the_frames_of_a_backtrace_are_those_of_the_program() {
        let whole = "   0: asynq_runtime::panics::note_places::{{closure}}::{{closure}}
             at ./src/panics.rs:33:20
   1: std::panicking::rust_panic_with_hook
             at /rustc/1.95/library/std/src/panicking.rs:841:13
   2: core::panicking::panic_fmt
             at /rustc/1.95/library/core/src/panicking.rs:75:14
   3: shop::charge::{{closure}}
             at ./src/shop.rs:7:5
   4: <shop::charge as asynq_runtime::job::Job>::run::{{closure}}
   5: std::panicking::catch_unwind::do_call
             at /rustc/1.95/library/std/src/panicking.rs:589:40
   6: tokio::runtime::task::core::Core<T,S>::poll
";
        let own = "   3: shop::charge::{{closure}}
             at ./src/shop.rs:7:5
   4: <shop::charge as asynq_runtime::job::Job>::run::{{closure}}
";
        assert_eq!(frames(whole), own);
        let optimised = "   0: asynq_runtime::panics::note_places::{{closure}}::{{closure}}
   1: std::panicking::panic_with_hook
   2: std::sys::backtrace::__rust_end_short_backtrace::<std::panicking::panic_handler::{closure#0}, !>
   3: core::panicking::panic_fmt
   4: shop::charge
   5: asynq_runtime::panics::catch
   6: tokio::runtime::task::core::Core<T,S>::poll
";
        assert_eq!(frames(optimised), "   4: shop::charge\n");
        let without_catch = "   0: core::panicking::panic_fmt
   1: shop::charge
   2: std::sys::backtrace::__rust_begin_short_backtrace::<shop::main, ()>
";
        assert_eq!(frames(without_catch), without_catch.split_once('\n').unwrap().1);
        let nameless = "   0: <unknown>\n   1: <unknown>\n";
        assert_eq!(frames(nameless), nameless);
        assert_eq!(frames(""), "");
    }

    #[test]
    fn a_panic_comes_back_with_its_place_and_message() {
        note_places();
        let line = line!() + 1;
        let text = catch(|| panic!("kaboom {}", 7)).unwrap_err();
        assert_eq!(first_line(&text), format!("panic [{}:{line}]: kaboom 7", file!()));
        assert_eq!(catch(|| 3), Ok(3));
    }

    #[test]
    fn a_panic_of_another_thread_keeps_its_own_place() {
        note_places();
        let line = line!() + 1;
        let thread = std::thread::spawn(|| catch_with_place(|| panic!("over there")));
        let panic = thread.join().unwrap().unwrap_err();
        let text = catch(|| resume_unwind(panic)).unwrap_err();
        assert_eq!(first_line(&text), format!("panic [{}:{line}]: over there", file!()));
    }

    /// A job resumes the panic of a tokio task in this way, by its `JoinError`.
    #[test]
    fn a_panic_that_is_resumed_does_not_get_the_place_of_another() {
        note_places();
        assert!(catch_unwind(|| panic!("caught elsewhere")).is_err());
        let text = catch(|| resume_unwind(Box::new("of a task"))).unwrap_err();
        assert_eq!(text, "panic: of a task");
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
