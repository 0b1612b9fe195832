//! The dashboard in a real browser: pages, buttons, keys, a phone, hostile text, a broker that dies.
#![allow(clippy::unwrap_used)] // a test that fails here has failed

mod actions;
mod browser;
mod hands;
mod hostile;
mod kept;
mod pages;
mod pictures;
mod presses;
mod proxy;
mod search;
mod shop;
mod timing;
mod weight;
mod world;

use std::{future::Future, sync::LazyLock};

use asynq_tests::skip;
use tokio::runtime::{Builder, Runtime};

/// Shared by all cases: a browser that one case leaves to the next is driven by a task of this runtime.
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap());

/// Runs a case to its end. Without a browser the test is skipped.
fn wait<F: Future<Output = ()>>(case: F) {
    if !browser::is_here() {
        skip!("{}", browser::NO_BROWSER);
    }
    RUNTIME.block_on(case);
}
