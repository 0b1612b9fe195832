//! The web applications of the examples, asked over HTTP.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use asynq_runtime::RawTask;
use asynq_tests::{Persistence, RedisServer, eventually_blocking, patient};
use tempfile::tempdir;
use tokio::runtime::Runtime;

use crate::program::Program;

/// The response to a request, head and body.
fn ask(program: &str, request: &str) -> String {
    let host = program[program.find("http://").unwrap()..].trim_start_matches("http://").trim();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "{request} HTTP/1.1\r\nhost: {host}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Asks for a result until there is one: the page waits for 5 seconds, in which a busy machine need not have run the task.
fn answer_to(place: &str, result: &str) -> String {
    eventually_blocking("the task has ended", || {
        let answer = ask(place, &format!("GET {result}"));
        (!answer.starts_with("HTTP/1.1 202")).then_some(answer)
    })
}

#[test]
fn an_axum_application_answers_with_the_result_of_a_task() {
    let folder = tempdir().unwrap();
    let redis = RedisServer::start(Persistence::None);
    let of_another_job = RawTask::new("another:job", "x").queue("another").task_id("other");
    Runtime::new().unwrap().block_on(async {
        patient::client(&redis.url()).await.enqueue_raw(of_another_job).await.unwrap();
    });
    for environment in [&[][..], &[("ASYNQ_URL", redis.url().as_str())]] {
        let program = Program::start("await_result", folder.path(), &[], environment);
        let place = program.line("http://");
        let begun = ask(&place, "POST /thumbnails/80");
        assert!(begun.starts_with("HTTP/1.1 202"), "{begun}");
        let result = begun.lines().find_map(|line| line.strip_prefix("location: ")).unwrap().trim();
        let answer = answer_to(&place, result);
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("240 bytes\n"), "{answer}");

        let begun = ask(&place, "POST /thumbnails/0");
        let failed = begun.lines().find_map(|line| line.strip_prefix("location: ")).unwrap().trim();
        let answer = answer_to(&place, failed);
        assert!(answer.starts_with("HTTP/1.1 422") && answer.ends_with("it failed\n"), "{answer}");
        for id in ["never", "other"] {
            assert!(ask(&place, &format!("GET /results/{id}")).starts_with("HTTP/1.1 404"), "{id}");
        }

        program.signal("INT");
        let (status, output) = program.end();
        assert!(status.success() && output.contains("left in order"), "{output}");
    }
}
