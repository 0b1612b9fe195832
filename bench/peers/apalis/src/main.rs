//! Runs one workload of asynq-bench with apalis-redis: `ROLE ORDER URL`, one line of JSON on standard output.
//!
//! Every option that an order does not name keeps its default.

#[path = "../../workload.rs"]
mod workload;

use std::time::{Duration, Instant};

use apalis::prelude::*;
use apalis_redis::{Config, ConnectionManager, RedisStorage};
use tokio::{sync::mpsc, task::JoinSet};
use workload::{Answer, BETWEEN, Clock, Failure, Note, Order, PRODUCERS, Seen, WARM_UP};

type Storage = RedisStorage<Note>;

/// The state of the handler, which notes each task.
#[derive(Clone)]
struct Handler {
    seen: Seen,
    started: mpsc::UnboundedSender<(u64, u64)>,
    stamps: bool,
}

async fn handle(note: Note, handler: Data<Handler>) -> Result<(), BoxDynError> {
    if handler.stamps {
        let _ = handler.started.send((note.number, note.age()));
    }
    handler.seen.mark(note.number);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let (role, order, url) = workload::arguments()?;
    let answer = if order.queues > 1 {
        Answer::cannot("an apalis worker serves one queue")
    } else {
        let connection = apalis_redis::connect(url.as_str()).await?;
        play(&role, &order, &url, &storage(connection.clone()), connection).await?
    };
    println!("{}", serde_json::to_string(&answer)?);
    Ok(())
}

fn storage(connection: ConnectionManager) -> Storage {
    Storage::new(connection).with_config(Config::default().queue("bench"))
}

async fn play(
    role: &str,
    order: &Order,
    url: &str,
    storage: &Storage,
    redis: ConnectionManager,
) -> Result<Answer, Failure> {
    if role == "fill" {
        enqueue(order, storage, order.among.max(order.n), PRODUCERS).await?;
        return Ok(Answer { waiting: stored(storage, redis).await?, ..Answer::default() });
    }
    let (started, mut starts) = mpsc::unbounded_channel();
    let seen = Seen::first(order.n + WARM_UP * u64::from(order.workload == "latency"), order.among);
    let handler = Handler { seen: seen.clone(), started, stamps: order.workload == "latency" };
    match order.workload.as_str() {
        "enqueue" | "enqueue-concurrent" => {
            let clock = Clock::start();
            let callers = if order.workload == "enqueue" { 1 } else { order.concurrency as u64 };
            let micros = enqueue(order, storage, order.n, callers).await?;
            let answer = clock.stop();
            Ok(Answer { micros, waiting: stored(storage, redis).await?, ..answer })
        }
        "enqueue-bulk" => {
            let (clock, mut micros, mut storage) = (Clock::start(), Vec::new(), storage.clone());
            for first in (0..order.n).step_by(order.batch) {
                let called = Instant::now();
                let numbers = first..order.n.min(first + order.batch as u64);
                storage.push_bulk(numbers.map(|number| order.note(number)).collect()).await?;
                micros.push(called.elapsed().as_micros() as u64);
            }
            let answer = clock.stop();
            Ok(Answer { micros, waiting: stored(&storage, redis).await?, ..answer })
        }
        "drain" => {
            let clock = Clock::start();
            let drained = async {
                seen.all().await?;
                if order.among == 0 { acknowledged(order, storage, redis).await } else { Ok(()) }
            };
            // The worker of each other library connects within its time.
            let worker = self::storage(apalis_redis::connect(url).await?);
            beside(order, &worker, handler, drained).await?;
            Ok(clock.stop().with(order, &seen))
        }
        "end-to-end" => {
            let clock = Clock::start();
            let produced = async {
                let micros = enqueue(order, storage, order.n, PRODUCERS).await?;
                seen.all().await?;
                acknowledged(order, storage, redis).await?;
                Ok(micros)
            };
            let micros = beside(order, storage, handler, produced).await?;
            Ok(Answer { micros, ..clock.stop().with(order, &seen) })
        }
        "latency" => {
            let produced = async {
                let mut storage = storage.clone();
                for number in 0..order.n + WARM_UP {
                    storage.push(Note::stamp(number)).await?;
                    tokio::time::sleep(BETWEEN).await;
                }
                seen.all().await
            };
            beside(order, storage, handler, produced).await?;
            let mut micros = Vec::new();
            while let Ok((number, age)) = starts.try_recv() {
                if number >= WARM_UP {
                    micros.push(age);
                }
            }
            Ok(Answer { ran: micros.len() as u64, micros, ..Answer::default() })
        }
        "idle" => beside(order, storage, handler, std::future::pending()).await,
        _ => Ok(Answer::cannot("apalis has no call for it")),
    }
}

/// Runs a worker beside the future that is measured.
async fn beside<T>(
    order: &Order,
    storage: &Storage,
    handler: Handler,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let worker = WorkerBuilder::new("bench")
        .backend(storage.clone())
        .concurrency(order.concurrency)
        .parallelize(tokio::spawn)
        .data(handler)
        .build(handle);
    tokio::select! {
        ended = worker.run() => Err(format!("the worker ended: {ended:?}").into()),
        done = work => done,
    }
}

async fn enqueue(order: &Order, storage: &Storage, n: u64, callers: u64) -> Result<Vec<u64>, Failure> {
    let (share, mut callers) = (n.div_ceil(callers).max(1), JoinSet::new());
    for first in (0..n).step_by(share as usize) {
        let (order, mut storage) = (order.clone(), storage.clone());
        callers.spawn(async move {
            let mut micros = Vec::new();
            for number in first..n.min(first + share) {
                let called = Instant::now();
                storage.push(order.note(number)).await?;
                micros.push(called.elapsed().as_micros() as u64);
            }
            Ok::<_, Failure>(micros)
        });
    }
    let mut all = Vec::new();
    while let Some(micros) = callers.join_next().await {
        all.extend(micros??);
    }
    Ok(all)
}

/// Returns how many tasks there are, in any state.
async fn stored(storage: &Storage, mut redis: ConnectionManager) -> Result<u64, Failure> {
    Ok(redis::cmd("HLEN").arg(storage.get_config().job_data_hash()).query_async(&mut redis).await?)
}

/// Waits until the end of every task is stored, with a look every 200 µs.
async fn acknowledged(order: &Order, storage: &Storage, mut redis: ConnectionManager) -> Result<(), Failure> {
    let done = storage.get_config().done_jobs_set();
    while redis::cmd("SCARD").arg(&done).query_async::<u64>(&mut redis).await? < order.n {
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    Ok(())
}
