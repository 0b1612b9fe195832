//! The limits of a binary and of each of its tests, read from the lines that libtest prints; and its processor time.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The longest that one test may run. Waits of a test end after a minute and name what was awaited, and a test that takes
/// longer than a minute is named at once. So only a hang in the product itself, or a machine that gives a test of half a
/// minute a fortieth of its time, lasts this long.
const TEST: Duration = Duration::from_secs(1_200);

/// The longest that a whole binary may run.
const BINARY: Duration = Duration::from_secs(3_600);

/// How often the limits are checked and the processor times read.
pub(crate) const TICK: Duration = Duration::from_secs(1);

/// How long libtest has been running a test when it calls the test slow.
const SLOW: Duration = Duration::from_secs(60);

/// The verdict on a binary.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    GoOn,
    /// Kill the binary, for this reason.
    Kill(String),
}

/// Follows the lines of one binary.
#[derive(Debug)]
pub(crate) struct Monitor {
    began: Instant,
    /// Tests that libtest called slow and that have not ended, with the instant at which they began.
    slow: BTreeMap<String, Instant>,
    ended: usize,
}

impl Monitor {
    pub(crate) fn new(began: Instant) -> Self {
        Self { began, slow: BTreeMap::new(), ended: 0 }
    }

    /// Reads a line; returns the name of a test that the line calls slow.
    pub(crate) fn line<'a>(&mut self, line: &'a str, now: Instant) -> Option<&'a str> {
        let rest = line.strip_prefix("test ")?;
        if let Some(name) = rest.strip_suffix(" has been running for over 60 seconds") {
            self.slow.insert(name.to_owned(), now.checked_sub(SLOW).unwrap_or(now));
            return Some(name);
        }
        if let Some((name, _)) = rest.split_once(" ... ") {
            self.slow.remove(name);
            self.ended += 1;
        }
        None
    }

    /// Compares the running tests with the limits.
    pub(crate) fn verdict(&mut self, now: Instant) -> Verdict {
        let over: Vec<&str> =
            self.slow.iter().filter(|(_, since)| now - **since >= TEST).map(|(name, _)| name.as_str()).collect();
        if !over.is_empty() {
            return Verdict::Kill(format!("over the limit of {} s for one test: {}", TEST.as_secs(), over.join(", ")));
        }
        if now - self.began >= BINARY {
            let slow: Vec<&str> = self.slow.keys().map(String::as_str).collect();
            return Verdict::Kill(format!(
                "over the limit of {} s for a binary; {} tests had ended; running for over a minute: {}",
                BINARY.as_secs(),
                self.ended,
                if slow.is_empty() { "none".to_owned() } else { slow.join(", ") }
            ));
        }
        Verdict::GoOn
    }
}

/// The processes below `pid` with their command lines, because a test that hangs may be waiting for one of them.
pub(crate) fn processes_of(pid: u32) -> String {
    let all = processes();
    let below = descendants(pid, all.iter().map(Process::link));
    let lines = all.iter().filter(|process| below.contains(&process.pid));
    let text: Vec<String> = lines.map(|process| format!("        {} {}", process.pid, process.command)).collect();
    format!("      its processes:\n{}", text.join("\n"))
}

/// The processor time of `pid`, also if it has ended and was not awaited yet, and of the children that it awaited; on Linux.
pub(crate) fn cpu_time(pid: u32) -> Option<Duration> {
    cpu_time_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The processor time of `pid`, of the processes below it, and of those that these awaited; on Linux. A server that lives until
/// the end of its test binary is awaited by no process of the binary, so its time shows only while it lives.
pub(crate) fn cpu_time_with_descendants(pid: u32) -> Option<Duration> {
    cpu_time_below(pid, &cpu_times())
}

/// The processor time of a process and of the children that it awaited.
#[derive(Debug)]
struct CpuTime {
    pid: u32,
    parent: u32,
    time: Duration,
}

/// The times of all processes, read once in a tick for all binaries that run.
fn cpu_times() -> Arc<[CpuTime]> {
    static READ: Mutex<Option<(Instant, Arc<[CpuTime]>)>> = Mutex::new(None);
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((at, times)) = &*read
        && at.elapsed() < TICK
    {
        return Arc::clone(times);
    }
    let folders = fs::read_dir("/proc").into_iter().flatten().flatten();
    let stats = folders.filter_map(|folder| fs::read_to_string(folder.path().join("stat")).ok());
    let times: Arc<[CpuTime]> = stats.filter_map(|stat| CpuTime::of(&stat)).collect();
    *read = Some((Instant::now(), Arc::clone(&times)));
    times
}

fn cpu_time_below(pid: u32, all: &[CpuTime]) -> Option<Duration> {
    let mut family: BTreeSet<u32> = descendants(pid, all.iter().map(|one| (one.pid, one.parent))).into_iter().collect();
    family.insert(pid);
    let times = all.iter().filter(|one| family.contains(&one.pid)).map(|one| one.time);
    times.reduce(|sum, time| sum + time)
}

impl CpuTime {
    fn of(stat: &str) -> Option<Self> {
        let (pid, _) = stat.split_once(' ')?;
        let parent = fields(stat)?.nth(1)?;
        Some(Self { pid: pid.parse().ok()?, parent: parent.parse().ok()?, time: cpu_time_in(stat)? })
    }
}

/// The fields of proc_pid_stat(5) from the third on. The name of the program may contain any character, and ends with the last
/// bracket.
fn fields(stat: &str) -> Option<impl Iterator<Item = &str>> {
    Some(stat.rsplit_once(')')?.1.split_whitespace())
}

/// Reads the fields 14 to 17, which are in hundredths of a second.
fn cpu_time_in(stat: &str) -> Option<Duration> {
    let times = fields(stat)?.skip(11).take(4);
    let hundredths: u64 = times.map(|field| field.parse::<u64>().ok()).sum::<Option<u64>>()?;
    Some(Duration::from_millis(10 * hundredths))
}

/// Kills `pid` and all its descendants.
pub(crate) fn kill_with_children(pid: u32) {
    let mut all = descendants(pid, processes().iter().map(Process::link));
    all.push(pid);
    let pids = all.iter().map(u32::to_string);
    let _ = Command::new("kill").arg("-KILL").args(pids).status();
}

#[derive(Debug)]
struct Process {
    pid: u32,
    parent: u32,
    command: String,
}

impl Process {
    fn link(&self) -> (u32, u32) {
        (self.pid, self.parent)
    }
}

fn processes() -> Vec<Process> {
    let output = Command::new("ps").args(["-A", "-o", "pid=,ppid=,args="]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().filter_map(process).collect()
}

fn process(line: &str) -> Option<Process> {
    let (pid, rest) = line.trim_start().split_once(' ')?;
    let (parent, command) = rest.trim_start().split_once(' ')?;
    let command = command.trim().chars().take(160).collect();
    Some(Process { pid: pid.parse().ok()?, parent: parent.parse().ok()?, command })
}

/// The processes below `pid`; `links` are all processes, each with its parent.
fn descendants(pid: u32, links: impl Iterator<Item = (u32, u32)>) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (child, parent) in links {
        children.entry(parent).or_default().push(child);
    }
    let mut found = Vec::new();
    let mut open = vec![pid];
    while let Some(parent) = open.pop() {
        let children = children.remove(&parent).unwrap_or_default();
        found.extend(&children);
        open.extend(children);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_hangs_is_named_after_a_minute_and_killed_at_its_limit() {
        let start = Instant::now();
        let mut monitor = Monitor::new(start);
        let minute = start + SLOW;
        assert_eq!(monitor.line("test a::b has been running for over 60 seconds", minute), Some("a::b"));
        assert_eq!(monitor.line("test c has been running for over 60 seconds", minute), Some("c"));
        assert_eq!(monitor.line("test c ... ok", minute), None);
        assert_eq!(monitor.verdict(start + TEST - Duration::from_millis(1)), Verdict::GoOn);
        let Verdict::Kill(why) = monitor.verdict(start + TEST) else { panic!("it is not killed") };
        assert!(why.ends_with("for one test: a::b"), "{why}");
    }

    #[test]
    fn a_binary_has_a_limit_of_its_own() {
        let start = Instant::now();
        let mut monitor = Monitor::new(start);
        monitor.line("test a ... ok", start);
        assert_eq!(monitor.verdict(start + BINARY - Duration::from_millis(1)), Verdict::GoOn);
        let Verdict::Kill(why) = monitor.verdict(start + BINARY) else { panic!("it is not killed") };
        assert!(why.contains("1 tests had ended"), "{why}");
    }

    #[test]
    fn the_time_of_a_process_and_its_children_is_added_up() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 100 200 0 0 150 50 1000 25 20 0 4 0 123 456 78";
        assert_eq!(cpu_time_in(stat), Some(Duration::from_millis(12_250)));
        assert_eq!(cpu_time_in("7 (a) S 1"), Some(Duration::ZERO));
        assert_eq!(cpu_time_in("nothing"), None);
    }

    #[test]
    fn the_time_of_a_server_that_still_runs_is_added_to_that_of_its_binary() {
        let stat = |pid: u32, parent: u32, own: u32, awaited: u32| {
            format!(
                "{pid} (redis-server) S {parent} 7 7 0 -1 4194304 100 200 0 0 {own} 0 {awaited} 0 20 0 4 0 123 456 78"
            )
        };
        let stats =
            [stat(1, 0, 900, 0), stat(20, 1, 100, 50), stat(30, 20, 0, 0), stat(31, 30, 25, 0), stat(40, 1, 800, 0)];
        let all: Vec<CpuTime> = stats.iter().filter_map(|stat| CpuTime::of(stat)).collect();
        assert_eq!(cpu_time_below(20, &all), Some(Duration::from_millis(1_750)));
        assert_eq!(cpu_time_below(99, &all), None);
    }

    #[test]
    fn children_of_children_are_found() {
        let lines = ["  1 0 init", " 20 1 cargo", " 30 20 test binary", " 31 30 redis-server", " 40 1 other"];
        let all: Vec<Process> = lines.iter().filter_map(|line| process(line)).collect();
        let mut below = descendants(20, all.iter().map(Process::link));
        below.sort_unstable();
        assert_eq!(below, [30, 31]);
    }
}
