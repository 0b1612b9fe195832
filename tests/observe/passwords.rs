//! A password is nowhere: not in errors, `Debug`, log lines, help, or the output of commands.

use std::{error::Error, process::Output};

use asynq_runtime::{broker::BrokerErrorKind, prelude::*};
use asynq_tests::{Persistence, RedisServer};

use crate::{
    process::program,
    scrape::{get, observed},
    seen::Seen,
    stage::text,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_neighbours");
/// With characters that have to be percent-encoded in a URL, so that it has two forms.
const PASSWORD: &str = "p@ss/kanarek:77?#";
const ENCODED: &str = "p%40ss%2Fkanarek%3A77%3F%23";
/// A part that both forms contain.
const CANARY: &str = "kanarek";

#[track_caller]
fn is_clean(label: &str, text: &str) {
    for form in [PASSWORD, ENCODED, CANARY, "%6banarek"] {
        assert!(!text.contains(form), "{label} shows the password: {text}");
    }
}

/// The complete text of an error, with its causes.
fn text_of(error: &(dyn Error + 'static)) -> String {
    let mut text = format!("{error} {error:?} {error:#?}");
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(" {error} {error:?}"));
        cause = error.source();
    }
    text
}

/// URLs that cannot be used, each with the password somewhere.
fn bad_urls() -> Vec<String> {
    let mut urls = Vec::new();
    for password in [ENCODED, "kanarek", "kanarek%zz", "%6banarek%00"] {
        for url in [
            "redis://jobs:PASSWORD@127.0.0.1:1/0",
            "redis://:PASSWORD@127.0.0.1:1",
            "redis://jobs:PASSWORD@127.0.0.1:notaport/0",
            "redis://jobs:PASSWORD@127.0.0.1:1/notadatabase",
            "redis://jobs:PASSWORD@127.0.0.1:1/0?lease=never",
            "redis://jobs:PASSWORD@",
            "redis://jobs:PASSWORD@[::1",
            "rediss://jobs:PASSWORD@127.0.0.1:1",
            "redis-cluster://jobs:PASSWORD@127.0.0.1:1,127.0.0.1:2",
            "redis-sentinel://jobs:PASSWORD@127.0.0.1:1/0?master=m&sentinel_pass=PASSWORD",
            "redis-sentinel://jobs:PASSWORD@127.0.0.1:1/0",
            "redis+unix:///nowhere/redis.sock?user=jobs&pass=PASSWORD",
            "postgres://jobs:PASSWORD@127.0.0.1/jobs",
            "jobs:PASSWORD@127.0.0.1",
            " redis://jobs:PASSWORD@127.0.0.1:1",
        ] {
            urls.push(url.replace("PASSWORD", password));
        }
    }
    urls
}

#[tokio::test]
async fn no_error_about_a_url_shows_its_password() {
    let seen = Seen::all();
    for url in bad_urls() {
        let error = Client::connect(&url).await.expect_err(&url);
        is_clean(&url, &text_of(&error));
        let builder = Server::builder(&url);
        is_clean(&url, &format!("{builder:?} {builder:#?}"));
        is_clean(&url, &text_of(&builder.build().await.expect_err(&url)));
    }
    is_clean("the log", &seen.lines());
}

#[tokio::test]
async fn neither_a_wrong_password_nor_the_right_one_is_shown() {
    let seen = Seen::all();
    let redis = RedisServer::start(Persistence::None);
    let mut command = redis::cmd("ACL");
    command.arg("SETUSER").arg("jobs").arg("on").arg(format!(">{PASSWORD}")).arg("~*").arg("&*").arg("+@all");
    command.exec(&mut redis.connection()).unwrap();
    let wrong = format!("redis://jobs:{ENCODED}x@127.0.0.1:{}/0", redis.port());
    let error = Client::connect(&wrong).await.unwrap_err();
    assert_eq!(error.kind(), BrokerErrorKind::Denied, "{error}");
    is_clean("a wrong password", &text_of(&error));

    let right = format!("redis://jobs:{ENCODED}@127.0.0.1:{}/0", redis.port());
    let server = Server::builder(&right).state(Client::connect(&right).await.unwrap()).build().await.unwrap();
    is_clean("a server", &format!("{server:?} {:?}", server.broker()));
    let running = server.start().await.unwrap();
    let client = &running.client();
    is_clean("a client", &format!("{client:?} {client:#?} {running:?} {}", client.broker().location()));
    client.enqueue(RawTask::new("nobody:knows", "")).await.unwrap();
    let statistics = client.inspector().statistics().await.unwrap();
    is_clean("statistics", &format!("{statistics:?} {}", statistics.to_json()));
    let router = observed(client);
    for path in ["/metrics", "/stats", "/readyz"] {
        is_clean(path, &get(&router, path).await.2);
    }
    // The login is revoked while everything runs, so that every component has errors.
    redis::cmd("ACL")
        .arg("SETUSER")
        .arg("jobs")
        .arg(">other")
        .arg(format!("<{PASSWORD}"))
        .exec(&mut redis.connection())
        .unwrap();
    redis::cmd("CLIENT").arg("KILL").arg("USER").arg("jobs").exec(&mut redis.connection()).unwrap();
    let error = client.inspector().queues().await.expect_err("no client is let in any more");
    is_clean("a lost password", &text_of(&error));
    let _ = running.shutdown().await;
    assert!(seen.lines().contains("serving"), "it was not looked at");
    is_clean("the log", &seen.lines());
}

fn all_of(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn no_program_of_main_prints_a_password() {
    let others = [&["enqueue", "hello", r#""ann""#][..], &["jobs"], &["--help"], &["stats", "--hepl"]];
    for (n, url) in bad_urls().into_iter().enumerate() {
        // The same code reads the URL for all commands, so each URL is tested with one of the others.
        for args in [&["stats"][..], &["worker"], others[n % others.len()]] {
            let by_flag = program(PROGRAM).env("RUST_LOG", "trace").args(args).args(["--url", &url]).output().unwrap();
            is_clean(&format!("{args:?}"), &all_of(&by_flag));
            if url.ends_with("/0") {
                let by_variable = program(PROGRAM).env("ASYNQ_URL", &url).args(args).output().unwrap();
                is_clean(&format!("{args:?} by variable"), &all_of(&by_variable));
            }
        }
    }
}

#[test]
fn a_url_in_the_wrong_place_is_not_repeated() {
    is_not_repeated(&format!("redis://jobs:{ENCODED}@127.0.0.1:1/0"));
    is_not_repeated("redis://jobs:correct kanarek's@127.0.0.1:1/0");
    for url in ["redis+unix:///r.sock?user=jobs&pass=it's-kanarek", "redis+unix:///r.sock?pass=correct kanarek's"] {
        let output = program(PROGRAM).args(["stats", url]).output().unwrap();
        assert!(!output.status.success());
        is_clean(url, &all_of(&output));
    }
}

fn is_not_repeated(url: &str) {
    // Without the invalid weight, the argument would be the name of a queue.
    let with_weight = format!("{url}=x");
    for args in [
        &["--ulr", url][..],
        &["stats", url],
        &["worker", "--queues", &with_weight],
        &["--concurrency", url],
        &["--log-format", url],
        &["--shutdown-timeout", url],
        &["--only", url],
        &["enqueue", url],
        &["enqueue", "hello", url],
        &["enqueue", "hello", r#""ann""#, "--at", url],
        &[url],
    ] {
        let output = program(PROGRAM).args(args).output().unwrap();
        assert!(!output.status.success(), "{args:?}");
        is_clean(&format!("{args:?}"), &all_of(&output));
    }
}
