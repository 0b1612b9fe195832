//! A worker. `cargo run` runs jobs; `cargo run -- jobs` lists them, `cargo run -- enqueue greet '"Ann"'` enqueues one once a
//! worker has run, and `cargo run -- jobs --lock` writes the file that shows in review whether a deploy strands tasks.

use asynq_jobs::prelude::*;

/// State that jobs share.
struct Settings {
    greeting: String,
}

/// Greets a person.
#[job(retry = 5, timeout = "1m")]
async fn greet(settings: State<Settings>, name: String) -> JobResult {
    println!("{}, {name}!", settings.greeting);
    Ok(())
}

/// Runs on a schedule, once however many workers there are.
#[periodic("0 9 * * mon-fri", tz = "Europe/Berlin")]
async fn good_morning(ctx: &JobContext) -> JobResult {
    greet::enqueue(&ctx.client()?, "world").await?;
    Ok(())
}

/// Runs before the worker takes its first task.
async fn setup(app: App) -> Result<App, BoxError> {
    Ok(app.state(Settings { greeting: "Hello".to_owned() }))
}

asynq_jobs::main!(setup);
