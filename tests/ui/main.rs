//! Compares the compiler's messages with the files beside the cases.

use std::process::Command;

/// The version that `CONTRIBUTING.md` names.
const PINNED: &str = "1.95";

#[test]
fn every_mistake_is_told_as_it_is_written_down() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().expect("run `rustc --version`");
    let version = String::from_utf8_lossy(&output.stdout);
    if !version.starts_with(&format!("rustc {PINNED}.")) {
        println!("skipped: the messages are written down for Rust {PINNED}, this is {}", version.trim());
        return;
    }
    let cases = trybuild::TestCases::new();
    cases.compile_fail("fail/*.rs");
}
