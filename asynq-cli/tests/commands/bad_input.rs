//! Bad input is refused with one clear line and an exit code, and nothing is lost.

use asynq_runtime::Client;
use asynq_tests::{Persistence, RedisServer, SqliteStore, Store as _};

use crate::fixture::{self, Setting, assert_written, on_both_brokers};

on_both_brokers! {
    async fn unknown_queues_tasks_entries_and_states(cli) {
        cli.t.seed_every_state().await;
        let before = cli.t.store.dump();
        let mut answers = Vec::new();
        for line in [
            "queue inspect nix default",
            "queue inspect nix --json",
            "queue history nix",
            "queue rm nix --yes",
            "task ls -q nix -s pending",
            "task ls -q default -s running",
            "task ls -q default -s pending -g mails",
            "task ls -q default -s pending --page 0",
            "task ls -q default -s pending --size 501",
            "task ls -s pending",
            "task inspect -q nix x",
            "task inspect -q default x",
            "task inspect -q default",
            "task run -q default x",
            "task run -q nix x --json",
            "task delete -q default active --yes",
            "task archive -q default archived",
            "task move -q default pending --to default",
            "task move -q default pending --to a{b}",
            "task move -q default active --to low",
            "task delete-all -q nix -s pending --yes",
            "task enqueue -t mail",
            "task enqueue -t mail -l {} --payload-file x",
            "task enqueue -t mail -l {} --timeout 5",
            "task enqueue -t mail -l {} --process-at tomorrow",
            "task enqueue -t mail -l {} --process-in 1m --process-at 2030-01-02T03:04:05Z",
            "task enqueue -t mail -l {} --unique-until never --unique 1h",
            "task enqueue -t mail -l {} --header x",
            "task enqueue -t mail -l {} -q a{b}",
            "task enqueue -t mail -l {} --id cron:x",
            "task enqueue -t mail -l {} --retry -1",
            "queue history default -x 0",
            "group ls -q nix",
            "cron history nix",
            "cron run nix",
            "cron pause nix",
            "queue lss",
        ] {
            answers.push(cli.run(line).await);
        }
        answers.push(cli.run_words(&["queue", "inspect", ""]).await);
        answers.push(cli.run_words(&["task", "cancel", " "]).await);
        answers.push(cli.run_words(&["task", "enqueue", "-t", "", "-l", "{}"]).await);
        assert_written("bad_input", &answers);
        assert_eq!(cli.t.store.dump(), before, "nothing was changed");
        let nothing = cli.run("").await;
        assert!(nothing.code == 2 && nothing.err.contains("Usage: asynq"), "{nothing}");
    }
}

#[tokio::test]
async fn json_that_programs_refuse_is_refused_before_its_task_runs() {
    let store = SqliteStore::start().await;
    for payload in [r#""\ud800""#, "1e999"] {
        for (flags, code) in [(&[][..], 2), (&["--raw"], 0)] {
            let client = Client::new(store.connect(None).await);
            let words = [&["task", "enqueue", "-t", "mail", "-l", payload][..], flags].concat();
            let answer = fixture::run(Some(client), Setting::default(), &words).await;
            assert_eq!((answer.code, answer.err.contains("is not JSON")), (code, code == 2), "{answer}");
        }
    }
}

const CANARY: &str = "canary-password";

#[tokio::test]
async fn an_unreachable_broker_is_reported_without_its_password() {
    let password = RedisServer::with_password("right");
    for (url, part) in [
        (format!("redis://:{CANARY}@127.0.0.1:1/0"), "127.0.0.1:1"),
        (format!("redis://:{CANARY}@127.0.0.1:{}/0", password.port()), "password"),
        (format!("nonsense://{CANARY}"), "sqlite://"),
        (CANARY.to_owned(), "sqlite://"),
        ("sqlite:///no/such/folder/jobs.db".to_owned(), "no SQLite file"),
    ] {
        let answer = fixture::run(None, Setting::default(), &["--url", &url, "stats"]).await;
        assert_eq!((answer.code, answer.out.as_str()), (2, ""), "{answer}");
        assert!(answer.err.contains(part), "{answer}");
        assert!(!answer.err.contains(CANARY), "{answer}");
        assert_eq!(answer.err.lines().count(), 1, "{answer}");
    }
}

#[tokio::test]
async fn a_broker_that_cannot_be_opened_is_not_a_finding() {
    let folder = tempfile::tempdir().unwrap();
    let [text, shared] = ["text", "shared"].map(|name| folder.path().join(name).display().to_string());
    std::fs::write(&text, "no database, but a text that is longer than the head of one. ".repeat(100)).unwrap();
    let words = ["--url", &format!("sqlite://{shared}?shared=1"), "task", "enqueue", "-t", "mail", "-l", "{}"];
    assert_eq!(fixture::run(None, Setting::default(), &words).await.code, 0);
    let server = RedisServer::start(Persistence::None);
    for (url, part) in [
        (format!("sqlite://{text}"), "SQLite"),
        (format!("sqlite://{shared}"), "add ?shared=1 to the URL"),
        (format!("redis://127.0.0.1:{}/99", server.port()), "out of range"),
    ] {
        for command in ["stats", "doctor"] {
            let answer = fixture::run(None, Setting::default(), &["--url", &url, command]).await;
            assert_eq!((answer.code, answer.out.as_str()), (2, ""), "{answer}");
            assert!(answer.err.contains(part), "{answer}");
        }
    }
}

#[tokio::test]
async fn a_url_in_the_wrong_place_is_reported_without_its_password() {
    let store = SqliteStore::start().await;
    let url = format!("redis://jobs:{CANARY}@h");
    for words in [
        &["deploy", "check", &url][..],
        &["web", "--listen", &url],
        &["web", "--listen", "127.0.0.1:0", "--allow-host", &url],
        &["web", "--listen", "127.0.0.1:0", "--token-file", &url],
        &["queue", "inspect", &url],
        &["group", "ls", "-q", &url],
        &["task", "enqueue", "-t", "mail", "--payload-file", &url],
        // The question repeats it, too.
        &["task", "delete", "-q", &url, "x"],
    ] {
        let client = Client::new(store.connect(None).await);
        let setting = Setting { typed: Some("n\n"), ..Setting::default() };
        let answer = fixture::run(Some(client), setting, words).await;
        assert_ne!(answer.code, 0, "{answer}");
        assert!(answer.err.contains("redis://jobs:***@h"), "{answer}");
        assert!(!answer.err.contains(CANARY) && !answer.out.contains(CANARY), "{answer}");
    }
}

#[tokio::test]
async fn a_name_with_a_colon_and_an_at_sign_is_repeated_whole() {
    let store = SqliteStore::start().await;
    for (flags, is_json) in [(&[][..], false), (&["--json"], true)] {
        let client = Client::new(store.connect(None).await);
        let words = [&["queue", "inspect", "welcome:ann@example.com"][..], flags].concat();
        let answer = fixture::run(Some(client), Setting::default(), &words).await;
        let error = "queue `welcome:ann@example.com` was not found";
        assert!(answer.err.contains(error) && answer.out.contains(error) == is_json, "{answer}");
    }
}

#[tokio::test]
async fn a_broker_that_dies_is_reported_and_the_rest_is_not_tried() {
    let mut server = RedisServer::start(Persistence::None);
    let client = Client::connect(&server.url()).await.unwrap();
    server.kill();
    let answer = fixture::run(Some(client), Setting::default(), &["queue", "pause", "a", "b", "--json"]).await;
    assert_eq!(answer.code, 2, "{answer}");
    let rows: Vec<serde_json::Value> = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(rows.len(), 1, "{answer}");
    assert!(rows[0]["queue"] == "a" && rows[0]["error"].is_string(), "{answer}");
}

#[tokio::test]
async fn looking_makes_no_sqlite_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.db");
    let url = format!("sqlite://{}", file.display());
    let looked = fixture::run(None, Setting::default(), &["--url", &url, "stats"]).await;
    assert_eq!(looked.code, 2, "{looked}");
    assert!(!file.exists());
    let words = ["--url", &url, "task", "enqueue", "-t", "mail", "-l", "{}", "--id", "first"];
    assert_eq!(fixture::run(None, Setting::default(), &words).await.code, 0);
    let looked = fixture::run(None, Setting::default(), &["--url", &url, "queue", "ls"]).await;
    assert_eq!((looked.code, looked.out.as_str()), (0, "default\n"));
}
