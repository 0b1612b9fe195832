//! What jobs did, written by their processes and read by the test: one line per event, appended whole.

use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::Path,
    sync::LazyLock,
};

use asynq_runtime::JobContext;
use chrono::{DateTime, TimeDelta, Utc};
use rustix::time::{ClockId, clock_gettime};

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// The job began.
    Start,
    /// The job reached its end; what the broker made of that is another matter.
    End,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What happened.
    pub event: Event,
    /// To which task.
    pub id: String,
    /// In which run: the nanoseconds at which its server asked for it.
    pub fence: i64,
    /// The attempt's number of retries before it.
    pub retried: u32,
    /// In which process.
    pub pid: u32,
    /// When, whatever the wall clock of that process did.
    pub at: DateTime<Utc>,
    /// When by its wall clock, which a test may step.
    pub clock: DateTime<Utc>,
}

/// The writing end, shared by the jobs of a process.
#[derive(Debug)]
pub struct Journal(File);

impl Journal {
    /// Opens the file for appending; several processes may.
    ///
    /// # Errors
    ///
    /// The file cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        OpenOptions::new().create(true).append(true).open(path).map(Self)
    }

    /// Writes one line in one piece, so that a kill leaves whole lines.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write(&self, event: Event, ctx: &JobContext) -> io::Result<()> {
        let (pid, now, clock) = (std::process::id(), monotonic(), Utc::now().to_rfc3339());
        let line = format!("{event:?} {} {} {} {pid} {now} {clock}\n", ctx.id(), ctx.fence(), ctx.retried());
        (&self.0).write_all(line.as_bytes())
    }
}

impl Line {
    /// When the server asked for the run that this line is about. After a step back of its clock the fence is ahead of it
    /// for a while.
    pub fn asked_for(&self) -> DateTime<Utc> {
        self.at - (self.clock - DateTime::from_timestamp_nanos(self.fence)).max(TimeDelta::zero())
    }
}

/// What the journal says so far.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Every line, in the order of writing.
    pub lines: Vec<Line>,
}

impl History {
    /// Reads the journal; a file that is not there yet is an empty history.
    pub fn read(path: &Path) -> Self {
        let text = written(path);
        let lines = text.lines().map(|line| parse(line).unwrap_or_else(|| panic!("not a journal line: {line:?}")));
        Self { lines: lines.collect() }
    }

    /// How often each task began.
    pub fn starts(&self) -> HashMap<&str, usize> {
        self.count(Event::Start)
    }

    /// How often each task reached its end.
    pub fn ends(&self) -> HashMap<&str, usize> {
        self.count(Event::End)
    }

    /// Tasks that began more than once, with how often.
    pub fn repeated(&self) -> Vec<(&str, usize)> {
        let mut repeated: Vec<_> = self.starts().into_iter().filter(|&(_, n)| n > 1).collect();
        repeated.sort_unstable();
        repeated
    }

    /// Runs that began in process `pid` and did not reach their end there.
    pub fn cut_off(&self, pid: u32) -> Vec<&Line> {
        let ended = |fence, id: &str| {
            self.lines.iter().any(|line| line.event == Event::End && line.fence == fence && line.id == id)
        };
        let begun = self.lines.iter().filter(|line| line.event == Event::Start && line.pid == pid);
        begun.filter(|line| !ended(line.fence, &line.id)).collect()
    }

    fn count(&self, event: Event) -> HashMap<&str, usize> {
        let mut counts = HashMap::new();
        for line in self.lines.iter().filter(|line| line.event == event) {
            *counts.entry(line.id.as_str()).or_default() += 1;
        }
        counts
    }
}

/// The whole lines of a file that others write; none if it is not there yet. Of the line that is just being written a reader
/// may see a part.
pub fn written(path: &Path) -> String {
    let mut text = fs::read_to_string(path).unwrap_or_default();
    text.truncate(text.rfind('\n').map_or(0, |last| last + 1));
    text
}

/// Nanoseconds of the clock that all processes of this machine share and nobody steps.
fn monotonic() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// When that clock told 0, by the wall clock of the reader.
static ORIGIN: LazyLock<DateTime<Utc>> = LazyLock::new(|| Utc::now() - TimeDelta::nanoseconds(monotonic()));

fn parse(line: &str) -> Option<Line> {
    let mut words = line.split(' ');
    let event = match words.next()? {
        "Start" => Event::Start,
        "End" => Event::End,
        _ => return None,
    };
    Some(Line {
        event,
        id: words.next()?.to_owned(),
        fence: words.next()?.parse().ok()?,
        retried: words.next()?.parse().ok()?,
        pid: words.next()?.parse().ok()?,
        at: *ORIGIN + TimeDelta::nanoseconds(words.next()?.parse().ok()?),
        clock: DateTime::parse_from_rfc3339(words.next()?).ok()?.to_utc(),
    })
}
