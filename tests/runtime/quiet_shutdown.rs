//! The log of a worker on its own broker that shuts down in order: it has no warning.

use asynq_runtime::prelude::*;
use tracing_subscriber::filter::LevelFilter;

use crate::child::Program;

#[job]
async fn nothing() -> JobResult {
    Ok(())
}

/// The child's part: starts and stops servers, whose log goes to the standard output.
pub(crate) async fn leaves_in_order() {
    tracing_subscriber::fmt().with_max_level(LevelFilter::WARN).with_ansi(false).init();
    println!("\nbegins");
    let folder = tempfile::tempdir().unwrap();
    for url in ["sqlite::memory:".to_owned(), format!("sqlite://{}", folder.path().join("jobs.db").display())] {
        for _ in 0..5 {
            let server = Server::builder(&url).registry(Registry::only::<(nothing,)>().unwrap()).build().await.unwrap();
            let running = server.start().await.unwrap();
            nothing::enqueue(&running.client()).await.unwrap();
            running.signals().settled.reached(1).await;
            running.signals().subscribed.reached(1).await;
            running.shutdown().await.unwrap();
            println!("left");
        }
    }
}

// A server logs on a thread of its own, so the subscriber has to be that of the whole program.
#[test]
fn a_worker_that_leaves_in_order_warns_of_nothing() {
    let mut program = Program::start("quiet_shutdown", "");
    program.prints("begins");
    for _ in 0..10 {
        assert_eq!(program.next_line(), "left");
    }
    assert!(program.ended().success());
}
