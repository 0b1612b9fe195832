//! A fixture for command lines: a broker, and the output of each command.

use std::{
    fmt,
    future::{Future, ready},
    io::{Cursor, Write},
    pin::Pin,
    sync::{Arc, Mutex},
};

use asynq_cli::{Environment, Input};
use asynq_runtime::Client;
use asynq_tests::{Fixture, Store};
use serde_json::Value;

/// Makes two tests of each body, one per broker; their output is compared with the same snapshots.
macro_rules! on_both_brokers {
    ($($(#[$meta:meta])* async fn $name:ident($cli:ident) $body:block)*) => {$(
        $(#[$meta])*
        mod $name {
            #[allow(unused_imports)] // a case may need none of them
            use super::*;

            async fn case<S: asynq_tests::Store>($cli: $crate::fixture::CliFixture<S>) $body

            #[tokio::test]
            async fn on_sqlite() {
                case($crate::fixture::CliFixture::<asynq_tests::SqliteStore>::start().await).await;
            }

            #[tokio::test]
            async fn on_redis() {
                case($crate::fixture::CliFixture::<asynq_tests::RedisStore>::start().await).await;
            }
        }
    )*};
}
pub(crate) use on_both_brokers;

/// A broker of a test's own, whose clock stands still.
pub(crate) struct CliFixture<S> {
    pub(crate) t: Fixture<S>,
}

/// Types a line that is not shown.
pub(crate) type TypeWithoutEcho = fn() -> Pin<Box<dyn Future<Output = std::io::Result<String>> + Send>>;

/// The setting in which a command line runs.
#[derive(Default)]
pub(crate) struct Setting<'a> {
    /// The text that the user types, if there is a terminal.
    pub(crate) typed: Option<&'a str>,
    /// The bytes that come through a pipe.
    pub(crate) piped: &'a [u8],
    /// The user presses Ctrl+C after this many slices of long work.
    pub(crate) stop_after: Option<usize>,
    /// Types a line where a secret is asked for; "typed" unless it is set.
    pub(crate) types_without_echo: Option<TypeWithoutEcho>,
    pub(crate) colours: bool,
    pub(crate) width: Option<u16>,
}

/// The output of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    line: String,
    pub(crate) code: u8,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl<S: Store> CliFixture<S> {
    pub(crate) async fn start() -> Self {
        Self { t: Fixture::start().await }
    }

    /// Runs the words of `line`, which are separated by spaces, as in a script.
    pub(crate) async fn run(&self, line: &str) -> Answer {
        self.run_in(Setting::default(), &line.split_whitespace().collect::<Vec<_>>()).await
    }

    /// Runs the words of `line` at a terminal at which the user types `text`.
    pub(crate) async fn run_typing(&self, text: &str, line: &str) -> Answer {
        let setting = Setting { typed: Some(text), ..Setting::default() };
        self.run_in(setting, &line.split_whitespace().collect::<Vec<_>>()).await
    }

    /// Runs these words, which may contain spaces.
    pub(crate) async fn run_words(&self, words: &[&str]) -> Answer {
        self.run_in(Setting::default(), words).await
    }

    pub(crate) async fn run_in(&self, setting: Setting<'_>, words: &[&str]) -> Answer {
        run(Some(Client::new(self.t.another_broker().await)), setting, words).await
    }

    /// Returns the JSON that a command line writes; asserts that the command succeeds.
    pub(crate) async fn json(&self, line: &str) -> Value {
        let answer = self.run(&format!("{line} --json")).await;
        assert_eq!(answer.code, 0, "{answer}");
        read(&answer)
    }

    /// Returns the report of `doctor`.
    pub(crate) async fn doctor(&self) -> Value {
        read(&self.run("doctor --json").await)
    }
}

/// The JSON in an answer.
pub(crate) fn read(answer: &Answer) -> Value {
    serde_json::from_str(&answer.out).unwrap_or_else(|error| panic!("{error}\n{answer}"))
}

/// Runs a command line; without a client the command connects to its broker itself.
pub(crate) async fn run(client: Option<Client>, setting: Setting<'_>, words: &[&str]) -> Answer {
    let (out, err) = (Buffer::default(), Buffer::default());
    let Setting { typed, piped, stop_after, types_without_echo, colours, width } = setting;
    let environment = Environment {
        out: Box::new(out.clone()),
        err: Box::new(err.clone()),
        input: match typed {
            Some(text) => Input::Terminal(Box::new(Cursor::new(text.as_bytes().to_vec()))),
            None => Input::Piped(Box::new(Cursor::new(piped.to_vec()))),
        },
        type_without_echo: types_without_echo.unwrap_or(|| Box::pin(ready(Ok("typed".into())))),
        colours,
        width,
        bars: false,
        variable: |_| None,
        client,
        stop: Box::new(move || stop(stop_after)),
    };
    let args = std::iter::once("asynq").chain(words.iter().copied()).map(Into::into);
    let code = asynq_cli::run(args, environment).await;
    Answer { line: words.join(" "), code, out: out.text(), err: err.text() }
}

/// Returns a future that the command polls once before each slice, and that ends after `after` polls.
fn stop(after: Option<usize>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let mut polls = 0;
    Box::pin(std::future::poll_fn(move |_| {
        polls += 1;
        match after {
            Some(after) if polls > after => std::task::Poll::Ready(()),
            _ => std::task::Poll::Pending,
        }
    }))
}

impl fmt::Display for Answer {
    /// Writes the answer as a terminal shows it, with the command line and the exit code.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "$ asynq {}\n{}", self.line, self.out)?;
        if !self.err.is_empty() {
            write!(f, "stderr: {}", self.err)?;
        }
        if self.code != 0 {
            writeln!(f, "exit code {}", self.code)?;
        }
        writeln!(f)
    }
}

/// Compares the output with the snapshot of this name, which both brokers share.
pub(crate) fn assert_written(name: &str, answers: &[Answer]) {
    let text: String = answers.iter().map(ToString::to_string).collect();
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    for (pattern, instead) in [
        (r"(sqlite|redis)://\S*[^\s,\x22]", "[broker]"),
        (r#""memory_bytes": \d+"#, r#""memory_bytes": "[bytes]""#),
        (r"Memory( +)[^\n]+", "Memory${1}[size]"),
        // Only Redis reports these facts; another test checks them.
        (r"\nREDIS +VERSION[^\n]*\n[^\n]*\n", ""),
        (r#"(?s)"redis": \[\s*\{.*?\}\s*\]"#, r#""redis": []"#),
        // The brokers' leases differ.
        (r#""lease_until": "[^"]+""#, r#""lease_until": "[time]""#),
        (r"Lease until( +)[^\n]+", "Lease until${1}[time]"),
        // Redis keeps these times in whole seconds, as asynq does.
        (r#"("(?:last_failed_at|completed_at|archived_at|oldest_at)": "[^".]+)\.\d{3}Z"#, "${1}Z"),
        (r"((?:Last failed|Completed|Archived) [^.\n]+)\.\d{3}Z", "${1}Z"),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", "[id]"),
    ] {
        settings.add_filter(pattern, instead);
    }
    settings.bind(|| insta::assert_snapshot!(name, text));
}

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Buffer {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
