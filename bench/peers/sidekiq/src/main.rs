//! Runs one workload of asynq-bench with rusty-sidekiq: `ROLE ORDER URL`, one line of JSON on standard output.
//!
//! Every option that an order does not name keeps its default, but for the pool of connections: each worker holds one while it
//! waits, so that with the default of ten more workers than ten starve.

#[path = "../../workload.rs"]
mod workload;

use async_trait::async_trait;
use sidekiq::{Processor, ProcessorConfig, RedisConnectionManager, RedisPool, Worker};
use std::time::Instant;
use tokio::{sync::mpsc, task::JoinSet};
use workload::{Answer, BETWEEN, Clock, Failure, Note, Order, PRODUCERS, Seen, WARM_UP};

/// Names of the workers as they stand in messages.
const NOTE: &str = "NoteWorker";
const STAMP: &str = "StampWorker";

struct NoteWorker(Seen);

#[async_trait]
impl Worker<Note> for NoteWorker {
    async fn perform(&self, note: Note) -> sidekiq::Result<()> {
        self.0.mark(note.number);
        Ok(())
    }
}

struct StampWorker(mpsc::UnboundedSender<(u64, u64)>);

#[async_trait]
impl Worker<Note> for StampWorker {
    async fn perform(&self, note: Note) -> sidekiq::Result<()> {
        let age = note.age();
        let _ = self.0.send((note.number, age));
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let (role, order, url) = workload::arguments()?;
    let size = u32::try_from(order.concurrency.max(PRODUCERS as usize))? + 20;
    let redis = bb8::Pool::builder().max_size(size).build(RedisConnectionManager::new(url)?).await?;
    println!("{}", serde_json::to_string(&play(&role, &order, &redis).await?)?);
    Ok(())
}

async fn play(role: &str, order: &Order, redis: &RedisPool) -> Result<Answer, Failure> {
    if role == "fill" {
        enqueue(order, redis, order.among.max(order.n), PRODUCERS).await?;
        return Ok(Answer { waiting: waiting(order, redis).await?, ..Answer::default() });
    }
    match order.workload.as_str() {
        "enqueue" | "enqueue-concurrent" => {
            let clock = Clock::start();
            let callers = if order.workload == "enqueue" { 1 } else { order.concurrency as u64 };
            let micros = enqueue(order, redis, order.n, callers).await?;
            let answer = clock.stop();
            Ok(Answer { micros, waiting: waiting(order, redis).await?, ..answer })
        }
        "drain" => {
            let (clock, seen) = (Clock::start(), Seen::first(order.n, order.among));
            serve(order, redis, NOTE, NoteWorker(seen.clone()));
            seen.all().await?;
            Ok(clock.stop().with(order, &seen))
        }
        "end-to-end" => {
            let seen = Seen::first(order.n, order.n);
            serve(order, redis, NOTE, NoteWorker(seen.clone()));
            let clock = Clock::start();
            let micros = enqueue(order, redis, order.n, PRODUCERS).await?;
            seen.all().await?;
            Ok(Answer { micros, ..clock.stop().with(order, &seen) })
        }
        "latency" => {
            let (sender, mut started) = mpsc::unbounded_channel();
            serve(order, redis, STAMP, StampWorker(sender));
            let mut micros = Vec::new();
            for number in 0..order.n + WARM_UP {
                sidekiq::perform_async(redis, STAMP.into(), "bench".into(), Note::stamp(number)).await?;
                tokio::time::sleep(BETWEEN).await;
            }
            for _ in 0..order.n + WARM_UP {
                let (number, age) = started.recv().await.ok_or("the worker ended")?;
                if number >= WARM_UP {
                    micros.push(age);
                }
            }
            Ok(Answer { ran: micros.len() as u64, micros, ..Answer::default() })
        }
        "idle" => {
            serve(order, redis, NOTE, NoteWorker(Seen::first(0, 0)));
            std::future::pending().await
        }
        _ => Ok(Answer::cannot("rusty-sidekiq has no call for it")),
    }
}

fn queue(order: &Order, number: u64) -> String {
    if order.queues > 1 { format!("bench-{}", number % order.queues) } else { "bench".to_owned() }
}

/// Starts workers, which end with the process.
fn serve<W: Worker<Note> + 'static>(order: &Order, redis: &RedisPool, name: &'static str, worker: W) {
    let queues = (0..order.queues.max(1)).map(|number| queue(order, number)).collect();
    let config = ProcessorConfig::default().num_workers(order.concurrency);
    let mut processor = Processor::new(redis.clone(), queues).with_config(config);
    assert_eq!(W::class_name(), name, "what is enqueued names this worker");
    processor.register(worker);
    tokio::spawn(processor.run());
}

async fn enqueue(order: &Order, redis: &RedisPool, n: u64, callers: u64) -> Result<Vec<u64>, Failure> {
    let (share, mut callers) = (n.div_ceil(callers).max(1), JoinSet::new());
    for first in (0..n).step_by(share as usize) {
        let (order, redis) = (order.clone(), redis.clone());
        callers.spawn(async move {
            let mut micros = Vec::new();
            for number in first..n.min(first + share) {
                let called = Instant::now();
                sidekiq::perform_async(&redis, NOTE.into(), queue(&order, number), order.note(number)).await?;
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

async fn waiting(order: &Order, redis: &RedisPool) -> Result<u64, Failure> {
    let (mut sum, mut connection) = (0, redis.get().await?);
    for number in 0..order.queues.max(1) {
        let key = format!("queue:{}", queue(order, number));
        sum += redis::cmd("LLEN").arg(key).query_async::<u64>(connection.unnamespaced_borrow_mut()).await?;
    }
    Ok(sum)
}
