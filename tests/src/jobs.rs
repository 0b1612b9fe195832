//! The jobs of workers that are separate processes; tests enqueue them by type.

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    path::Path,
    time::Duration,
};

use asynq_runtime::{job::Aggregates, prelude::*};
use asynq_test_support::eventually_blocking;
use serde::{Deserialize, Serialize};

use crate::journal::{Event, Journal};

/// Writes down its start, sleeps for `millis`, waits while the file `HOLD` exists, and writes down its end. After a crash the
/// task does not sleep, so that a test can give it an hour that only a kill ends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// How long a run sleeps.
    pub millis: u64,
}

impl Job for Record {
    const NAME: &'static str = "record";
    // On a busy machine the same task may be in flight whenever its worker is killed.
    const OPTIONS: JobOptions = JobOptions::new().retry(5).max_crashes(20);
    type Output = JobResult;

    async fn run(self, ctx: &JobContext) -> JobResult {
        let journal = ctx.state::<Journal>().ok_or("no journal")?;
        journal.write(Event::Start, ctx)?;
        if ctx.crashes() == 0 {
            tokio::time::sleep(Duration::from_millis(self.millis)).await;
        }
        // The test may hold the job to the end of the process.
        while is_held() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        journal.write(Event::End, ctx)?;
        Ok(())
    }
}

/// A [`Record`] with a payload of any size.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Parcel {
    /// The payload.
    pub content: Vec<u8>,
}

impl Job for Parcel {
    const NAME: &'static str = "parcel";
    const OPTIONS: JobOptions = JobOptions::new().retry(5);
    type Output = JobResult;

    async fn run(self, ctx: &JobContext) -> JobResult {
        let journal = ctx.state::<Journal>().ok_or("no journal")?;
        journal.write(Event::Start, ctx)?;
        while is_held() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        journal.write(Event::End, ctx)?;
        Ok(())
    }
}

/// Fails `fails` times, and then succeeds; writes every attempt down. With more failures than retries the task is archived.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Trial {
    /// The number of attempts that fail before one succeeds.
    pub fails: u32,
    /// How long an attempt takes.
    pub millis: u64,
}

impl Trial {
    /// The number of retries; with one more failure the task is archived.
    pub const RETRIES: u32 = 3;
}

impl Job for Trial {
    const NAME: &'static str = "trial";
    const OPTIONS: JobOptions = JobOptions::new().retry(Self::RETRIES);
    type Output = JobResult;

    async fn run(self, ctx: &JobContext) -> JobResult {
        let journal = ctx.state::<Journal>().ok_or("no journal")?;
        journal.write(Event::Start, ctx)?;
        tokio::time::sleep(Duration::from_millis(self.millis)).await;
        if ctx.retried() < self.fails {
            return Err(JobError::retry_in("1s", "it fails as planned"));
        }
        journal.write(Event::End, ctx)?;
        Ok(())
    }
}

/// Aborts the whole process, as a stack overflow does, or a kill by the kernel.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Poison {}

impl Job for Poison {
    const NAME: &'static str = "poison";
    const OPTIONS: JobOptions = JobOptions::new().retry(5);
    type Output = JobResult;

    async fn run(self, ctx: &JobContext) -> JobResult {
        ctx.state::<Journal>().ok_or("no journal")?.write(Event::Start, ctx)?;
        // Long enough that other jobs run beside this one when it aborts.
        tokio::time::sleep(Duration::from_millis(30)).await;
        std::process::abort();
    }
}

/// A note, one of many, each with a number of its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Note {
    /// The number of this note.
    pub n: u32,
}

impl Job for Note {
    const NAME: &'static str = "note";
    const OPTIONS: JobOptions = JobOptions::new().group("notes");
    type Output = JobResult;

    async fn run(self, _: &JobContext) -> JobResult {
        Err(JobError::skip_retry("a note never runs alone"))
    }
}

/// A digest of many notes. Aggregation writes `made` into the file `DIGESTS`, takes its time and waits while the file `HOLD`
/// exists, so that a test can strike between the claim of a set and its end; the run writes its id and the notes' numbers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Digest {
    /// The notes of the digest's set.
    pub notes: Vec<Note>,
}

impl Job for Digest {
    const NAME: &'static str = "digest";
    // The worker is killed a dozen times, and on a busy machine the same digest may run each time.
    const OPTIONS: JobOptions = JobOptions::new().max_crashes(20);
    type Output = JobResult;

    async fn run(self, ctx: &JobContext) -> JobResult {
        let numbers: Vec<_> = self.notes.iter().map(|note| note.n.to_string()).collect();
        append(&format!("{} {}\n", ctx.id(), numbers.join(" ")))?;
        Ok(())
    }
}

impl Aggregates for Digest {
    type Of = Note;

    fn aggregate(notes: Vec<Note>) -> Self {
        if append("made\n").is_ok() {
            std::thread::sleep(Duration::from_millis(60));
            eventually_blocking("the making is not held any more", || (!is_held()).then_some(()));
        }
        Self { notes }
    }
}

/// Returns whether the file `HOLD` exists: until it is deleted, no job ends.
fn is_held() -> bool {
    std::env::var_os("HOLD").is_some_and(|path| Path::new(&path).exists())
}

/// Writes one line in one piece, so that a kill leaves whole lines.
fn append(line: &str) -> io::Result<()> {
    let path = std::env::var_os("DIGESTS").ok_or(io::ErrorKind::NotFound)?;
    OpenOptions::new().create(true).append(true).open(path)?.write_all(line.as_bytes())
}
