//! What a worker on its own broker writes to the log when it leaves in order: nothing to worry about.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used)]

use std::{
    io,
    sync::{Arc, Mutex},
};

use asynq_runtime::prelude::*;
use tracing_subscriber::{filter::LevelFilter, fmt::MakeWriter};

#[job]
async fn nothing() -> JobResult {
    Ok(())
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

// The server logs on a thread of its own, so the subscriber is the whole program's: one test in this file.
#[tokio::test]
async fn a_worker_that_leaves_in_order_warns_of_nothing() {
    let log = Log::default();
    tracing_subscriber::fmt().with_max_level(LevelFilter::WARN).with_writer(log.clone()).init();
    let folder = tempfile::tempdir().unwrap();
    for url in ["sqlite::memory:".to_owned(), format!("sqlite://{}", folder.path().join("jobs.db").display())] {
        for _ in 0..5 {
            let server = Server::builder(&url).registry(Registry::only::<(nothing,)>().unwrap()).build().await.unwrap();
            let running = server.start().await.unwrap();
            nothing::enqueue(&running.client()).await.unwrap();
            running.signals().settled.reached(1).await;
            running.signals().subscribed.reached(1).await;
            running.shutdown().await.unwrap();
        }
    }
    let written = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert_eq!(written, "");
}
