//! Compares the compiler's messages for a wrong `#[job]` with golden files, on one Rust version: every version words and
//! places its own part of a message differently.
//!
//! The folder `fail` has the mistakes that the compiler finds, such as wrong types: one per file, named by the mistake.
//! `TRYBUILD=overwrite cargo test -p asynq-ui-tests` writes the `.stderr` files anew; read the difference. The mistakes
//! that the macros find are in `asynq-macros/tests/fail`, and the test of that package compares their messages; here the
//! compiler confirms them.

mod macro_cases;
mod periodic;
// The module alone: trybuild would compile Redis's client and all else that the package of the tools depends on.
#[allow(unreachable_pub, reason = "it is a module of a library, too")]
#[path = "../support/src/skip.rs"]
mod skip;
mod user_programs;

use std::{
    env,
    process::{Command, Output},
};

use asynq_ui_tests::{no_prelude_at_all, private_types, public_library, strict_lints};
use skip::note_skip;

/// The version that CONTRIBUTING.md names.
const PINNED: &str = "1.95";

/// A variable of the environment, and the flags that trybuild gives to the compiler for a case.
///
/// trybuild builds the dependencies without the last flag and the cases with it. Another flag means another build of the
/// dependencies, so they would be built twice. This variable takes precedence over trybuild's own flags in both builds.
const FLAGS: (&str, [&str; 6]) =
    ("CARGO_ENCODED_RUSTFLAGS", ["--cfg", "trybuild", "--verbose", "-A", "dead_code", "--diagnostic-width=140"]);

/// The variable of the environment that makes this program run trybuild; its value is `together` or `each`.
const PROGRAMS: &str = "ASYNQ_UI_PROGRAMS";

#[test]
fn the_compiler_prints_the_golden_files_and_nothing_else() {
    if !is_pinned() {
        crate::skip!("{}: the compiler is not of the version that CONTRIBUTING.md names", env::consts::OS);
    }
    let together = compile("together");
    if !together.status.success() {
        // One program per case takes longer, and shows which case differs.
        let each = compile("each");
        let shown = if each.status.success() { together } else { each };
        let text = String::from_utf8_lossy(&shown.stdout) + String::from_utf8_lossy(&shown.stderr);
        let differences: Vec<_> = text.lines().filter(|line| !line.ends_with("ok")).collect();
        panic!("the compiler prints something else\n{}", differences.join("\n"));
    }
}

/// Runs trybuild.
#[test]
#[ignore = "not a test: `the_compiler_prints_the_golden_files_and_nothing_else` starts it as a process of its own"]
fn trybuild_programs() {
    let programs = env::var_os(PROGRAMS).expect("the parent says how");
    let cases = trybuild::TestCases::new();
    cases.compile_fail("fail/*.rs");
    macro_cases::programs(programs == "each").into_iter().for_each(|program| cases.compile_fail(program));
}

/// Runs trybuild in a process of its own, because only a new process has another environment.
fn compile(programs: &str) -> Output {
    let mut child = Command::new(env::current_exe().expect("the path of this program"));
    child.args(["--exact", "trybuild_programs", "--include-ignored", "--nocapture"]);
    child.args(env::args().filter(|argument| argument.starts_with("trybuild=")));
    child.env(PROGRAMS, programs).env(FLAGS.0, FLAGS.1.join("\x1f"));
    // Debug information would be most of the dependencies' size, and nothing reads it.
    child.env("CARGO_PROFILE_DEV_DEBUG", "0");
    child.output().expect("start this program")
}

#[test]
fn programs_that_compile_run() {
    no_prelude_at_all::run();
    private_types::run();
    public_library::run();
    strict_lints::run();
}

fn is_pinned() -> bool {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().expect("run `rustc --version`");
    output.stdout.starts_with(format!("rustc {PINNED}.").as_bytes())
}
