//! The worker of the interop tests on our side, with the behaviour and the events of `peer serve`.
//!
//! Arguments: the broker's URL, and the settings as JSON. The worker leaves when its standard input ends.

use std::{
    fs::{File, OpenOptions},
    io::{Read as _, Write as _},
};

use asynq_runtime::{prelude::*, server::Server, task::GroupName};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The payload of a task of type `interop:do`.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    r#do: String,
    text: String,
}

/// The file with one line for each task that succeeded.
struct Journal(Option<File>);

#[derive(Deserialize)]
struct Settings {
    queues: std::collections::BTreeMap<String, u32>,
    concurrency: usize,
    aggregate: bool,
    journal: Option<String>,
}

/// The delay before a retry is as long as that of `peer serve`, because a test that reads the state `retry` may come late;
/// a task that fails once names a short one itself.
#[job(name = "interop:do", codec = "json", backoff = "1h")]
async fn interop_do(ctx: &JobContext, journal: State<Journal>, order: Order) -> JobResult<Value> {
    let payload = serde_json::to_string(&order)?;
    let headers: serde_json::Map<String, Value> =
        ctx.headers().map(|(key, value)| (key.to_owned(), json!(value))).collect();
    say(&json!({
        "event": "start", "id": ctx.id().as_str(), "type": "interop:do", "payload": payload, "headers": headers,
        "retried": ctx.retried(),
    }));
    let text = order.text;
    match order.r#do.as_str() {
        "succeed" => {}
        "fail" => return Err(JobError::fail(text)),
        "fail once" if ctx.retried() == 0 => return Err(JobError::retry_in("1s", text)),
        "fail once" => {}
        "panic" => panic!("{text}"),
        "give up" => return Err(JobError::skip_retry(text)),
        "revoke" => return Err(JobError::revoke(text)),
        "hang once" if OpenOptions::new().create_new(true).write(true).open(&text).is_ok() => hang().await,
        "hang once" => {}
        "hang" => hang().await,
        "answer" => {
            finish(ctx, &journal)?;
            return Ok(serde_json::from_str(&text)?);
        }
        other => return Err(JobError::fail(format!("no order {other:?}"))),
    }
    finish(ctx, &journal)?;
    Ok(Value::Null)
}

/// Makes one task of the texts of all tasks, as `peer serve` does.
fn aggregate(group: GroupName, tasks: Vec<TaskInfo>) -> Result<RawTask, BoxError> {
    let orders = tasks.iter().filter_map(|task| serde_json::from_slice::<Order>(&task.payload).ok());
    let texts: Vec<String> = orders.map(|order| order.text).collect();
    let payload = json!({ "do": "succeed", "text": format!("{group}: {}", texts.join(",")) });
    Ok(RawTask::new("interop:do", payload.to_string()).retention("1h"))
}

async fn hang() {
    std::future::pending::<()>().await;
}

fn finish(ctx: &JobContext, journal: &Journal) -> std::io::Result<()> {
    if let Some(mut file) = journal.0.as_ref() {
        file.write_all(format!("{}\n", ctx.id()).as_bytes())?;
    }
    say(&json!({ "event": "done", "id": ctx.id().as_str() }));
    Ok(())
}

/// Prints one line in one write, so that lines of several tasks never mix.
fn say(event: &Value) {
    let _ = std::io::stdout().write_all(format!("{event}\n").as_bytes());
}

pub(crate) async fn run(mut arguments: impl Iterator<Item = String>) -> Result<(), BoxError> {
    let url = arguments.next().ok_or("no URL")?;
    let settings: Settings = serde_json::from_str(&arguments.next().ok_or("no settings")?)?;
    let journal = settings.journal.map(|path| OpenOptions::new().create(true).append(true).open(path)).transpose()?;
    let mut server = Server::builder(url)
        .registry(Registry::only::<(interop_do,)>()?)
        .queues(settings.queues)
        .concurrency(settings.concurrency)
        .state(Journal(journal));
    if settings.aggregate {
        server = server.group_grace("1s").aggregate("", aggregate);
    }
    let running = server.build().await?.start().await?;
    say(&json!({ "event": "ready" }));
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    running.shutdown().await?;
    Ok(())
}
