//! The surroundings of a command: its output, the user to ask, its environment variables, and the signal that stops it.

use std::{
    ffi::OsString,
    fmt,
    future::{Future, poll_fn},
    io::{BufRead, IsTerminal as _, Read, Write},
    pin::Pin,
    task::Poll,
};

use asynq_runtime::{Client, app::wants_colours};

use crate::without_echo;

/// A future that ends when the user asks the command to stop.
pub(crate) type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A future of the line that the user types.
pub(crate) type Typing = Pin<Box<dyn Future<Output = std::io::Result<String>> + Send>>;

/// Everything that a command touches beside its broker. Every field can be replaced, as a test does.
pub struct Environment {
    /// Standard output.
    pub out: Box<dyn Write + Send>,
    /// Standard error: errors, questions, progress.
    pub err: Box<dyn Write + Send>,
    /// Standard input.
    pub input: Input,
    /// Reads a line from the terminal without showing it. An error of the kind `Interrupted` says that the user pressed Ctrl+C.
    /// Dropping the future leaves the terminal as it was.
    pub type_without_echo: fn() -> Typing,
    /// Whether tables have colours.
    pub colours: bool,
    /// The width of the terminal in columns; `None` without a terminal, and nothing is wrapped then.
    pub width: Option<u16>,
    /// Whether progress bars are drawn on the real standard error.
    pub bars: bool,
    /// Reads an environment variable.
    pub variable: fn(&str) -> Option<OsString>,
    /// A broker that is open already, instead of the one that flags and environment variables name.
    pub client: Option<Client>,
    /// Makes a future that ends when the command should stop; the default listens for Ctrl+C, SIGTERM and SIGHUP.
    pub stop: Box<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>,
}

/// Standard input.
pub enum Input {
    /// A terminal: the user can be asked.
    Terminal(Box<dyn BufRead + Send>),
    /// A file or a pipe: the user cannot be asked.
    Piped(Box<dyn Read + Send>),
}

impl Environment {
    /// Returns the environment of this process. `NO_COLOR` turns colours off.
    pub fn of_this_process() -> Self {
        let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
        let is_terminal = stdout.is_terminal();
        Self {
            input: if stdin.is_terminal() {
                Input::Terminal(Box::new(std::io::BufReader::new(stdin)))
            } else {
                Input::Piped(Box::new(stdin))
            },
            type_without_echo: || Box::pin(without_echo::type_line()),
            colours: is_terminal && wants_colours(std::env::var_os("NO_COLOR"), std::env::var_os("TERM")),
            // Without a terminal crossterm would start programs to find a size. A terminal that does not know its size says 0.
            width: is_terminal
                .then(crossterm::terminal::size)
                .and_then(Result::ok)
                .map(|(columns, _)| columns)
                .filter(|&n| n > 0),
            out: Box::new(std::io::BufWriter::new(stdout)),
            err: Box::new(std::io::stderr()),
            // A dumb terminal shows the sequences that draw a bar anew.
            bars: std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb"),
            variable: |name| std::env::var_os(name),
            client: None,
            stop: Box::new(signalled),
        }
    }
}

asynq_runtime::partial_debug!(Environment { input, client, .. });

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Terminal(_) => "Terminal",
            Self::Piped(_) => "Piped",
        })
    }
}

/// Returns a future that ends at Ctrl+C or SIGTERM, or when the terminal is closed. Before this call these signals end the process at
/// once.
fn signalled() -> Stop {
    use tokio::signal::unix::{SignalKind, signal};
    let hangup = if is_hangup_ignored() { None } else { Some(SignalKind::hangup()) };
    let kinds = [SignalKind::interrupt(), SignalKind::terminate()].into_iter().chain(hangup);
    // The handlers are installed now, not at the first poll.
    let mut signals: Vec<_> = kinds.filter_map(|kind| signal(kind).ok()).collect();
    Box::pin(poll_fn(move |cx| match signals.iter_mut().any(|signal| signal.poll_recv(cx).is_ready()) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    }))
}

/// Returns whether the process ignores SIGHUP, as `nohup` starts it, or whether that is not known; a handler would undo it.
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // SIGHUP is the first signal.
    mask.is_none_or(|mask| mask & 1 == 1)
}
