//! Programs that tests start as processes of their own.

use std::{
    ffi::OsStr,
    fmt::Display,
    io::{self, BufRead as _, BufReader, Read, Write as _},
    net::TcpStream,
    ops::{Deref, DerefMut},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::Duration,
};

use super::{PATIENCE, eventually_blocking};

/// How long a whole program may run: a run has many steps, and a test awaits only its end.
const WHOLE: Duration = PATIENCE.saturating_mul(3);

/// The command of a program that reads no input, in an environment without settings.
pub fn program(file: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(file);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ASYNQ_") || name == "RUST_LOG") {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// Sends a signal by name, such as `TERM`, to a process.
pub fn signal(name: &str, pid: impl Display) {
    let sent = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status();
    assert!(sent.expect("kill runs").success(), "kill -{name} {pid}");
}

/// A process, killed when dropped.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Starts the command.
    pub fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap_or_else(|error| panic!("{command:?} does not start: {error}")))
    }

    /// Sends a signal by name, such as `TERM`.
    pub fn signal(&self, name: &str) {
        signal(name, self.id());
    }
}

impl Deref for Process {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill();
        let _ = self.wait();
    }
}

/// A program whose output is read line by line; killed when dropped.
#[derive(Debug)]
pub struct Program {
    /// The process that runs it.
    pub process: Process,
    output: Arc<(Mutex<Output>, Condvar)>,
}

/// The lines so far, and the number of streams that have not ended.
#[derive(Debug, Default)]
struct Output {
    lines: Vec<String>,
    open: usize,
}

impl Output {
    fn text(&self) -> String {
        self.lines.iter().fold(String::new(), |text, line| text + line + "\n")
    }
}

impl Program {
    /// Starts a program; its standard output and standard error are read as one.
    pub fn start(command: Command) -> Self {
        Self::start_with_log(command, Stdio::piped())
    }

    /// Starts a program whose standard error goes to `log`.
    pub fn start_with_log(mut command: Command, log: impl Into<Stdio>) -> Self {
        let mut process = Process::start(command.stdout(Stdio::piped()).stderr(log));
        let (stdout, stderr) = (process.stdout.take().expect("it is piped"), process.stderr.take());
        let program = Self { process, output: Arc::default() };
        program.follow(stdout);
        if let Some(stderr) = stderr {
            program.follow(stderr);
        }
        program
    }

    fn follow(&self, stream: impl Read + Send + 'static) {
        self.output.0.lock().unwrap().open += 1;
        let output = Arc::clone(&self.output);
        thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                output.0.lock().unwrap().lines.push(line);
                output.1.notify_all();
            }
            output.0.lock().unwrap().open -= 1;
            output.1.notify_all();
        });
    }

    /// Waits until the program has printed a line that contains `part`, and returns the first one.
    #[track_caller]
    pub fn line(&self, part: &str) -> String {
        self.line_after(0, part, |line| line.contains(part)).1
    }

    /// Waits for a line that `is_it`, after this many lines; returns the number of lines up to its end, and it.
    #[track_caller]
    pub fn line_after(&self, lines: usize, expected: &str, is_it: impl Fn(&str) -> bool) -> (usize, String) {
        let (output, changed) = &*self.output;
        let found = |output: &Output| (lines..output.lines.len()).find(|&n| is_it(&output.lines[n]));
        let (output, _) = changed
            .wait_timeout_while(output.lock().unwrap(), PATIENCE, |output| found(output).is_none() && output.open > 0)
            .unwrap();
        let Some(n) = found(&output) else { panic!("no line with {expected:?} in:\n{}", output.text()) };
        (n + 1, output.lines[n].clone())
    }

    /// The output so far.
    pub fn output(&self) -> String {
        self.output.0.lock().unwrap().text()
    }

    /// Waits until the program has printed each of `parts`.
    #[track_caller]
    pub fn wait_for(&self, parts: &[&str]) {
        for part in parts {
            self.line(part);
        }
    }

    /// Waits for the end; returns the exit status and the whole output.
    pub fn end(mut self) -> (ExitStatus, String) {
        let (output, changed) = &*self.output;
        let (output, late) =
            changed.wait_timeout_while(output.lock().unwrap(), WHOLE, |output| output.open > 0).unwrap();
        let text = output.text();
        assert!(!late.timed_out(), "the program does not end; it printed:\n{text}");
        let status = eventually_blocking("the program ends, as its output did", || self.process.try_wait().unwrap());
        (status, text)
    }

    /// Sends TERM as a supervisor does, asserts success and returns the whole output.
    pub fn terminate(self) -> String {
        self.process.signal("TERM");
        let (status, output) = self.end();
        assert!(status.success(), "{status}:\n{output}");
        output
    }
}

/// The number in a variable by which `scripts/prove` makes a test long.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// The host and the port of the URL in a line.
pub fn address_in(line: &str) -> &str {
    line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect("the line has a URL")
}

/// The whole answer to a request such as `GET /metrics`, which has these further lines in its head.
pub fn ask(address: &str, request: &str, headers: &str) -> io::Result<String> {
    ask_host(address, address, request, headers)
}

/// The answer to a request as [`ask`] sends it, by this name of the host.
pub fn ask_host(host: &str, address: &str, request: &str, headers: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "{request} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map(|_| answer)
}
