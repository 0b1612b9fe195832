//! The jobs of the workers that are processes of their own; tests enqueue them by type.

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

/// Writes down its start, takes its time, waits while it is held, and writes down its end. After a crash it takes no time of its
/// own, so that a test can give it an hour that only a kill ends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// How long it takes.
    pub millis: u64,
}

impl Job for Record {
    const NAME: &'static str = "record";
    // On a busy machine the same one may be in flight whenever its worker is killed.
    const OPTIONS: JobOptions = JobOptions::new().retry(5).max_crashes(20);
    type Output = JobResult;

    async fn run(self, ctx: &JobContext) -> JobResult {
        let journal = ctx.state::<Journal>().ok_or("no journal")?;
        journal.write(Event::Start, ctx)?;
        if ctx.crashes() == 0 {
            tokio::time::sleep(Duration::from_millis(self.millis)).await;
        }
        // As long as the test holds it; the process ends with the test.
        while is_held() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        journal.write(Event::End, ctx)?;
        Ok(())
    }
}

/// As [`Record`], with a payload of any size.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Parcel {
    /// What it carries.
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

/// Fails as often as it is told to, and then ends; writes both down. With more failures than retries it is archived.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Trial {
    /// How many attempts fail before the one that does not.
    pub fails: u32,
    /// How long an attempt takes.
    pub millis: u64,
}

impl Trial {
    /// How many failures there may be before the one that is one too many.
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
            return Err(JobError::retry_in("1s", "it fails as it was told to"));
        }
        journal.write(Event::End, ctx)?;
        Ok(())
    }
}

/// Takes the whole process down, as a stack overflow or the kernel would.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Poison {}

impl Job for Poison {
    const NAME: &'static str = "poison";
    const OPTIONS: JobOptions = JobOptions::new().retry(5);
    type Output = JobResult;

    async fn run(self, ctx: &JobContext) -> JobResult {
        ctx.state::<Journal>().ok_or("no journal")?.write(Event::Start, ctx)?;
        // Long enough that neighbours run beside it when it strikes.
        tokio::time::sleep(Duration::from_millis(30)).await;
        std::process::abort();
    }
}

/// One of many, each with a number of its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Note {
    /// Its number.
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

/// Made of many notes. The making writes `made` into the file `DIGESTS`, takes its time and waits while it is held, so that a
/// test can strike between the claim of a set and its end; the run writes its id and the numbers of its notes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Digest {
    /// What it was made of.
    pub notes: Vec<Note>,
}

impl Job for Digest {
    const NAME: &'static str = "digest";
    // Its worker is killed a dozen times, and on a busy machine the same digest may run each time.
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

/// Whether the file `HOLD` is there: while it is, nothing comes to its end.
fn is_held() -> bool {
    std::env::var_os("HOLD").is_some_and(|path| Path::new(&path).exists())
}

/// Writes one line in one piece, so that a kill leaves whole lines.
fn append(line: &str) -> io::Result<()> {
    let path = std::env::var_os("DIGESTS").ok_or(io::ErrorKind::NotFound)?;
    OpenOptions::new().create(true).append(true).open(path)?.write_all(line.as_bytes())
}
