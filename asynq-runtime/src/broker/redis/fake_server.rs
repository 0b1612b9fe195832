//! A server for tests of connections, which answers every command with `OK`.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    sync::Arc,
    thread,
    time::Duration,
};

use super::{
    RedisOptions,
    clock::BrokerClock,
    identity::Identity,
    name_watch::NameWatch,
    role::{At, Role},
    url::Target,
};

/// The reaction of the server to the commands that it has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaction {
    Answer,
    AnswerAndClose,
    /// Answers with the identity of a server, where a command asks for it.
    Introduce,
    /// Answers that no such script is known.
    Forget,
    /// Answers that the server is a replica.
    Refuse,
    /// Answers that a login comes first.
    AskLogin,
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
                    let answers = match reaction {
                        Reaction::Introduce => introduction(read),
                        Reaction::Forget => "-NOSCRIPT No matching script.\r\n".repeat(commands),
                        Reaction::Refuse => {
                            "-READONLY You can't write against a read only replica.\r\n".repeat(commands)
                        }
                        Reaction::AskLogin => "-NOAUTH Authentication required.\r\n".repeat(commands),
                        Reaction::Answer | Reaction::AnswerAndClose | Reaction::Close => "+OK\r\n".repeat(commands),
                    };
                    let is_answered = stream.write_all(answers.as_bytes()).is_ok();
                    if !is_answered || reaction == Reaction::AnswerAndClose {
                        return;
                    }
                }
            });
        }
    });
    url
}

/// Returns the answers to `CLIENT ID` and `INFO` of a server with [`identity`], and `OK` to each other command.
fn introduction(read: &[u8]) -> String {
    let Identity { run_id, client } = identity();
    let info = format!("run_id:{run_id}");
    let answer = |command: &str| {
        if command.contains("\r\nINFO\r\n") {
            format!("${}\r\n{info}\r\n", info.len())
        } else if command.contains("\r\nID\r\n") {
            format!(":{client}\r\n")
        } else {
            "+OK\r\n".to_owned()
        }
    };
    String::from_utf8_lossy(read).split('*').skip(1).map(answer).collect()
}

/// Returns the identity of a server that reacts by [`Reaction::Introduce`].
pub(super) fn identity() -> Identity {
    Identity { run_id: "fake".into(), client: 7 }
}

/// Returns the role of a connection to the server at `url`.
pub(super) fn role_to(url: &str) -> Role {
    Role {
        target: Target::parse(url, RedisOptions::default()).unwrap().0,
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
    // A connection that lasts asks for `TIME` alone.
    holds(bytes, "TIME") && holds(bytes, "INFO")
}

/// Returns whether `word` is among `bytes`.
pub(super) fn holds(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|part| part == word.as_bytes())
}
