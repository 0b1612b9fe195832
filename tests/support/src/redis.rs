//! A private redis-server, which ends with its test.

mod calls;
mod guard;
mod port;

use std::{fs, path::PathBuf};

use ::redis::Connection;

pub use self::{
    calls::Calls,
    guard::{Guarded, on_free_ports},
    port::free_port,
};
use crate::process::signal;

/// The data that a server keeps when it is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// Nothing.
    None,
    /// The answered writes until about a second before the machine dies: `appendonly yes`, `appendfsync everysec`, as the guide
    /// advises.
    EverySecond,
    /// Every answered write: `appendonly yes`, `appendfsync always`.
    Always,
}

impl Persistence {
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::None => &[],
            Self::EverySecond => &["--appendonly", "yes", "--appendfsync", "everysec"],
            Self::Always => &["--appendonly", "yes", "--appendfsync", "always"],
        }
    }
}

/// A redis-server on a free port of 127.0.0.1 with its data in a folder of its own; killed when dropped.
#[derive(Debug)]
pub struct RedisServer {
    server: Guarded,
    port: u16,
    password: Option<String>,
}

impl RedisServer {
    /// Starts a server.
    pub fn start(persistence: Persistence) -> Self {
        Self::in_environment(persistence, &[])
    }

    /// Starts a server with these variables in its environment.
    pub fn in_environment(persistence: Persistence, environment: &[(&'static str, String)]) -> Self {
        Self::launch(persistence.options(), None, environment)
    }

    /// Starts a server that asks for a password and keeps nothing.
    pub fn with_password(password: &str) -> Self {
        Self::launch(&["--requirepass", password], Some(password), &[])
    }

    /// Starts a server with these options, which keeps nothing unless they say otherwise.
    pub fn with_options(options: &[&str]) -> Self {
        Self::launch(options, None, &[])
    }

    fn launch(options: &[&str], password: Option<&str>, environment: &[(&'static str, String)]) -> Self {
        on_free_ports(|| {
            let port = free_port();
            let fixed = ["--port", &port.to_string(), "--pidfile", "pid"];
            let arguments = fixed.iter().chain(options).map(ToString::to_string).collect();
            let server = Guarded::start_in(&[], |_| arguments, environment.into())?;
            Some(Self { server, port, password: password.map(str::to_owned) })
        })
    }

    /// The URL, with the password if the server has one.
    pub fn url(&self) -> String {
        let login = self.password.as_ref().map(|password| format!(":{password}@")).unwrap_or_default();
        format!("redis://{login}127.0.0.1:{}/0", self.port)
    }

    /// The Unix socket that the server listens on, too.
    pub fn socket(&self) -> PathBuf {
        self.server.socket()
    }

    /// The port that the server listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills the server as a power cut would.
    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// Starts the server again on the same port and data, after [`kill`](Self::kill) unless that was called before.
    pub fn restart(&mut self) {
        self.server.restart();
    }

    /// Stops the process, so that the server answers no client, until the returned guard is dropped.
    pub fn stop(&self) -> Stopped {
        let pid = fs::read_to_string(self.server.folder().join("pid")).expect("the server has written its pid");
        signal("STOP", pid.trim());
        Stopped(pid)
    }

    /// A connection of the test itself.
    pub fn connection(&self) -> Connection {
        ::redis::Client::open(self.url()).unwrap().get_connection().expect("the private redis-server answers")
    }
}

/// A process that is stopped; dropping the guard continues it.
#[derive(Debug)]
pub struct Stopped(String);

impl Drop for Stopped {
    fn drop(&mut self) {
        signal("CONT", self.0.trim());
    }
}
