//! A server process that ends with its owner, and with the test program however that ends.

use std::{
    fs,
    io::{BufRead as _, BufReader, Result, Write as _},
    os::unix::net::{SocketAddr, UnixStream},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

use ::redis::Connection;
use tempfile::TempDir;

use crate::{PATIENCE, eventually_blocking};

/// Ends the server when the script's standard input ends: a pool of servers is a `static`, which is never dropped.
/// Ctrl+C signals the shell, too, which must outlive the test program to end a stopped server and to remove the folder.
/// The server's output goes to a file, since a server that rejects its configuration has no log yet, and its process id to another.
const WATCH: &str = r#"trap "" INT TERM HUP; folder=$1; shift; "$@" >"$folder/output" 2>&1 & pid=$!; echo $pid >"$folder/server"; read end; kill -9 $pid; wait; [ -z "$end" ] && rm -rf "$folder""#;

/// The name of the server's socket in its folder.
const SOCKET: &str = "redis.sock";

/// One redis-server with a folder of its own, and a Unix socket in the folder for the test.
#[derive(Debug)]
pub struct Guarded {
    watcher: Child,
    /// Dropping this pipe ends the server.
    control: Option<ChildStdin>,
    arguments: Vec<String>,
    environment: Vec<(&'static str, String)>,
    folder: PathBuf,
}

impl Guarded {
    /// Starts `redis-server` with these arguments in a new folder, and waits until it answers. `files` are written there first.
    /// Returns `None` if the server ends at once, because another process has taken its port. Panics if it ends for another reason.
    pub fn start(files: &[(&str, &str)], arguments: impl FnOnce(&Path) -> Vec<String>) -> Option<Self> {
        Self::start_in(files, arguments, Vec::new())
    }

    /// [`start`](Self::start) with these variables in the server's environment.
    pub fn start_in(
        files: &[(&str, &str)],
        arguments: impl FnOnce(&Path) -> Vec<String>,
        environment: Vec<(&'static str, String)>,
    ) -> Option<Self> {
        let folder = TempDir::new().expect("a temp dir for redis-server");
        assert_short(&folder.path().join(SOCKET));
        let folder = folder.keep();
        for (name, text) in files {
            fs::write(folder.join(name), text).expect("a file in a temp dir");
        }
        let arguments = arguments(&folder);
        let (watcher, control) = spawn(&folder, &arguments, &environment);
        let guarded = Self { watcher, control: Some(control), arguments, environment, folder };
        guarded.answers().then_some(guarded)
    }

    /// The Unix socket of the server.
    pub fn socket(&self) -> PathBuf {
        self.folder.join(SOCKET)
    }

    /// Waits until the server answers. An accepted connection is not enough: the server may still end because its port is taken.
    /// Panics if the server ends for another reason, rejects its configuration or never answers, which no other port would mend.
    fn answers(&self) -> bool {
        let began = Instant::now();
        while !self.ping().is_ok_and(|answer| !answer.is_empty() && !answer.starts_with("-LOADING")) {
            // The files of a server that has ended are complete, so its state is read before them.
            let has_ended = self.has_ended();
            let log = self.log();
            if log.contains("Failed listening") {
                return false;
            }
            let output = fs::read_to_string(self.folder.join("output")).unwrap_or_default();
            // The marker, the place, the line and the reason, which the server writes one after the other.
            let is_rejected =
                output.split_once("FATAL CONFIG FILE ERROR").is_some_and(|(_, why)| why.lines().count() > 3);
            let may_answer = !has_ended && !is_rejected && began.elapsed() <= PATIENCE;
            assert!(may_answer, "redis-server does not start: {output}\n{log}");
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// Whether the server has ended. Its watcher awaits it later, so that `/proc` still shows it; other systems than Linux never say so.
    fn has_ended(&self) -> bool {
        let pid = fs::read_to_string(self.folder.join("server")).unwrap_or_default();
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        // The state follows the name of the program, which is in brackets.
        stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('Z'))
    }

    /// The first line of the server's answer: `+PONG`, or an error that asks for a password, or nothing if the server has ended.
    fn ping(&self) -> Result<String> {
        let mut stream = UnixStream::connect(self.socket())?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"PING\r\n")?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer)?;
        Ok(answer)
    }

    /// The folder of the server's files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The server's log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// A connection of the test itself, as the default user, past TLS and ports. Tries until it succeeds: a sentinel that makes a
    /// server a replica closes the connections of all clients, also those that have only just been accepted.
    pub fn connection(&self) -> Connection {
        let client = ::redis::Client::open(format!("unix://{}", self.socket().display())).unwrap();
        eventually_blocking("the private redis-server answers", || client.get_connection().ok())
    }

    /// Whether a replica has acknowledged every write. `WAIT` would not do: it counts only writes of its own connection.
    pub fn is_replicated(&self) -> bool {
        let info: String = ::redis::cmd("INFO").arg("replication").query(&mut self.connection()).unwrap();
        let after = |word: &str| {
            let rest = info.split(word).nth(1).unwrap_or_default();
            rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse::<u64>().ok())
        };
        after(",offset=").is_some_and(|acknowledged| Some(acknowledged) >= after("master_repl_offset:"))
    }

    /// Kills the server as a power cut would; its files stay.
    pub fn kill(&mut self) {
        if let Some(mut control) = self.control.take() {
            let _ = control.write_all(b"keep\n");
        }
        let _ = self.watcher.wait();
    }

    /// Makes the server a replica of the server on `port` from its next start on. Otherwise a server that returns as a primary with
    /// old data would be believed.
    pub fn follow(&mut self, port: u16) {
        if !self.arguments.iter().any(|argument| argument == "--replicaof") {
            self.arguments.extend(["--replicaof".to_owned(), format!("127.0.0.1 {port}")]);
        }
    }

    /// Starts the server again, after [`kill`](Self::kill) unless that was called before.
    pub fn restart(&mut self) {
        self.kill();
        let _ = fs::remove_file(self.socket());
        let (watcher, control) = spawn(&self.folder, &self.arguments, &self.environment);
        (self.watcher, self.control) = (watcher, Some(control));
        assert!(self.answers(), "redis-server starts again: {}", self.log());
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        drop(self.control.take());
        let _ = self.watcher.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn spawn(folder: &Path, arguments: &[String], environment: &[(&'static str, String)]) -> (Child, ChildStdin) {
    let mut command = Command::new("sh");
    command.args(["-c", WATCH, "sh"]).arg(folder).arg("redis-server").args(arguments);
    // `redis-server` takes no such options after `--sentinel`; the sentinel's file has them.
    if !arguments.iter().any(|argument| argument == "--sentinel") {
        command.args(["--save", "", "--bind", "127.0.0.1", "--unixsocket", SOCKET, "--logfile", "log", "--dir"]);
        command.arg(folder);
    }
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("sh can be run");
    let control = child.stdin.take().expect("its input is piped");
    (child, control)
}

/// Panics if the path is too long for a socket: no server would ever be found there.
fn assert_short(socket: &Path) {
    let reason = SocketAddr::from_pathname(socket).err();
    assert!(reason.is_none(), "{}: {reason:?}; set TMPDIR to a shorter path", socket.display());
}

/// Calls `start` with other ports until the servers start.
pub fn on_free_ports<T>(mut start: impl FnMut() -> Option<T>) -> T {
    assert!(is_installed(), "redis-server is needed for these tests; scripts/test installs it");
    (0..20).find_map(|_| start()).expect("redis-server starts on one of twenty ports")
}

/// Whether `redis-server` can be run at all: without the program each start would be awaited in vain.
fn is_installed() -> bool {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    let runs = || Command::new("redis-server").arg("--version").stdout(Stdio::null()).status().is_ok();
    *INSTALLED.get_or_init(runs)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpStream};

    use super::*;
    use crate::redis::{free_port, signal};

    #[test]
    fn a_signal_to_the_whole_group_leaves_neither_a_server_nor_its_folder() {
        let (mut guarded, port) = on_free_ports(|| {
            let port = free_port();
            Some((Guarded::start(&[], |_| vec!["--port".to_owned(), port.to_string()])?, port))
        });
        for name in ["INT", "TERM", "HUP"] {
            signal(name, guarded.watcher.id());
        }
        // As at the end of the test program, which drops nothing.
        drop(guarded.control.take());
        guarded.watcher.wait().expect("the shell can be awaited");
        assert!(!guarded.folder().exists(), "the folder is left over");
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err(), "the server still runs");
    }

    #[test]
    #[should_panic(expected = "no-such-option")]
    fn an_option_that_the_server_rejects_is_named() {
        on_free_ports(|| Guarded::start(&[], |_| ["--port", "0", "--no-such-option", "1"].map(str::to_owned).to_vec()));
    }

    #[test]
    #[should_panic(expected = "Error loading ACLs")]
    fn a_server_that_ends_at_its_start_says_why() {
        on_free_ports(|| {
            Guarded::start(&[], |_| ["--port", "0", "--aclfile", "/no/users"].map(str::to_owned).to_vec())
        });
    }

    #[test]
    #[should_panic(expected = "set TMPDIR to a shorter path")]
    fn a_path_that_is_too_long_for_a_socket_is_named() {
        assert_short(&Path::new("/tmp").join("long".repeat(30)).join(SOCKET));
    }
}
