//! Shared state: a database pool, an HTTP client, settings. Given once, asked for by type.
//!
//! ```text
//! cargo run --example state -- enqueue greet '"Ann"'
//! cargo run --example state
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

use asynq_runtime::prelude::*;

/// What every job may need; here a greeting and a counter, in your program a pool of connections.
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

/// Runs once at start, before the first task. A job whose state is missing here stops the program with its name.
async fn setup(app: App) -> Result<App, BoxError> {
    Ok(app.state(Greeter { greeting: "Hello".to_owned(), greeted: AtomicU64::new(0) }))
}

asynq_runtime::main!(setup);
