//! `web`: the dashboard, served by the real program.

use std::{
    ffi::OsStr,
    future::ready,
    os::unix::ffi::OsStrExt as _,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use asynq_test_support::process::{Program, address_in, ask_host};
use asynq_tests::{SqliteStore, Store as _};

use crate::{
    fixture::{self, Setting, TypeWithoutEcho},
    process::{asynq, ends, text},
};

/// A dashboard that listens.
struct Web {
    program: Program,
    address: String,
}

impl Web {
    async fn start(store: &SqliteStore, more: &[&str], variables: &[(&str, &str)]) -> Self {
        // Looking creates no file: this connection creates it.
        store.connect(None).await;
        let url = store.url();
        let args = [&["--url", &url, "web", "--listen", "127.0.0.1:0", "--json"][..], more].concat();
        let mut command = asynq(&args);
        command.envs(variables.iter().copied());
        let program = Program::start(command);
        let address = address_in(&program.line("\"url\": ")).to_owned();
        Self { program, address }
    }

    /// Returns the status of an answer.
    fn ask(&self, method: &str, path: &str, headers: &str) -> u16 {
        let answer = self.answer(&self.address, method, path, headers);
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        status.unwrap_or_else(|| panic!("{answer}"))
    }

    /// Returns the answer to a request by this host name.
    fn answer(&self, host: &str, method: &str, path: &str, headers: &str) -> String {
        ask_host(host, &self.address, &format!("{method} {path}"), headers).unwrap()
    }

    /// Ends it by Ctrl+C, and returns all that it wrote.
    fn interrupt(self) -> String {
        self.program.process.signal("INT");
        let (status, output) = self.program.end();
        assert!(status.success(), "{status}: {output}");
        output
    }
}

#[tokio::test]
async fn the_dashboard_is_served_until_ctrl_c() {
    let store = SqliteStore::start().await;
    let web = Web::start(&store, &["--title", "Mails"], &[]).await;
    assert_eq!(web.ask("GET", "/", ""), 200);
    let url = format!("http://{}/", web.address);
    let report: serde_json::Value = serde_json::from_str(&web.interrupt()).unwrap();
    assert_eq!(report, serde_json::json!({ "url": url }));
}

/// A supervisor such as systemd starts it anew, on the file that is there now.
#[tokio::test]
async fn the_dashboard_of_a_file_that_was_deleted_ends_with_the_reason() {
    let store = SqliteStore::start().await;
    let web = Web::start(&store, &[], &[]).await;
    std::fs::remove_file(store.path()).unwrap();
    let (status, output) = web.program.end();
    assert!(!status.success() && output.contains("was deleted or moved away while it was in use"), "{output}");
}

#[tokio::test]
async fn another_host_name_is_refused_with_the_flag_that_allows_it() {
    let store = SqliteStore::start().await;
    let variables = [("ASYNQ_DASHBOARD_TRUSTED_PROXIES", "10.0.0.5, 2001:db8::1")];
    let web = Web::start(&store, &["--allow-host", "jobs.example.com"], &variables).await;
    let refused = web.answer("other.example.com", "GET", "/api/queues", "");
    assert!(refused.starts_with("HTTP/1.1 403 ") && refused.contains("`--allow-host other.example.com`"), "{refused}");
    assert!(!refused.contains("--dashboard-host"), "that is a worker's: {refused}");
    let allowed = web.answer("jobs.example.com", "GET", "/api/queues", "");
    assert!(allowed.starts_with("HTTP/1.1 200 "), "{allowed}");
    web.interrupt();
    let args = ["--url", &store.url(), "web", "--listen", "0"];
    let output = asynq(&args).env("ASYNQ_DASHBOARD_TRUSTED_PROXIES", "10.0.0.0/8").output().unwrap();
    ends(&output, 2);
    assert!(text(&output.stderr).contains("`10.0.0.0/8` is not an address"), "{}", text(&output.stderr));
}

#[tokio::test]
async fn a_password_and_a_token_come_from_files_or_variables() {
    let store = SqliteStore::start().await;
    let folder = tempfile::tempdir().unwrap();
    let (hash, token) = (folder.path().join("hash"), folder.path().join("token"));
    let piped = Setting { piped: b"a password of mine\n", ..Setting::default() };
    let hashed = fixture::run(None, piped, &["hash-password"]).await;
    assert!(hashed.code == 0 && hashed.out.starts_with("$argon2id$"), "{hashed}");
    std::fs::write(&hash, &hashed.out).unwrap();
    std::fs::write(&token, "a-token-of-mine-that-is-long-enough-0123456789\n").unwrap();
    let bearer = "authorization: Bearer a-token-of-mine-that-is-long-enough-0123456789\r\n";
    let (hash, token) = (hash.to_str().unwrap(), token.to_str().unwrap());
    for (flags, variables) in [
        (&["--password-hash-file", hash, "--token-file", token][..], &[][..]),
        (&[], &[("ASYNQ_DASHBOARD_PASSWORD_HASH", hashed.out.trim()), ("ASYNQ_DASHBOARD_TOKEN_FILE", token)]),
    ] {
        let web = Web::start(&store, flags, variables).await;
        assert_ne!(web.ask("GET", "/", ""), 200, "without a login nothing is shown");
        assert_eq!(web.ask("GET", "/", bearer), 200);
        web.interrupt();
    }
}

#[tokio::test]
async fn a_login_that_is_not_utf8_text_is_not_taken_for_unset() {
    let store = SqliteStore::start().await;
    store.connect(None).await;
    // An address that is in use: a dashboard that took the variable for unset would end as well.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (url, address) = (store.url(), taken.local_addr().unwrap().to_string());
    for name in ["TOKEN", "TOKEN_FILE", "PASSWORD_HASH", "PASSWORD_HASH_FILE", "TRUSTED_HEADER", "READ_ONLY"] {
        let variable = format!("ASYNQ_DASHBOARD_{name}");
        let mut web = asynq(&["--url", &url, "web", "--listen", &address]);
        let output = web.env(&variable, OsStr::from_bytes(b"\xffa-token-of-mine-0123456789")).output().unwrap();
        ends(&output, 2);
        assert_eq!(text(&output.stderr), format!("error: {variable}: its value is not UTF-8 text\n"));
    }
}

#[tokio::test]
async fn a_password_in_place_of_its_hash_is_refused_and_not_repeated() {
    let store = SqliteStore::start().await;
    store.connect(None).await;
    // An address that is in use: a dashboard that ignored the variable would end as well.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (url, address) = (store.url(), taken.local_addr().unwrap().to_string());
    let web = |variable: &str, value: &str| {
        asynq(&["--url", &url, "web", "--listen", &address]).env(variable, value).output().unwrap()
    };
    for variable in ["ASYNQ_DASHBOARD_PASSWORD", "ASYNQ_DASHBOARD_PASSWORD_FILE"] {
        let output = web(variable, "canary");
        ends(&output, 2);
        let says = "a dashboard takes only the hash of a password: set ASYNQ_DASHBOARD_PASSWORD_HASH to the output of \
                    `asynq hash-password`, or ASYNQ_DASHBOARD_PASSWORD_HASH_FILE to the path of a file that holds it";
        assert_eq!(text(&output.stderr), format!("error: {variable}: {says}\n"));
        let blank = web(variable, " ");
        assert!(text(&blank.stderr).contains(&address), "a blank one counts as not set: {}", text(&blank.stderr));
    }
}

#[tokio::test]
async fn a_dashboard_without_a_login_refuses_other_machines() {
    let store = SqliteStore::start().await;
    let client = asynq_runtime::Client::new(store.connect(None).await);
    let open = fixture::run(Some(client.clone()), Setting::default(), &["web", "--listen", "0.0.0.0:0"]).await;
    assert_eq!((open.code, open.out.as_str()), (2, ""), "{open}");
    assert!(open.err.contains("would be open to every client") && open.err.contains("ASYNQ_DASHBOARD_PASSWORD_HASH"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let client = asynq_runtime::Client::new(store.connect(None).await);
    let busy = fixture::run(Some(client), Setting::default(), &["web", "--listen", &address]).await;
    assert_eq!(busy.code, 1, "{busy}");
    assert!(busy.err.contains(&address), "{busy}");
}

#[tokio::test]
async fn a_password_is_typed_without_echo_and_never_a_flag() {
    let typed = Setting { typed: Some(""), ..Setting::default() };
    let hashed = fixture::run(None, typed, &["hash-password", "--json"]).await;
    let report: serde_json::Value = serde_json::from_str(&hashed.out).unwrap();
    assert!(report["hash"].as_str().unwrap().starts_with("$argon2id$"), "{hashed}");
    assert_eq!(hashed.err, "Password: \nOnce more: \n");
    let typing = async |types: TypeWithoutEcho| {
        let setting = Setting { typed: Some(""), types_without_echo: Some(types), ..Setting::default() };
        fixture::run(None, setting, &["hash-password"]).await
    };
    let differing = typing(|| {
        static TYPED: AtomicU32 = AtomicU32::new(0);
        Box::pin(ready(Ok(format!("password {}", TYPED.fetch_add(1, Relaxed)))))
    });
    let differing = differing.await;
    assert!(differing.code == 2 && differing.out.is_empty(), "{differing}");
    assert!(differing.err.contains("the two lines differ") && !differing.err.contains("password 0"), "{differing}");
    let stopped = typing(|| Box::pin(ready(Err(std::io::ErrorKind::Interrupted.into())))).await;
    assert!(stopped.code == 130 && stopped.out.is_empty(), "{stopped}");
    let empty = fixture::run(None, Setting::default(), &["hash-password"]).await;
    assert_eq!((empty.code, empty.out.as_str()), (2, ""), "an empty text is not a password: {empty}");
    assert!(empty.err.contains("a password has 1 to 1024 bytes, and this one 0"), "{empty}");
    for (length, code) in [(asynq_dashboard::MAX_PASSWORD_BYTES, 0), (asynq_dashboard::MAX_PASSWORD_BYTES + 1, 2)] {
        let piped = [&vec![b'x'; length][..], b"\n"].concat();
        let hashed = fixture::run(None, Setting { piped: &piped, ..Setting::default() }, &["hash-password"]).await;
        assert_eq!(hashed.code, code, "{length}: {hashed}");
    }
    for words in [["web", "--password-hash", "x"], ["web", "--token", "x"]] {
        let refused = fixture::run(None, Setting::default(), &words).await;
        assert_eq!(refused.code, 2, "{refused}");
    }
}
