//! `#[job]` inside of `macro_rules!`, with its parts passed as arguments.

use asynq_runtime::prelude::*;

use crate::run;

macro_rules! whole_job {
    ($(#[$attr:meta])* $name:ident, $queue:literal, $retry:expr, $every:literal, $argument:ident: $ty:ty, $body:expr) => {
        $(#[$attr])*
        #[job(queue = $queue, retry = $retry, timeout = $every)]
        async fn $name($argument: $ty, fixed: u8) -> JobResult<u8> {
            let _ = &$argument;
            Ok($body + fixed)
        }
    };
}

whole_job!(
    /// With a text.
    with_text, "low", 3, "90s", text: String, text.len() as u8
);
whole_job!(with_number, "high", 0, "1m", fixed_too: u8, fixed_too);

#[tokio::test]
async fn options_names_and_types_may_come_from_a_macro() {
    assert_eq!(run(with_text { text: "abc".into(), fixed: 1 }).await.expect("runs"), 4);
    assert_eq!(run(with_number { fixed_too: 2, fixed: 1 }).await.expect("runs"), 3);
    assert_eq!((with_text::OPTIONS.queue, with_number::OPTIONS.queue), ("low", "high"));
    assert_eq!((with_text::OPTIONS.retry, with_number::OPTIONS.retry), (3, 0));
    let _ = with_text::job("a string is taken as anything that becomes one", 1);
}

macro_rules! borrowed {
    ($name:ident($($argument:ident: $ty:ty),*) -> $out:ty, $policy:path) => {
        #[job(on_error = $policy)]
        fn $name($($argument: $ty),*) -> $out {
            $(let _ = $argument;)*
            Err(std::io::Error::other("always").into())
        }
    };
}

fn never_again<E>(_: &E) -> Policy {
    Policy::SkipRetry
}

borrowed!(borrowed_by_macro(ctx: &JobContext, text: &str, numbers: &[u8]) -> JobResult, never_again);

#[tokio::test]
async fn a_type_fragment_is_understood_like_the_type_itself() {
    let error = run(borrowed_by_macro { text: "abc".into(), numbers: vec![1] }).await.expect_err("always");
    assert_eq!(error.policy(), Policy::SkipRetry);
}

/// A job of an earlier version.
#[derive(serde::Deserialize)]
struct Address(String);

macro_rules! evolved {
    ($name:ident, $old:literal, $from:path) => {
        #[job(alias = [$old, "letter"], upgrade = [$from])]
        async fn $name(to: String, copies: u8) -> JobResult<u8> {
            Ok(copies + to.len() as u8)
        }
    };
}

fn from_address(address: Address) -> evolved_by_macro {
    evolved_by_macro { to: address.0, copies: 1 }
}

evolved!(evolved_by_macro, "post", from_address);

#[test]
fn the_elements_of_a_list_may_come_from_a_macro() {
    assert_eq!(evolved_by_macro::ALIASES, ["post", "letter"]);
    assert_eq!(evolved_by_macro::UPGRADES.len(), 1);
}

macro_rules! named_twins {
    ($($module:ident = $name:literal),*) => {
        $(
            mod $module {
                use asynq_runtime::prelude::*;

                #[job(name = $name)]
                pub(super) async fn twin(value: u8) -> JobResult<u8> {
                    Ok(value)
                }
            }
        )*
    };
}

named_twins!(left = "twin:left", right = "twin:right");

#[tokio::test]
async fn one_macro_call_may_make_several_jobs() {
    assert_eq!(run(left::twin { value: 1 }).await.expect("runs"), 1);
    assert_eq!(run(right::twin { value: 2 }).await.expect("runs"), 2);
    let registry = Registry::linked().expect("two names");
    assert!(registry.get("twin:left").is_some() && registry.get("twin:right").is_some());
}
