//! Sends a newsletter to every row of a CSV file: bulk enqueue, duplicates, retries, bad rows, progress, and a run that goes on
//! after it was cut off.
//!
//! ```text
//! cargo run --example newsletter                                          # the queue is the file asynq.db
//! ASYNQ_URL=redis://127.0.0.1:6379 cargo run --example newsletter         # the same on Redis
//! SMTP_URL=smtp://localhost:1025 cargo run --example newsletter           # to a mail server instead of outbox/
//! cargo run --example newsletter -- my-subscribers.csv
//! ```
//!
//! Stop the program with Ctrl-C or kill -9 and run it again within 90 days: it finishes the tasks that are left, and no settled
//! message goes out twice.

mod address;
mod campaign;
mod meter;
mod outbox;
mod post;
mod progress;
mod render;
mod report;
mod subscribers;
mod tally;

use std::{collections::HashMap, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use asynq_runtime::{DEFAULT_URL, TaskId, URL_VARIABLE, broker::QueueStats, inspector::InspectError, prelude::*};

use chrono::{DateTime, Utc};
use tokio::signal::{
    ctrl_c,
    unix::{SignalKind, signal},
};

use crate::{
    address::Address,
    campaign::{Begun, Campaign},
    meter::{Meter, unix_millis},
    outbox::Outbox,
    post::PostOffice,
    progress::{Elsewhere, Progress, Reading},
    render::Reader,
    report::{Report, Settled},
    subscribers::Subscriber,
    tally::Counting,
};

const QUEUE: &str = "newsletter";
/// Jobs that run at the same time.
const CONCURRENCY: usize = 16;
/// Rows per bulk enqueue.
const CHUNK: usize = 500;

/// Sends this campaign to one subscriber.
///
/// There is one task per address and campaign: its id names both, and `retention` keeps it for 90 days after the letter was sent, as
/// long as an archived task is kept. The id refuses a second task until then. `unique_by = "to"` also refuses a task under any other id, as
/// long as the first waits or runs.
#[job(queue = "newsletter", retry = 5, timeout = "30s", unique = "1d", unique_by = "to", retention = "90d")]
async fn send_issue(
    ctx: &JobContext,
    post: State<PostOffice>,
    to: String,
    name: String,
    city: String,
    plan: String,
) -> JobResult {
    let first = ctx.retried() == 0 && ctx.crashes() == 0;
    let _attempt = post.meter.start(ctx.header("enqueued"), first);

    let address = Address::parse(&to).map_err(JobError::skip_retry)?;
    if address.domain() == "greylist.example" && ctx.retried() == 0 {
        return Err(JobError::retry_in("1s", "451 greylisted, try again later"));
    }
    let reader = Reader { name: &name, city: &city, plan: &plan };
    let message = render::message(ctx.id().as_str(), &address, reader).map_err(JobError::skip_retry)?;
    post.deliver(ctx.id().as_str(), message).await
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<ExitCode, BoxError> {
    let settings = Settings::read();
    let rows = subscribers::read(&settings.list)?;
    if rows.is_empty() {
        return Err(format!("{} has no subscriber", settings.list.display()).into());
    }
    let client = Client::connect(&settings.url).await?;
    let (outbox, saved) = Outbox::open("outbox")?;
    let meter = Arc::new(Meter::default());
    let post = PostOffice::open(outbox.clone(), settings.smtp.as_deref(), Arc::clone(&meter))?;

    let mut campaign = begin(&client, &outbox, saved).await?;
    let counting = enqueue(&client, &campaign, &rows).await?;
    let tally = counting.sum(left(&client.inspector().queue(QUEUE).await?) as usize);
    eprintln!(
        "{} rows: {} enqueued, {} duplicates refused, {} left over, {} already done",
        tally.rows, tally.enqueued, tally.duplicates, tally.left_over, tally.already_done
    );

    if work(&settings.url, &client, post, tally.tasks()).await? == Ended::Interrupted {
        let left = left(&client.inspector().queue(QUEUE).await?);
        eprintln!("{left} tasks are left. Run the same command again to finish them.");
        return Ok(ExitCode::from(130));
    }

    let settled = settled(&client, &campaign).await?;
    campaign.finished = true;
    outbox.note(&campaign)?;
    let destination = match settings.smtp {
        Some(_) => "by SMTP".to_owned(),
        None => format!("to {}/", outbox.folder().display()),
    };
    println!("{}", Report { campaign, tally, readings: meter.readings(), destination, settled });
    if let Some(sample) = outbox.sample().filter(|_| settings.smtp.is_none()) {
        println!("Read one:   cat {}", sample.display());
    }
    if settings.url.starts_with("redis") {
        println!("Try next:   run it again and press Ctrl-C in the middle, then once more");
    } else {
        println!("Try next:   ASYNQ_URL=redis://127.0.0.1:6379 cargo run --example newsletter");
    }
    Ok(ExitCode::SUCCESS)
}

/// The settings of the command line and the environment.
struct Settings {
    list: PathBuf,
    url: String,
    smtp: Option<String>,
}

impl Settings {
    fn read() -> Self {
        let setting = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let ours = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/data/subscribers.csv"));
        Self {
            list: std::env::args_os().nth(1).map_or_else(ours, PathBuf::from),
            url: setting(URL_VARIABLE).unwrap_or_else(|| DEFAULT_URL.to_owned()),
            smtp: setting("SMTP_URL"),
        }
    }
}

/// Returns the campaign to work on: the last one while any task of it is left, otherwise a new one with an empty outbox.
async fn begin(client: &Client, outbox: &Outbox, saved: Option<Campaign>) -> Result<Campaign, BoxError> {
    let left_over = any_left_over(client).await?;
    let fresh = client.broker().now().format(campaign::ID_FORMAT).to_string();
    let (campaign, begun) = Campaign::choose(saved, left_over.as_deref(), &client.broker().location(), fresh);
    match begun {
        Begun::Now => {
            outbox.renew()?;
            eprintln!("New campaign {} on {}", campaign.id, campaign.broker);
        }
        Begun::Before => eprintln!("Going on with campaign {} on {}", campaign.id, campaign.broker),
    }
    outbox.note(&campaign)?;
    Ok(campaign)
}

/// Enqueues one task per row. Tasks that an earlier run enqueued or settled are refused, and counted as such.
async fn enqueue(client: &Client, campaign: &Campaign, rows: &[Subscriber]) -> Result<Counting, BoxError> {
    let mut counting = Counting::default();
    for chunk in rows.chunks(CHUNK) {
        let enqueued = unix_millis().to_string();
        let ids: Vec<String> = chunk.iter().map(|row| campaign.task_id(&row.to())).collect();
        let tasks = chunk.iter().zip(&ids).map(|(row, id)| {
            let Subscriber { name, city, plan, .. } = row;
            send_issue::job(row.to(), name, city, plan).task_id(id).header("enqueued", &enqueued)
        });
        let answers = client.enqueue_many(tasks).await?;
        for (id, answer) in ids.iter().zip(answers) {
            counting.count(id, answer).map_err(|error| format!("{error}. Run the same command again to go on."))?;
        }
    }
    Ok(counting)
}

/// The reason why the work ended.
#[derive(PartialEq, Eq)]
enum Ended {
    Settled,
    Interrupted,
}

/// Runs a worker until every task is settled, Ctrl-C or a supervisor (SIGTERM) asks it to end, or it cannot go on; a second Ctrl-C
/// leaves at once.
async fn work(url: &str, client: &Client, post: PostOffice, total: usize) -> Result<Ended, BoxError> {
    // Tasks that are active before our own server starts are another worker's, most likely a dead one's.
    let theirs = active(client).await?;
    // A process that just dies has crashed with its running tasks, and three such deaths archive a task.
    let mut terminate = signal(SignalKind::terminate())?;
    let server = Server::builder(url).queue(QUEUE, 1).concurrency(CONCURRENCY).state(post).build().await?;
    let running = server.start().await?;
    let ended = tokio::select! {
        () = all_settled(client, theirs, total) => Ended::Settled,
        _ = ctrl_c() => stopping("jobs that run are finished, tasks that wait are kept"),
        _ = terminate.recv() => stopping("jobs that run are finished, tasks that wait are kept"),
        // The broker is broken for good: `shutdown` returns the reason.
        () = running.failed() => stopping("the worker cannot go on"),
    };
    tokio::select! {
        stopped = running.shutdown() => stopped?,
        _ = ctrl_c() => {}
    }
    Ok(ended)
}

fn stopping(how: &str) -> Ended {
    eprintln!("\nStopping: {how}. Press Ctrl-C again to leave at once.");
    Ended::Interrupted
}

/// Shows the progress, and returns when every task is sent or archived.
async fn all_settled(client: &Client, mut theirs: HashMap<TaskId, DateTime<Utc>>, total: usize) {
    let total = total as u64;
    let mut progress = Progress::start(total);
    let mut redraw = tokio::time::interval(Duration::from_millis(100));
    loop {
        redraw.tick().await;
        match reading(client, &mut theirs, total).await {
            Ok(reading) => {
                progress.show(&reading);
                if reading.settled == total {
                    return progress.end();
                }
            }
            // The queue was deleted, as `settled` says.
            Err(error) if error.is_not_found() => return progress.end(),
            Err(error) => progress.unknown(&error),
        }
    }
}

/// Reads how far the campaign is. `theirs` are the tasks that another worker held when this run began; tasks that have moved on
/// since are taken out.
async fn reading(
    client: &Client,
    theirs: &mut HashMap<TaskId, DateTime<Utc>>,
    total: u64,
) -> Result<Reading, InspectError> {
    let stats = client.inspector().queue(QUEUE).await?;
    if !theirs.is_empty() {
        // A lease that was extended is a living worker's, or already ours.
        let now = active(client).await?;
        theirs.retain(|id, until| now.get(id) == Some(until));
    }
    let elsewhere = theirs.values().min().map(|&until| Elsewhere {
        tasks: theirs.len() as u64,
        lease: (until - client.broker().now()).to_std().unwrap_or_default(),
    });
    Ok(Reading { total, settled: total.saturating_sub(left(&stats)), retry: stats.retry, elsewhere })
}

/// Returns the tasks that some worker holds, each with the end of its lease.
async fn active(client: &Client) -> Result<HashMap<TaskId, DateTime<Utc>>, InspectError> {
    let tasks = client.inspector().tasks(QUEUE, TaskState::Active).per_page(500).await?;
    Ok(tasks.into_iter().filter_map(|task| Some((task.id, task.lease_until?))).collect())
}

/// Returns how many tasks are neither sent nor archived.
fn left(stats: &QueueStats) -> u64 {
    stats.pending + stats.active + stats.scheduled + stats.retry
}

/// Returns the id of some task that is not settled, if there is one.
async fn any_left_over(client: &Client) -> Result<Option<String>, InspectError> {
    for state in [TaskState::Pending, TaskState::Active, TaskState::Retry, TaskState::Scheduled] {
        let tasks = match client.inspector().tasks(QUEUE, state).per_page(1).await {
            // Before the first campaign the queue does not exist.
            Err(error) if error.is_not_found() => return Ok(None),
            tasks => tasks?,
        };
        if let Some(task) = tasks.first() {
            return Ok(Some(task.id.to_string()));
        }
    }
    Ok(None)
}

/// Counts the settled tasks of the campaign, whichever worker ran them.
async fn settled(client: &Client, campaign: &Campaign) -> Result<Settled, InspectError> {
    const PAGE: usize = 500;
    let mut settled = Settled::default();
    for state in [TaskState::Completed, TaskState::Archived] {
        for number in 1.. {
            let page = client.inspector().tasks(QUEUE, state).page(number).per_page(PAGE).await?;
            page.iter().filter(|task| campaign.owns(task.id.as_str())).for_each(|task| settled.count(task));
            if page.len() < PAGE {
                break;
            }
        }
    }
    Ok(settled)
}
