//! A journal of the runs of jobs, written by their processes and read by the test: one line per event, appended whole.

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::Path,
    sync::LazyLock,
};

use asynq_runtime::JobContext;
use chrono::{DateTime, TimeDelta, Utc};
use rustix::time::{ClockId, clock_gettime};

/// An event of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// The job began.
    Start,
    /// The job reached its end, whatever outcome the broker recorded.
    End,
}

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The event.
    pub event: Event,
    /// The id of the task.
    pub id: String,
    /// The fence of the run: the nanoseconds at which its server took the task, by the broker's clock.
    pub fence: i64,
    /// The number of retries before this attempt.
    pub retried: u32,
    /// The process that wrote the line.
    pub pid: u32,
    /// The time of the event, independent of the wall clock of that process.
    pub at: DateTime<Utc>,
    /// The time of the event by the wall clock of that process, which a test may step.
    pub clock: DateTime<Utc>,
}

/// The writing end, shared by the jobs of a process.
#[derive(Debug)]
pub struct Journal(File);

impl Journal {
    /// Opens the file for appending; several processes may append to one file.
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
    /// When the server took this run. After the server's clock was stepped back, the fence is in the future for a while
    /// and counts as now.
    pub fn taken_at(&self) -> DateTime<Utc> {
        self.at - (self.clock - DateTime::from_timestamp_nanos(self.fence)).max(TimeDelta::zero())
    }
}

/// The journal so far.
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

    /// Tasks that began more than once, with the number of starts.
    pub fn repeated(&self) -> Vec<(&str, usize)> {
        let mut repeated: Vec<_> = self.starts().into_iter().filter(|&(_, n)| n > 1).collect();
        repeated.sort_unstable();
        repeated
    }

    /// Runs that began in process `pid` and did not reach their end.
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

/// The whole lines of a file that other processes write; empty if the file does not exist yet. A reader may see a part of the
/// line that is just being written.
pub fn written(path: &Path) -> String {
    let mut text = fs::read_to_string(path).unwrap_or_default();
    text.truncate(text.rfind('\n').map_or(0, |last| last + 1));
    text
}

/// The number of tasks with this event. A probe asks again and again, and the rest of each line takes much longer to read.
pub fn tasks_with(event: Event, path: &Path) -> usize {
    let (text, begin) = (written(path), format!("{event:?} "));
    text.lines().filter_map(|line| line.strip_prefix(&begin)?.split(' ').next()).collect::<HashSet<_>>().len()
}

/// Nanoseconds of the monotonic clock, which all processes of this machine share and which cannot be stepped.
fn monotonic() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// The time at which the monotonic clock was 0, by the wall clock of the reader.
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
