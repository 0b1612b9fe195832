//! Runs an example as a program, in a folder of its own.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use crate::process::{Program, program};

/// Starts the example `name` in `folder`.
pub(crate) fn start(name: &str, folder: &Path, args: &[&str], environment: &[(&str, &str)]) -> Program {
    let mut command = program(executable(name));
    command.args(args).current_dir(folder).env_remove("SMTP_URL").envs(environment.iter().copied());
    Program::start(command)
}

/// Runs an example, asserts its success and returns its output.
pub(crate) fn run(name: &str, folder: &Path, args: &[&str], environment: &[(&str, &str)]) -> String {
    let (status, output) = start(name, folder, args, environment).end();
    assert!(status.success(), "{name} {args:?} ended with {status}; it printed:\n{output}");
    output
}

/// The compiled example. `cargo test` builds examples only if it is not told which tests to run, so this builds them once more:
/// a moment where all is fresh.
fn executable(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        // target/debug/deps/programs-0123456789abcdef
        let this = std::env::current_exe().expect("this test has a path");
        let profile = this.ancestors().nth(2).expect("it is in target/<profile>/deps");
        let mut cargo = Command::new(env!("CARGO"));
        // One of the examples is a package of its own, because of its dependencies.
        cargo.args(["build", "--quiet", "--workspace", "--examples", "--bin", "tracing"]);
        // With the profile of the tests, which have built the dependencies of the examples, too.
        let is_release = profile.file_name() == Some(OsStr::new("release"));
        cargo.args(["--profile", if is_release { "release" } else { "test" }]);
        cargo.arg("--target-dir").arg(profile.parent().expect("a profile is in a target folder"));
        cargo.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        // Some build scripts (ring's) watch variables that cargo sets for a test; with these set, cargo runs the scripts again.
        let prefixes = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"];
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| prefixes.iter().any(|prefix| name.starts_with(prefix))) {
                cargo.env_remove(name);
            }
        }
        assert!(cargo.status().expect("cargo runs").success(), "the examples do not build");
        profile.to_owned()
    });
    if name == "tracing" { folder.join(name) } else { folder.join("examples").join(name) }
}
