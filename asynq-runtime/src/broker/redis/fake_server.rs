//! A server for tests of connections, which answers every command with `OK`.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    sync::Arc,
    thread,
    time::Duration,
};

use super::{
    clock::BrokerClock,
    name_watch::NameWatch,
    role::{At, Role},
    url::Target,
};

/// The reaction of the server to the commands that it has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaction {
    Answer,
    AnswerAndClose,
    /// Answers that no such script is known.
    Forget,
    Close,
}

/// Starts the server on a free port and returns its URL; it ends with the test's process. `react` gets the number of the connection and
/// the bytes that were read there, none when the client has closed it.
pub(super) fn serve(react: impl Fn(usize, &[u8]) -> Reaction + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let react = Arc::new(react);
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let (mut stream, react) = (stream.unwrap(), Arc::clone(&react));
            thread::spawn(move || {
                let mut bytes = [0; 4096];
                loop {
                    let size = stream.read(&mut bytes).unwrap_or(0);
                    let read = &bytes[..size];
                    let reaction = react(number, read);
                    if read.is_empty() || reaction == Reaction::Close {
                        return;
                    }
                    let commands = read.iter().filter(|byte| **byte == b'*').count();
                    let answer =
                        if reaction == Reaction::Forget { "-NOSCRIPT No matching script.\r\n" } else { "+OK\r\n" };
                    let is_answered = stream.write_all(answer.repeat(commands).as_bytes()).is_ok();
                    if !is_answered || reaction == Reaction::AnswerAndClose {
                        return;
                    }
                }
            });
        }
    });
    url
}

/// Returns the role of a connection to the server at `url`.
pub(super) fn role_to(url: &str) -> Role {
    Role {
        target: Target::parse(url).unwrap(),
        at: At::Target(NameWatch::new()),
        timeout: Duration::from_secs(60),
        connect_timeout: Duration::from_secs(60),
        clock: Arc::new(BrokerClock::new(None)),
        greeting: Vec::new(),
        on_event: None,
    }
}

/// Returns whether `bytes` are the greeting of a connection.
pub(super) fn is_greeting(bytes: &[u8]) -> bool {
    holds(bytes, "TIME")
}

/// Returns whether `word` is among `bytes`.
pub(super) fn holds(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|part| part == word.as_bytes())
}
