//! A dashboard over a store with data in every place, and a client that writes its requests byte by byte.

use std::{collections::HashMap, net::SocketAddr, time::Duration};

use argon2::{Algorithm, Argon2, Params, PasswordHasher as _, Version};
use asynq_cron::EntryId;
use asynq_dashboard::Dashboard;
use asynq_runtime::{
    Client,
    broker::{EntryPlan, Run},
    task::SchedulerEntry,
};
use asynq_tests::{Build as _, Fixture, Store, default_queue, soon, task};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    net::TcpStream,
    task::JoinHandle,
};

/// Headers of a change as the dashboard's own pages send it.
pub(crate) const OWN: [(&str, &str); 3] =
    [("sec-fetch-site", "same-origin"), ("x-asynq-dashboard", "1"), ("content-type", "application/json")];

/// A dashboard that is served until it is dropped.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    serving: Option<JoinHandle<()>>,
}

impl Served {
    pub(crate) async fn start(dashboard: Dashboard) -> Self {
        let bound = dashboard.bind("127.0.0.1:0").await.unwrap();
        let address = bound.address();
        Self { address, serving: Some(tokio::spawn(bound.serve_until(std::future::pending()))) }
    }

    /// A dashboard that another task serves.
    pub(crate) fn at(address: SocketAddr) -> Self {
        Self { address, serving: None }
    }

    /// Sends a GET with default headers.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(&Request::new("GET", path)).await
    }

    /// All pages of a search, one after the other: each searches for 100 ms at most and links to the next.
    pub(crate) async fn searched(&self, query: &str) -> String {
        soon(async {
            let (mut pages, mut path) = (String::new(), format!("/search?{query}"));
            loop {
                let page = self.get(&path).await.body;
                pages.push_str(&page);
                let Some((_, link)) = page.split_once("rel=\"next\" href=\"") else { return pages };
                path = link.split_once('"').expect("the end of the link").0.replace("&amp;", "&");
            }
        })
        .await
    }

    /// All tasks that a search finds, answer by answer: the size and the time of each answer are limited.
    pub(crate) async fn found(&self, query: &str) -> Vec<Value> {
        soon(async {
            let (mut found, mut after) = (Vec::new(), String::new());
            loop {
                let answer = self.get(&format!("/api/search?{query}&after={after}")).await.json();
                let some = answer["tasks"].as_array().unwrap_or_else(|| panic!("{query}: {answer}"));
                assert!(some.len() <= 100, "{}", some.len());
                found.extend(some.iter().cloned());
                let Some(next) = answer["next"].as_str() else { return found };
                after = next.to_owned();
            }
        })
        .await
    }

    /// Sends a change as the dashboard's own pages do.
    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        self.ask(&Request::new("POST", path).own().body(body)).await
    }

    /// The status alone, for an answer that does not end.
    pub(crate) async fn status(&self, request: &Request) -> u16 {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(&request.bytes(self.address)).await.unwrap();
        let mut lines = BufReader::new(stream).lines();
        let line = soon(lines.next_line()).await;
        line.unwrap().unwrap().split(' ').nth(1).unwrap().parse().unwrap()
    }

    pub(crate) async fn ask(&self, request: &Request) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // A server that refuses early may close the connection before it has read everything.
        let _ = stream.write_all(&request.bytes(self.address)).await;
        let mut bytes = Vec::new();
        let read = soon(stream.read_to_end(&mut bytes)).await;
        assert!(read.is_ok() || !bytes.is_empty(), "no answer: {read:?}");
        Answer::parse(&bytes)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.serving.iter().for_each(JoinHandle::abort);
    }
}

/// Sends a change as the dashboard's own pages do, and returns the status and the JSON of the answer.
pub(crate) async fn post(served: &Served, path: &str, body: Value) -> (u16, Value) {
    let answer = served.post(path, &body.to_string()).await;
    (answer.status, answer.json())
}

/// A request, header by header.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn new(method: &'static str, path: &str) -> Self {
        Self { method, path: path.to_owned(), headers: Vec::new(), body: String::new() }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    pub(crate) fn own(self) -> Self {
        OWN.iter().fold(self, |request, (name, value)| request.with(name, value))
    }

    pub(crate) fn body(mut self, body: &str) -> Self {
        self.body = body.to_owned();
        self
    }

    pub(crate) fn bytes(&self, address: SocketAddr) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\nconnection: close\r\n", self.method, self.path);
        let has = |name: &str| self.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        if !has("host") {
            text.push_str(&format!("host: {address}\r\n"));
        }
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if (!self.body.is_empty() || self.method == "POST") && !has("content-length") {
            text.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        text.push_str("\r\n");
        text.push_str(&self.body);
        text.into_bytes()
    }
}

/// The response to a request.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
}

impl Answer {
    fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
        let header = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        let headers: HashMap<_, _> = lines.filter_map(header).collect();
        let chunked = headers.get("transfer-encoding").is_some_and(|coding| coding == "chunked");
        let body = if chunked { dechunked(body) } else { body.to_owned() };
        Self { status: status.unwrap_or_else(|| panic!("no answer: {text:?}")), headers, body }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code of an error.
    pub(crate) fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }
}

fn dechunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap_or_default();
        if size == 0 || rest.len() < size {
            break;
        }
        whole.push_str(&rest[..size]);
        body = rest[size..].trim_start_matches("\r\n");
    }
    whole
}

/// An open event stream.
pub(crate) struct Events(Lines<BufReader<TcpStream>>);

impl Events {
    /// Opens a stream and returns its status as well.
    pub(crate) async fn open(served: &Served, query: &str) -> (u16, Self) {
        Self::open_with(served, query, "").await
    }

    /// [`open`](Self::open) with this cookie.
    pub(crate) async fn open_with(served: &Served, query: &str, cookie: &str) -> (u16, Self) {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        let head = format!(
            "GET /events{query} HTTP/1.1\r\nhost: {}\r\ncookie: {cookie}\r\naccept: text/event-stream\r\n\r\n",
            served.address
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut events = Self(BufReader::new(stream).lines());
        let status = events.line().await.split(' ').nth(1).unwrap().parse().unwrap();
        (status, events)
    }

    async fn line(&mut self) -> String {
        let line = soon(self.0.next_line()).await;
        line.unwrap().expect("an open stream")
    }

    /// Waits for the end of the stream; returns whether the server has written it, and did not just close the connection.
    pub(crate) async fn end(mut self) -> bool {
        let mut last = String::new();
        let read = async {
            while let Some(line) = self.0.next_line().await.unwrap() {
                if !line.is_empty() {
                    last = line;
                }
            }
        };
        soon(read).await;
        last == "0"
    }

    /// The data of the next event of this name.
    pub(crate) async fn next(&mut self, name: &str) -> String {
        soon(async { while self.line().await != format!("event: {name}") {} }).await;
        let line = self.line().await;
        line.strip_prefix("data: ").unwrap_or_else(|| panic!("no data: {line}")).to_owned()
    }
}

/// A client of the fixture's broker.
pub(crate) fn client<S: Store>(fixture: &Fixture<S>) -> Client {
    Client::new(fixture.shared())
}

/// A dashboard over the fixture's broker.
pub(crate) fn dashboard<S: Store>(fixture: &Fixture<S>) -> Dashboard {
    Dashboard::new(&client(fixture))
}

/// Pending `t1` and `t2`, scheduled `later`, archived `dead`, active `busy`, `member` in group `g`, and a periodic entry.
pub(crate) async fn furnish<S: Store>(fixture: &Fixture<S>) -> Furnished {
    let broker = fixture.broker();
    let busy = fixture.seed_active("busy").await;
    fixture.seed_pending(&["t1", "t2", ODD]).await;
    fixture.seed_scheduled("later", Duration::from_secs(3600)).await;
    fixture.enqueue(task("dead")).await;
    client(fixture).inspector().archive("default", "dead").await.unwrap();
    fixture.enqueue(task("member").grouped("g")).await;
    let id = EntryId::of("report", "");
    let plan = EntryPlan {
        queue: default_queue(),
        entry: id.clone(),
        spec: "0 9 * * *".into(),
        zone: "UTC".into(),
        revision: 1,
        supersedes: None,
        keep: Duration::from_secs(86_400),
    };
    broker.plan_entry(&plan).await.unwrap();
    show(fixture, id.as_str(), &[]).await;
    Furnished { entry: id.to_string(), busy }
}

/// An id with the characters that paths and pages must escape.
pub(crate) const ODD: &str = "a/b?\"<i>%";

/// The parts of the furnished store that tests need.
pub(crate) struct Furnished {
    /// The id of the periodic entry.
    pub(crate) entry: String,
    /// The run of `busy`.
    pub(crate) busy: Run,
}

/// Shows an entry as a scheduler does.
pub(crate) async fn show<S: Store>(fixture: &Fixture<S>, id: &str, options: &[&str]) {
    let entry = SchedulerEntry {
        id: id.to_owned(),
        spec: "0 9 * * *".into(),
        task_type: "report".into(),
        task_payload: "{}".into(),
        enqueue_options: options.iter().map(|option| (*option).to_owned()).collect(),
        next_enqueue_time: Some((fixture.now() + Duration::from_secs(60)).into()),
        prev_enqueue_time: Some(asynq_runtime::task::Timestamp::NEVER),
        ..SchedulerEntry::default()
    };
    let scheduler = format!("host:1:{id}");
    fixture.broker().show_entries(&scheduler, &[entry], Duration::from_secs(600)).await.unwrap();
}

/// A hash of [`PASSWORD`] at the lowest cost.
pub(crate) fn hash() -> String {
    let parameters = Params::new(16, 1, 1, None).unwrap();
    let cheap = Argon2::new(Algorithm::Argon2id, Version::V0x13, parameters);
    cheap.hash_password_with_salt(PASSWORD.as_bytes(), b"sixteen bytes ..").unwrap().to_string()
}

/// The password of every dashboard that requires one.
pub(crate) const PASSWORD: &str = "correct horse";
/// The token of every dashboard that requires one.
pub(crate) const TOKEN: &str = "0123456789abcdef-token";
