//! The backtrace of a panic, if the environment asks for one.

use asynq_runtime::{Client, TaskState, prelude::*};

use super::{memory, server, settled, start};
use crate::child::Program;

#[job(retry = 0)]
async fn falls(cause: String) -> JobResult {
    walks(&cause)
}

#[job(retry = 0)]
fn falls_on_a_thread(cause: String) -> JobResult {
    walks(&cause)
}

// `inline(never)` keeps these frames; the body of a job may be inlined.
#[inline(never)]
fn walks(cause: &str) -> ! {
    stumbles(cause)
}

#[inline(never)]
fn stumbles(cause: &str) -> ! {
    panic!("over {cause}");
}

/// The child's part: prints the errors of two jobs that panic, in a program with a panic hook of its own.
pub(crate) async fn panics() {
    std::panic::set_hook(Box::new(|info| println!("the hook of the program: {info}")));
    let broker = memory().await;
    let client = Client::new(broker.clone());
    let (builder, _log) = server::<(falls, falls_on_a_thread)>(&broker);
    falls::job("a stone").task_id("a").enqueue(&client).await.unwrap();
    falls_on_a_thread::job("a thread").task_id("b").enqueue(&client).await.unwrap();
    let running = start(builder).await;
    for id in ["a", "b"] {
        let error = settled(&broker, &running, id, TaskState::Archived).await.last_error.unwrap();
        assert!(error.len() <= 4096, "{}", error.len());
        for line in error.lines() {
            println!("error {id}: {line}");
        }
        println!("end {id}");
    }
}

/// Returns the child's error of each task, and the number of calls of its own hook.
fn errors(backtrace: &str) -> (Vec<String>, usize) {
    let mut child = Program::start_by(&["env", "-u", "RUST_LIB_BACKTRACE", backtrace], "panics", "");
    let (mut errors, mut own, mut ended) = (Vec::new(), 0, 0);
    while ended < 2 {
        let line = child.next_line();
        own += usize::from(line.contains("the hook of the program: panicked at"));
        ended += usize::from(line.starts_with("end "));
        errors.extend(line.starts_with("error ").then_some(line));
    }
    (errors, own)
}

#[test]
fn a_panic_keeps_the_newest_frames_where_the_environment_asks_for_them() {
    let (errors, own) = errors("RUST_BACKTRACE=1");
    assert_eq!(own, 2, "the hook that was there is called, too");
    for id in ["a", "b"] {
        let lines: Vec<_> = errors.iter().filter_map(|line| line.strip_prefix(&format!("error {id}: "))).collect();
        assert!(lines[0].contains("panic [") && lines[0].contains("]: over a"), "{lines:#?}");
        assert!(lines[1].contains("backtraces::stumbles"), "the frame nearest to the panic is first: {lines:#?}");
        assert!(lines[2..].iter().any(|line| line.contains("backtraces::walks")), "{lines:#?}");
        let frames = lines[1..].concat();
        for foreign in ["core::panicking", "catch", "tokio::runtime"] {
            assert!(!frames.contains(foreign), "{lines:#?}");
        }
    }
}

#[test]
fn a_panic_is_one_line_where_the_environment_does_not_ask_for_more() {
    let (errors, own) = errors("RUST_BACKTRACE=0");
    assert_eq!((errors.len(), own), (2, 2), "{errors:#?}");
}
