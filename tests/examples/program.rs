//! Runs an example as a program: in a folder of its own, with its output read line by line.

use std::{
    collections::VecDeque,
    ffi::OsStr,
    io::{BufRead as _, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Condvar, Mutex, OnceLock},
    thread,
    time::Duration,
};

use asynq_tests::{PATIENCE, eventually_blocking};

/// How long a whole program may run: a run has many steps, and a test awaits only its end.
const WHOLE: Duration = PATIENCE.saturating_mul(3);

/// A running example, killed when dropped.
pub(crate) struct Program {
    child: Child,
    output: Output,
}

impl Program {
    /// Starts the example `name` in `folder`.
    pub(crate) fn start(name: &str, folder: &Path, args: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(executable(name));
        command.args(args).current_dir(folder).env_remove("ASYNQ_URL").env_remove("SMTP_URL").env_remove("RUST_LOG");
        command.envs(environment.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        let output = Output::default();
        output.follow(child.stdout.take().expect("stdout is piped"));
        output.follow(child.stderr.take().expect("stderr is piped"));
        Self { child, output }
    }

    /// Waits for a line that contains `text` and returns it.
    pub(crate) fn line(&self, text: &str) -> String {
        self.output.wait_for(text)
    }

    /// Sends a signal, such as `INT`.
    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").arg(format!("-{signal}")).arg(self.child.id().to_string()).status();
        assert!(sent.expect("kill runs").success(), "{signal} was not sent");
    }

    /// Waits for the end; returns the exit status and the whole output.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        let output = self.output.all();
        let end = || self.child.try_wait().expect("the program can be waited for");
        (eventually_blocking("the program ends, as its output did", end), output)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs an example, asserts its success and returns its output.
pub(crate) fn run(name: &str, folder: &Path, args: &[&str], environment: &[(&str, &str)]) -> String {
    let (status, output) = Program::start(name, folder, args, environment).end();
    assert!(status.success(), "{name} {args:?} ended with {status}; it printed:\n{output}");
    output
}

/// The lines of a program, from both its streams.
#[derive(Clone, Default)]
struct Output(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    lines: VecDeque<String>,
    open: usize,
}

impl Output {
    fn follow(&self, stream: impl Read + Send + 'static) {
        self.0.0.lock().unwrap().open += 1;
        let output = self.clone();
        thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                output.0.0.lock().unwrap().lines.push_back(line);
                output.0.1.notify_all();
            }
            output.0.0.lock().unwrap().open -= 1;
            output.0.1.notify_all();
        });
    }

    fn wait_for(&self, text: &str) -> String {
        let (state, changed) = &*self.0;
        let found = |state: &State| state.lines.iter().find(|line| line.contains(text)).cloned();
        let (state, _) = changed
            .wait_timeout_while(state.lock().unwrap(), PATIENCE, |state| found(state).is_none() && state.open > 0)
            .unwrap();
        found(&state).unwrap_or_else(|| panic!("no line with {text:?} in:\n{}", joined(&state)))
    }

    /// All lines, once both streams have ended.
    fn all(&self) -> String {
        let (state, changed) = &*self.0;
        let (state, late) = changed.wait_timeout_while(state.lock().unwrap(), WHOLE, |state| state.open > 0).unwrap();
        assert!(!late.timed_out(), "the program does not end; it printed:\n{}", joined(&state));
        joined(&state)
    }
}

fn joined(state: &State) -> String {
    state.lines.iter().fold(String::new(), |text, line| text + line + "\n")
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
