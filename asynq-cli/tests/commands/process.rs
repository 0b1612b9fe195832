//! The real program: exit codes, pipes, the environment, signals.

use std::{
    io::{Read as _, Write as _},
    process::{Child, Command, Output, Stdio},
};

use asynq_runtime::{Client, broker::Broker};
use asynq_test_support::process::{program, signal};
use asynq_tests::{SqliteStore, Store as _, default_queue, eventually, skip, soon, task};

const BINARY: &str = env!("CARGO_BIN_EXE_asynq");

pub(crate) fn asynq(args: &[&str]) -> Command {
    let mut command = program(BINARY);
    for name in ["URI", "CLUSTER_ADDRS", "NO_COLOR"] {
        command.env_remove(name);
    }
    command.args(args);
    command
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
pub(crate) fn ends(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}{}", text(&output.stdout), text(&output.stderr));
}

#[tokio::test]
async fn exit_codes_are_those_of_the_help() {
    let store = SqliteStore::start().await;
    let url = store.url();
    let run = |args: &[&str]| asynq(args).env("ASYNQ_URL", &url).output().unwrap();
    ends(&run(&["stats"]), 2);
    ends(&run(&["task", "enqueue", "-t", "mail", "-l", "{}", "--id", "one"]), 0);
    let stats = run(&["stats"]);
    ends(&stats, 0);
    assert!(!text(&stats.stdout).contains('\u{1b}'), "colours are off when piped");
    ends(&run(&["task", "inspect", "-q", "default", "nobody"]), 1);
    ends(&run(&["task", "delete", "-q", "default", "one"]), 3);
    ends(&run(&["task", "delete", "-q", "default", "one", "--yes"]), 0);
    ends(&run(&["no-such-command"]), 2);
    ends(&run(&["--help"]), 0);
    let version = run(&["--version"]);
    ends(&version, 0);
    assert_eq!(text(&version.stdout), format!("asynq version {}\n", env!("CARGO_PKG_VERSION")));
}

/// Stands for a limit of threads, as that of a container: there is room for one stack, and for no second one.
#[cfg(target_os = "linux")]
#[test]
fn a_thread_that_the_system_refuses_is_one_clear_error() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -v 1700000 && exec timeout 60 \"$0\" version", BINARY]);
    let output = shell.env("RUST_MIN_STACK", (1 << 30).to_string()).output().unwrap();
    ends(&output, 1);
    let line = text(&output.stderr);
    assert!(line.starts_with("error: the runtime cannot start: OS can't spawn worker thread"), "{line}");
}

#[test]
fn variables_of_gos_tool_cause_a_warning() {
    for name in ["URI", "CLUSTER_ADDRS"] {
        let output = asynq(&["stats"]).env(name, "canary-host:6379").output().unwrap();
        ends(&output, 2);
        let message = text(&output.stderr);
        assert!(message.contains(&format!("{name} is a variable of Go's tool; write ASYNQ_URL=redis://")), "{message}");
        assert!(!message.contains("canary"), "{message}");
    }
    for name in ["ASYNQ_URL", "URI", "CLUSTER_ADDRS"] {
        for flags in [&["-n", "2"][..], &["--cluster"]] {
            let output = asynq(&[flags, &["stats"]].concat()).env(name, "redis://canary-host:6379").output().unwrap();
            ends(&output, 2);
            let message = text(&output.stderr);
            assert!(message.contains(&format!("name no host, which means this one, and {name} is set;")), "{message}");
            assert!(!message.contains("***"), "the example is whole: {message}");
            assert!(!message.contains("canary"), "{message}");
        }
    }
}

#[test]
fn a_misspelled_variable_causes_a_warning() {
    let output = asynq(&["--version"]).env("ASYNQ_REDIS_URI", "redis://canary-host:6379").output().unwrap();
    ends(&output, 0);
    let message = text(&output.stderr);
    assert!(message.contains("the environment variable `ASYNQ_REDIS_URI` is not known; `ASYNQ_URL` is"), "{message}");
    assert!(!message.contains("canary"), "{message}");
}

#[test]
fn a_reader_that_leaves_is_not_a_failure() {
    let mut child = asynq(&["completions", "zsh"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    ends(&output, 0);
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn a_program_without_a_terminal_starts_no_other_to_ask_for_its_size() {
    use std::{fs::Permissions, os::unix::fs::PermissionsExt as _};
    // `setsid --wait` is of util-linux as well.
    if let Some(reason) = no_terminal() {
        skip!("{reason}");
    }
    let folder = tempfile::tempdir().unwrap();
    let [tput, started] = ["tput", "started"].map(|name| folder.path().join(name));
    std::fs::write(&tput, format!("#!/bin/sh\n: > '{}'\n", started.display())).unwrap();
    std::fs::set_permissions(&tput, Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
    let program = asynq(&["version"]);
    // A session of its own has no terminal.
    let mut command = Command::new("setsid");
    command.arg("--wait").arg(program.get_program()).args(program.get_args());
    ends(&command.env("PATH", path).stdin(Stdio::null()).output().unwrap(), 0);
    assert!(!started.exists());
}

#[tokio::test]
async fn a_reader_that_leaves_stops_no_change() {
    const TASKS: usize = 100;
    let store = SqliteStore::start().await;
    let broker = store.connect(None).await;
    fill(&*broker, TASKS).await;
    let (url, ids) = (store.url(), (0..TASKS).map(|n| format!("t{n}")));
    // One that is missing: its error is reported all the same.
    let ids: Vec<String> = ids.chain(["missing".to_owned()]).collect();
    let ids: Vec<&str> = ids.iter().map(|id| &**id).collect();
    let run = |flags: &[&str], ids: &[&str]| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        asynq(&[&["--url", &url, "task"], flags, ids].concat()).stdout(writer).output().unwrap()
    };
    let archived = run(&["archive", "-q", "default"], &ids);
    ends(&archived, 1);
    assert!(text(&archived.stderr).contains("`missing` was not found"), "{}", text(&archived.stderr));
    let stats = broker.queue_stats(&default_queue()).await.unwrap();
    assert_eq!((stats.pending, stats.archived), (0, TASKS as u64));
    ends(&run(&["delete", "-q", "default", "--yes", "--json"], &ids[..TASKS]), 0);
    assert_eq!(broker.queue_stats(&default_queue()).await.unwrap().size, 0);
}

#[tokio::test]
async fn a_reader_that_leaves_ends_a_command_that_only_reads() {
    let store = SqliteStore::start().await;
    fill(&*store.connect(None).await, 1).await;
    let url = store.url();
    for command in ["inspect", "history"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = asynq(&["--url", &url, "queue", command, "default", "missing"]).stdout(writer).output().unwrap();
        ends(&output, 0);
        assert_eq!(text(&output.stderr), "", "the second queue is not asked for");
    }
}

#[tokio::test]
async fn a_reader_that_leaves_hides_no_finding() {
    let store = SqliteStore::start().await;
    // A task that no server runs.
    fill(&*store.connect(None).await, 1).await;
    for flags in [&["doctor"][..], &["doctor", "--json"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = asynq(&[&["--url", &store.url()], flags].concat()).stdout(writer).output().unwrap();
        ends(&output, 1);
    }
}

#[tokio::test]
async fn a_payload_may_be_piped() {
    let store = SqliteStore::start().await;
    let args = ["--url", &store.url(), "task", "enqueue", "-t", "mail", "--payload-file", "-", "--id", "x"];
    let mut child = asynq(&args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"\x00piped").unwrap();
    ends(&child.wait_with_output().unwrap(), 0);
    let client = Client::connect(&store.url()).await.unwrap();
    let stored = client.inspector().task("default", "x").await.unwrap();
    assert_eq!(stored.payload.as_ref(), b"\x00piped");
}

#[tokio::test]
async fn ctrl_c_leaves_a_consistent_state_and_reports_the_progress() {
    const TASKS: usize = 10_000;
    let store = SqliteStore::start().await;
    let broker = store.connect(None).await;
    let left = async || broker.queue_stats(&default_queue()).await.unwrap().pending as usize;
    let url = store.url();
    let args = ["--url", &url, "task", "delete-all", "-q", "default", "-s", "pending", "--yes", "--json"];
    let child = held_in_the_middle(&*broker, TASKS, asynq(&args)).await;
    signal("INT", child.id());
    signal("CONT", child.id());
    let output = child.wait_with_output().unwrap();
    ends(&output, 130);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let left = left().await;
    assert_eq!((&answer["stopped"], &answer["changed"]), (&true.into(), &(TASKS - left).into()));
    assert_eq!(answer["left"], left);
    assert!(
        text(&output.stderr).contains("stopped: ") && text(&output.stderr).contains("run the same command to continue")
    );
    ends(&asynq(&args).output().unwrap(), 0);
    assert_eq!(broker.queue_stats(&default_queue()).await.unwrap().pending, 0);
}

/// Runs a program that takes this many tasks out of `pending` of the default queue, and stops it in the middle, so that it cannot
/// finish before a signal arrives. If the test is held up and the program finishes, the attempt begins anew.
async fn held_in_the_middle(broker: &dyn Broker, tasks: usize, mut program: Command) -> Child {
    let left = async || broker.queue_stats(&default_queue()).await.unwrap().pending as usize;
    program.stdout(Stdio::piped()).stderr(Stdio::piped());
    eventually("it is held in the middle", async || {
        fill(broker, tasks).await;
        let mut child = program.spawn().unwrap();
        soon(async { while left().await == tasks {} }).await;
        signal("STOP", child.id());
        if left().await > 1_000 {
            return Some(child);
        }
        signal("CONT", child.id());
        child.wait().unwrap();
        None
    })
    .await
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_terminal_that_is_closed_leaves_no_queue_paused() {
    let store = SqliteStore::start().await;
    let broker = store.connect(None).await;
    let url = store.url();
    for (flag, code) in [("--ignore-signal=HUP", 0), ("--default-signal=HUP", 130)] {
        let remove = asynq(&["--url", &url, "queue", "rm", "default", "--force", "--yes"]);
        let mut program = Command::new("env");
        program.arg(flag).arg(remove.get_program()).args(remove.get_args()).stdin(Stdio::null());
        for (name, _) in remove.get_envs() {
            program.env_remove(name);
        }
        let child = held_in_the_middle(&*broker, 10_000, program).await;
        signal("HUP", child.id());
        signal("CONT", child.id());
        ends(&child.wait_with_output().unwrap(), code);
        let stats = broker.queue_stats(&default_queue()).await.unwrap();
        assert_eq!((stats.size > 0, stats.paused), (code == 130, false), "{flag}");
    }
}

/// Fills the default queue with this many tasks.
async fn fill(broker: &dyn Broker, tasks: usize) {
    for answer in broker.enqueue((0..tasks).map(|n| task(&format!("t{n}"))).collect()).await {
        answer.unwrap();
    }
}

/// Returns the reason to skip where `script` is not that of util-linux, which makes a terminal; macOS has one with other options.
fn no_terminal() -> Option<String> {
    let version = Command::new("script").arg("--version").output();
    let is_usable = version.is_ok_and(|output| text(&output.stdout).contains("util-linux"));
    let reason = "there is no `script` of util-linux here, which makes a terminal";
    (!is_usable).then(|| format!("{}: {reason}", std::env::consts::OS))
}

/// Returns the command that runs a line of a shell on a terminal of its own, of the kind `term`; standard output and error come together.
fn terminal(term: &str, line: &str) -> Command {
    let mut command = Command::new("script");
    // The same variables are removed as by `asynq`.
    for (name, _) in asynq(&[]).get_envs() {
        command.env_remove(name);
    }
    command.args(["--quiet", "--return", "--command", line, "/dev/null"]).env("TERM", term).env("SHELL", "/bin/sh");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Runs the program on a terminal of its own, of the kind `term`.
fn on_a_terminal(term: &str, args: &[&str]) -> Output {
    let quoted = |word: &str| format!("'{}'", word.replace('\'', r"'\''"));
    let line: Vec<String> = [BINARY].iter().chain(args).map(|word| quoted(word)).collect();
    terminal(term, &line.join(" ")).stdin(Stdio::null()).output().unwrap()
}

/// The program on a terminal of its own, which gets signals. Behind its output, the settings of the terminal are written.
struct OnTerminal {
    terminal: Child,
    pid: String,
    /// The output so far.
    seen: Vec<u8>,
}

impl OnTerminal {
    /// Starts it, and waits until it shows `expected`.
    fn start(args: &str, expected: &str) -> Self {
        // The inner shell becomes the program, so that its process id is the program's.
        let line = format!(
            "stty cols 80 rows 24; sh -c 'echo pid=$$; exec \"$0\" {args}' '{BINARY}'; code=$?; stty -a; exit $code"
        );
        let mut started = Self::of(terminal("xterm", &line).env("RUST_LOG", "trace"), expected);
        let text = text(&started.seen);
        started.pid = text.split_once("pid=").unwrap().1.split_whitespace().next().unwrap().to_owned();
        started
    }

    /// Starts the command of a [`terminal`], and waits until it shows `expected`. The program's process id is not known.
    fn of(command: &mut Command, expected: &str) -> Self {
        let mut started = Self { terminal: command.spawn().unwrap(), pid: String::new(), seen: Vec::new() };
        started.read_until(expected);
        started
    }

    #[track_caller]
    fn read_until(&mut self, expected: &str) {
        let out = self.terminal.stdout.as_mut().unwrap();
        while !text(&self.seen).contains(expected) {
            let mut bytes = [0; 4096];
            let read = out.read(&mut bytes).unwrap();
            assert!(read > 0, "no {expected:?}: {:?}", text(&self.seen));
            self.seen.extend_from_slice(&bytes[..read]);
        }
    }

    /// Sends it a signal, and returns its exit code with all of its output.
    fn signal(mut self, name: &str) -> (Option<i32>, String) {
        signal(name, &self.pid);
        self.terminal.stdout.as_mut().unwrap().read_to_end(&mut self.seen).unwrap();
        (self.terminal.wait().unwrap().code(), text(&self.seen))
    }
}

#[tokio::test]
async fn a_signal_ends_the_full_screen_view_and_restores_the_terminal() {
    if let Some(reason) = no_terminal() {
        skip!("{reason}");
    }
    let store = SqliteStore::start().await;
    store.connect(None).await;
    for name in ["TERM", "INT", "HUP"] {
        let args = format!("--url \"{}\" dash", store.url());
        let (code, output) = OnTerminal::start(&args, "nothing").signal(name);
        assert!(code == Some(0) && output.contains("\u{1b}[?1049l"), "{name}: {code:?} {output:?}");
        assert!(output.contains(" echo "), "{name}: {output:?}");
        // Log lines are written before and after the view.
        let (_, view) = output.split_once("\u{1b}[?1049h").unwrap();
        let (view, after) = view.split_once("\u{1b}[?1049l").unwrap();
        assert!(!view.contains("TRACE") && after.contains("TRACE"), "{name}: {output:?}");
    }
    // A file gets them at once.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log");
    let args = format!("--url \"{}\" dash 2>\"{}\"", store.url(), file.display());
    let watching = OnTerminal::start(&args, "nothing");
    let lines = std::fs::read_to_string(&file).unwrap();
    let _ = watching.signal("TERM");
    // The line is of the source of keys, which the view opens.
    assert!(lines.contains("token=Token(0)"), "{lines}");
}

/// Errors of a terminal that is gone can be written nowhere: `eprintln!` panics, and the program would be aborted.
#[tokio::test]
async fn a_closed_terminal_does_not_abort_the_full_screen_view() {
    if let Some(reason) = no_terminal() {
        skip!("{reason}");
    }
    let store = SqliteStore::start().await;
    store.connect(None).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("code");
    let line = format!(
        "stty cols 80 rows 24; trap '' HUP; '{BINARY}' --url '{}' dash; echo $? >'{}'",
        store.url(),
        file.display()
    );
    let mut watching = OnTerminal::of(&mut terminal("xterm", &line), "nothing");
    watching.terminal.kill().unwrap();
    watching.terminal.wait().unwrap();
    let code =
        eventually("it ends", async || std::fs::read_to_string(&file).ok().filter(|code| code.ends_with('\n'))).await;
    // The signal or the failed read comes first.
    assert!(["0", "1"].contains(&code.trim()), "{code}");
}

#[tokio::test]
async fn too_few_descriptors_for_the_full_screen_view_are_an_error() {
    if let Some(reason) = no_terminal() {
        skip!("{reason}");
    }
    let store = SqliteStore::start().await;
    store.connect(None).await;
    let mut has_failed = false;
    for limit in 12..=24 {
        let line =
            format!("stty cols 80 rows 24; ulimit -n {limit}; exec timeout 60 '{BINARY}' --url '{}' dash", store.url());
        let mut watching = terminal("xterm", &line).spawn().unwrap();
        watching.stdin.as_mut().unwrap().write_all(b"q").unwrap();
        let output = watching.wait_with_output().unwrap();
        let shown = text(&output.stdout);
        assert!(!shown.contains("panicked"), "{limit}: {shown}");
        has_failed |= shown.contains("the terminal cannot be used") && shown.contains("ulimit -n");
    }
    assert!(has_failed);
}

#[tokio::test]
async fn the_full_screen_view_is_drawn_again_without_an_answer_of_the_terminal() {
    if let Some(reason) = no_terminal() {
        skip!("{reason}");
    }
    let store = SqliteStore::start().await;
    store.connect(None).await;
    let mut watching = OnTerminal::start(&format!("--url \"{}\" dash", store.url()), "nothing");
    watching.seen.clear();
    watching.terminal.stdin.as_mut().unwrap().write_all(b"\x0c").unwrap();
    watching.read_until("nothing");
    let (code, output) = watching.signal("TERM");
    assert!(code == Some(0) && !output.contains("\u{1b}[6n"), "{code:?} {output:?}");
}

#[tokio::test]
async fn a_signal_at_the_question_for_a_password_restores_the_terminal() {
    if let Some(reason) = no_terminal() {
        skip!("{reason}");
    }
    for name in ["TERM", "INT"] {
        let asked = OnTerminal::start("hash-password", "Password: ");
        let settings = ["-a", "-F", &format!("/proc/{}/fd/0", asked.pid)];
        eventually("the terminal does not show keys", async || {
            let output = Command::new("stty").args(settings).output().unwrap();
            text(&output.stdout).contains(" -echo ").then_some(())
        })
        .await;
        let (code, output) = asked.signal(name);
        assert!(code == Some(130) && output.contains("stopped at the question"), "{name}: {code:?} {output:?}");
        assert!(output.contains(" echo "), "{name}: {output:?}");
    }
}

#[tokio::test]
async fn a_bar_is_drawn_on_a_terminal_and_nowhere_else() {
    const TASKS: usize = 3_000;
    if let Some(reason) = no_terminal() {
        skip!("{reason}");
    }
    let store = SqliteStore::start().await;
    let broker = store.connect(None).await;
    let url = store.url();
    let delete = ["--url", &url, "task", "delete-all", "-q", "default", "-s", "pending", "--yes"];
    let bar = "of 3,000, ";

    fill(&*broker, TASKS).await;
    let output = on_a_terminal("xterm", &delete);
    ends(&output, 0);
    assert!(text(&output.stdout).contains(bar), "{}", text(&output.stdout));
    let last = text(&output.stdout).trim_end().rsplit(['\r', '\n']).next().unwrap_or_default().to_owned();
    assert!(last.contains("3,000 tasks are deleted") && !last.contains(bar), "it goes away at the end: {last:?}");

    fill(&*broker, TASKS).await;
    let for_programs = on_a_terminal("xterm", &[&delete[..], &["--json"]].concat());
    ends(&for_programs, 0);
    assert!(!text(&for_programs.stdout).contains(bar), "{}", text(&for_programs.stdout));

    fill(&*broker, TASKS).await;
    let dumb = on_a_terminal("dumb", &delete);
    ends(&dumb, 0);
    assert!(!text(&dumb.stdout).contains(bar), "{}", text(&dumb.stdout));

    fill(&*broker, TASKS).await;
    let piped = asynq(&delete).output().unwrap();
    ends(&piped, 0);
    assert_eq!(text(&piped.stderr), "");
    assert!(!text(&piped.stdout).contains(bar));

    // The doctor counts queues.
    fill(&*broker, TASKS).await;
    let looked = on_a_terminal("xterm", &["--url", &url, "doctor"]);
    assert!(text(&looked.stdout).contains("of 1, "), "{}", text(&looked.stdout));
}
