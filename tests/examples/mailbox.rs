//! A mail server for tests: accepts every message, remembers its receivers, and can hold its answers back.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
};

use asynq_tests::PATIENCE;

/// The server, which lives as long as the test's process.
#[derive(Clone)]
pub(crate) struct Mailbox {
    url: String,
    state: Arc<(Mutex<State>, Condvar)>,
}

struct State {
    taken: Vec<String>,
    held: usize,
    most: usize,
}

impl Mailbox {
    /// Starts a server that answers the first `most` messages and holds the rest until [`open`](Self::open).
    pub(crate) fn start(most: usize) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("it has an address").port();
        let state = Arc::new((Mutex::new(State { taken: Vec::new(), held: 0, most }), Condvar::new()));
        let mailbox = Self { url: format!("smtp://127.0.0.1:{port}"), state };
        let server = mailbox.clone();
        thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let server = server.clone();
                thread::spawn(move || server.serve(connection));
            }
        });
        mailbox
    }

    /// The value for `SMTP_URL`.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Answers all messages from now on, held ones included.
    pub(crate) fn open(&self) {
        self.state.0.lock().unwrap().most = usize::MAX;
        self.state.1.notify_all();
    }

    /// The receivers of the accepted messages, in order.
    pub(crate) fn taken(&self) -> Vec<String> {
        self.state.0.lock().unwrap().taken.clone()
    }

    /// Waits until this many messages wait for their answer.
    pub(crate) fn wait_for_held(&self, count: usize) {
        let (state, changed) = &*self.state;
        let (state, late) =
            changed.wait_timeout_while(state.lock().unwrap(), PATIENCE, |state| state.held < count).unwrap();
        assert!(!late.timed_out(), "only {} messages are held", state.held);
    }

    /// Serves a connection, and ends quietly when the client goes away, as a killed one does.
    fn serve(&self, connection: TcpStream) {
        let Ok(mut answers) = connection.try_clone() else { return };
        let mut say = |text: &str| answers.write_all(format!("{text}\r\n").as_bytes()).is_ok();
        let mut lines = BufReader::new(connection).lines().map_while(Result::ok);
        let mut to = String::new();
        if !say("220 test") {
            return;
        }
        while let Some(line) = lines.next() {
            let verb = line.split([' ', ':']).next().unwrap_or_default().to_ascii_uppercase();
            let going_on = match verb.as_str() {
                "RCPT" => {
                    to = line.split(['<', '>']).nth(1).unwrap_or_default().to_owned();
                    say("250 ok")
                }
                "DATA" => {
                    if !say("354 go on") {
                        return;
                    }
                    let _message: Vec<String> = lines.by_ref().take_while(|line| line != ".").collect();
                    self.take(&to);
                    say("250 taken")
                }
                "QUIT" => return,
                _ => say("250 ok"),
            };
            if !going_on {
                return;
            }
        }
    }

    fn take(&self, to: &str) {
        let (state, changed) = &*self.state;
        let mut state = state.lock().unwrap();
        state.held += 1;
        changed.notify_all();
        state = changed.wait_while(state, |state| state.taken.len() >= state.most).unwrap();
        state.held -= 1;
        state.taken.push(to.to_owned());
    }
}
