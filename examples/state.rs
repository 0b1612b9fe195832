//! Shared state: a database pool, an HTTP client, settings. The server is given a value once, and jobs ask for it by type.
//!
//! ```text
//! cargo run --example state -- enqueue greet '"Ann"' --url sqlite://asynq.db
//! cargo run --example state
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

use asynq_runtime::prelude::*;

/// State that every job may need; here a greeting and a counter, in your program a pool of connections.
struct Greeter {
    greeting: String,
    greeted: AtomicU64,
}

/// Greets one person. `greeter` comes from the server and is not part of the task; `name` is, and as the only argument
/// it is the whole payload.
#[job]
async fn greet(greeter: State<Greeter>, name: String) -> JobResult {
    let number = greeter.greeted.fetch_add(1, Ordering::Relaxed) + 1;
    println!("{}, {name}! You are number {number}.", greeter.greeting);
    Ok(())
}

/// Runs once at start, before the first task. If the state of a job is missing here, the program stops and names the job.
async fn setup(app: App) -> Result<App, BoxError> {
    Ok(app.state(Greeter { greeting: "Hello".to_owned(), greeted: AtomicU64::new(0) }))
}

asynq_runtime::main!(setup);
