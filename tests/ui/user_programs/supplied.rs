//! Parameters that the worker supplies and no caller passes.

use std::sync::{LazyLock, Mutex};

use asynq_runtime::prelude::*;

struct Pool;
struct Config {
    from: String,
}

static CONFIG: LazyLock<Config> = LazyLock::new(|| Config { from: "me".to_owned() });

#[job(name = "user:state")]
async fn state(pool: State<Pool>, log: State<Mutex<Vec<String>>>, to: String) -> JobResult {
    let _ = &*pool;
    log.lock().expect("no thread panicked with it").push(to);
    Ok(())
}

#[job(name = "user:static_state")]
async fn static_state(config: State<&'static Config>) -> JobResult {
    println!("{} {}", config.from, CONFIG.from);
    Ok(())
}

#[job(name = "user:shared")]
async fn shared(pool: Shared<Pool>) {
    let _ = &*pool;
}

#[job(name = "user:client")]
async fn client(client: State<Client>, user: u64) -> JobResult {
    super::options::plain::enqueue(&client, user.to_string()).await?;
    Ok(())
}

#[job(name = "user:own_broker")]
async fn own_broker(ctx: &JobContext, user: u64) -> JobResult {
    super::options::plain::job(user.to_string()).process_in("1h").enqueue(&ctx.client()?).await?;
    Ok(())
}

struct Tenant(String);

impl FromContext for Tenant {
    async fn from_context(ctx: &JobContext) -> JobResult<Self> {
        Ok(Self(ctx.header("tenant").ok_or_else(|| JobError::skip_retry("no tenant"))?.to_owned()))
    }
}

#[job(name = "user:extractor")]
async fn extractor(#[from_context] tenant: Tenant, month: u8) -> JobResult {
    println!("{} {month}", tenant.0);
    Ok(())
}

#[job(name = "user:checkpoint")]
async fn checkpoint(ctx: &JobContext, cursor: Checkpoint<u64>, file: String) -> JobResult {
    for line in cursor.get().unwrap_or_default()..10 {
        println!("{file}:{line}");
        cursor.save(line + 1).await?;
        if ctx.is_stopping() {
            break;
        }
    }
    Ok(())
}

type Walks = Vec<walk>;

/// The jobs that are still to be enqueued are of its own type, which the macro cannot see.
#[job(name = "user:checkpoint_of_jobs")]
async fn walk(rest: Checkpoint<Walks>, depth: u8) -> JobResult {
    rest.save((0..depth).map(|depth| walk { depth }).collect()).await?;
    Ok(())
}
