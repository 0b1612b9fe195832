//! The web applications of the examples, asked over HTTP.

use asynq_runtime::RawTask;
use asynq_tests::{Persistence, RedisServer, eventually_blocking, patient};
use tempfile::tempdir;
use tokio::runtime::Runtime;

use crate::{
    process::{self, address_in},
    program::start,
};

/// The response to a request, head and body, at the URL in a line that the program has printed.
fn ask(line: &str, request: &str) -> String {
    process::ask(address_in(line), request, "content-length: 0\r\n").unwrap()
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
        patient::client(&redis.url()).await.enqueue(of_another_job).await.unwrap();
    });
    for environment in [&[][..], &[("ASYNQ_URL", redis.url().as_str())]] {
        let program = start("await_result", folder.path(), &[], environment);
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

        program.process.signal("INT");
        let (status, output) = program.end();
        assert!(status.success() && output.contains("left in order"), "{output}");
    }
}
