//! `jobs --check` says which values a default would lose.

use asynq_runtime::{
    Registry,
    job::{JobsLock, LockFinding, Verdict},
    prelude::*,
};
use serde::{Deserialize, Serialize};

/// Defines a module with one version of a job and of the notes among its arguments.
macro_rules! version {
    ($version:ident $codec:literal { $($fields:tt)* } ($($argument:ident: $type:ty),*)) => {
        mod $version {
            use super::*;

            #[derive(Serialize, Deserialize)]
            pub(crate) struct Note { $($fields)* }

            #[job(name = "lock:noted", codec = $codec)]
            pub(super) async fn noted($($argument: $type),*) {
                let _ = ($($argument,)*);
            }
        }
    };
}

/// Returns the finding about the tasks of the program that has the job `B` before one that has `A`.
fn deployed<B: Job, A: Job>() -> LockFinding {
    let lock = JobsLock::default().with(&Registry::only::<B>().unwrap());
    lock.check(&Registry::only::<A>().unwrap()).swap_remove(0)
}

/// The job has a `text` of its own, which is not that of a note.
#[test]
fn a_default_alone_is_not_advised_where_a_field_of_the_same_struct_is_gone() {
    version!(before "postcard" { order: u64, text: String } (notes: Vec<Note>, text: String));
    version!(after "postcard" { order: u64, lines: Vec<String> } (notes: Vec<Note>, text: String));
    version!(before_json "json" { order: u64, text: String } (notes: Vec<Note>, text: String));
    version!(after_json "json" { order: u64, lines: Vec<String> } (notes: Vec<Note>, text: String));
    // The arguments are judged alike.
    version!(argument "postcard" { order: u64 } (note: Note, text: String));
    version!(arguments "postcard" { order: u64 } (note: Note, lines: Vec<String>));
    for found in [
        deployed::<before::noted, after::noted>(),
        deployed::<before_json::noted, after_json::noted>(),
        deployed::<argument::noted, arguments::noted>(),
    ] {
        let reason = "`lines` is new and `text` gone; with a default such tasks run without the values that are gone";
        assert_eq!(found.verdict, Verdict::NeedsUpgrade(reason.into()));
        let line = found.to_string();
        let advice = "write #[job(upgrade = from_v1)] on `lock:noted` with a function from these arguments, beside any other \
                      upgrade; that of another job does not hold here";
        assert!(line.starts_with("UNSAFE") && line.ends_with(advice), "{line}");
    }
}

#[test]
fn a_default_is_advised_where_a_field_is_gone_elsewhere() {
    version!(before "postcard" { order: u64 } (notes: Vec<Note>, copies: u8));
    version!(after "postcard" { order: u64, lines: Vec<String> } (notes: Vec<Note>, to: Option<String>));
    assert_eq!(deployed::<before::noted, after::noted>().verdict, Verdict::NeedsDefault("lines".into()));
}
