//! A ledger of every task, independent of the broker: the producers' answers, the jobs' lines, and the incidents of
//! workers.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use asynq_runtime::task::Extra;
use asynq_tests::{
    jobs::Trial,
    journal::{Event, History, Line},
};
use chrono::{DateTime, TimeDelta, Utc};

/// How long an outcome may be on its way to the broker: the longest outage, and a margin.
const IN_FLIGHT: TimeDelta = TimeDelta::seconds(60);

/// The kind of an incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Harm {
    /// kill -9.
    Killed,
    /// TERM: the worker requeues runs that do not end in time.
    Terminated,
    /// STOP, and later CONT.
    Stopped,
    /// The worker's network carried nothing.
    Silenced,
    /// The worker's primary was killed and a replica took over, which may lack the last writes of the dead primary.
    FailedOver,
}

/// How long workers may talk to a primary that is dead to the other servers, and how long a replica may lag behind.
const UNREPLICATED: TimeDelta = TimeDelta::seconds(5);

/// An incident of one worker between two moments; a failover concerns all workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Incident {
    pub(super) pid: u32,
    pub(super) from: DateTime<Utc>,
    pub(super) until: DateTime<Utc>,
    pub(super) harm: Harm,
}

impl Incident {
    /// An incident that began at `from` and is over now.
    pub(super) fn since(from: DateTime<Utc>, pid: u32, harm: Harm) -> Self {
        Self { pid, from, until: Utc::now(), harm }
    }
}

/// The producers' answers.
#[derive(Debug, Default)]
pub(super) struct ProducerReport {
    /// Stored tasks by id, each with the number of its failures.
    pub(super) stored: BTreeMap<String, u32>,
    /// Tasks that may be stored: the last answer was lost.
    pub(super) unsure: BTreeSet<String>,
    /// The numbers of the stored notes.
    pub(super) notes: BTreeSet<u32>,
    /// The number of tasks refused because an equal task was stored.
    pub(super) refused: usize,
    /// The number of calls that were repeated.
    pub(super) again: usize,
}

impl ProducerReport {
    pub(super) fn add(&mut self, other: Self) {
        self.stored.extend(other.stored);
        self.unsure.extend(other.unsure);
        self.notes.extend(other.notes);
        self.refused += other.refused;
        self.again += other.again;
    }
}

/// The result of a run of the soak.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Stored tasks that neither ended nor were archived as planned.
    pub(super) lost: Vec<String>,
    /// Tasks that began again without a reason.
    pub(super) unexplained: Vec<String>,
    /// The number of tasks that began again because of an incident of their worker.
    pub(super) again: usize,
    /// The number of tasks that reached their end more than once; each also began again.
    pub(super) ended_twice: usize,
    /// The number of tasks that failed in all attempts and are archived.
    pub(super) archived: usize,
    /// The number of runs that failed as planned.
    pub(super) failures: usize,
    /// The number of tasks archived because a worker was killed under each run, as often as the crash limit allows.
    pub(super) crashed: usize,
}

/// One run of a task.
#[derive(Debug, Clone, Copy)]
struct Run<'a> {
    start: &'a Line,
    end: Option<&'a Line>,
}

impl Run<'_> {
    /// Whether the run's worker was killed while it had the task.
    fn was_killed(&self, incidents: &[Incident]) -> bool {
        let killed = |incident: &Incident| incident.pid == self.start.pid && incident.harm == Harm::Killed;
        self.end.is_none()
            && incidents.iter().any(|incident| killed(incident) && incident.until >= self.start.taken_at())
    }

    /// Whether an incident of the run's worker is the reason for the next run.
    fn was_cut_off(&self, next: &Self, incidents: &[Incident]) -> bool {
        let concerns = |incident: &&Incident| incident.pid == self.start.pid || incident.harm == Harm::FailedOver;
        incidents.iter().filter(concerns).filter(|incident| incident.from <= next.start.at).any(|incident| {
            let (more, in_flight) = match incident.harm {
                Harm::Killed | Harm::Terminated | Harm::Stopped | Harm::Silenced => (TimeDelta::zero(), IN_FLIGHT),
                Harm::FailedOver => (UNREPLICATED, UNREPLICATED),
            };
            incident.until + more >= self.start.taken_at()
                && self.end.is_none_or(|end| end.at + in_flight >= incident.from)
        })
    }
}

/// Judges the producers' answers by the jobs' lines. `archived` are the ids in the broker's archive.
pub(super) fn judge(
    report: &ProducerReport,
    lines: &[Line],
    incidents: &[Incident],
    archived: &BTreeSet<String>,
) -> Verdict {
    let mut verdict = Verdict::default();
    let all = runs(lines);
    for (id, runs) in &all {
        let mut is_explained = true;
        let mut ran_again = false;
        for pair in runs.windows(2) {
            let (run, next) = (pair[0], pair[1]);
            if run.end.is_none() && next.start.retried > run.start.retried {
                verdict.failures += 1;
            } else {
                ran_again = true;
                is_explained &= run.was_cut_off(&next, incidents);
            }
        }
        if !is_explained {
            verdict.unexplained.push((*id).to_owned());
        } else if ran_again {
            verdict.again += 1;
        }
        verdict.ended_twice += usize::from(runs.iter().filter(|run| run.end.is_some()).count() > 1);
    }
    for (id, &fails) in &report.stored {
        let runs = all.get(id.as_str()).map_or(&[][..], Vec::as_slice);
        let has_ended = runs.iter().any(|run| run.end.is_some());
        let deaths = runs.iter().filter(|run| run.was_killed(incidents)).count();
        let is_archived = archived.contains(id);
        let is_as_planned = if fails > Trial::RETRIES { !has_ended && is_archived } else { has_ended };
        if is_as_planned {
            verdict.archived += usize::from(fails > Trial::RETRIES);
        } else if is_archived && !has_ended && deaths >= Extra::DEFAULT_MAX_CRASHES as usize {
            verdict.crashed += 1;
        } else {
            verdict.lost.push(id.clone());
        }
    }
    verdict
}

/// Returns the stored notes that are in no digest, and the notes that are in two. `text` is the file of the digests, with the
/// id and the numbers of each run.
pub(super) fn misplaced(stored: &BTreeSet<u32>, text: &str) -> (Vec<u32>, Vec<u32>) {
    // A digest that ran again after a kill has the same notes.
    let digests: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once(' ')).collect();
    let (mut seen, mut twice) = (BTreeSet::new(), Vec::new());
    for note in digests.values().flat_map(|notes| notes.split(' ')).filter_map(|note| note.parse().ok()) {
        if !seen.insert(note) {
            twice.push(note);
        }
    }
    (stored.difference(&seen).copied().collect(), twice)
}

/// The seconds of the ticks whose tasks ended.
pub(super) fn ticks(history: &History) -> BTreeSet<i64> {
    let seconds = |id: &str| id.strip_prefix("cron:")?.rsplit(':').next()?.parse().ok();
    history.ends().keys().filter_map(|id| seconds(id)).collect()
}

/// Returns the seconds without a tick between the first and the last, of an entry with one tick every `every` seconds.
pub(super) fn missing(ticks: &BTreeSet<i64>, every: i64) -> Vec<i64> {
    let (Some(&first), Some(&last)) = (ticks.first(), ticks.last()) else { return Vec::new() };
    let due = (0..).map(|n| first + n * every).take_while(|&at| at <= last);
    due.filter(|at| !ticks.contains(at)).collect()
}

/// The runs of each task in the order of their starts. The order of the lines may differ: a worker that is stopped between its
/// reading of the clock and its write has its line written when it continues.
fn runs(lines: &[Line]) -> HashMap<&str, Vec<Run<'_>>> {
    let mut runs: HashMap<&str, Vec<Run<'_>>> = HashMap::new();
    for line in lines {
        let of = runs.entry(line.id.as_str()).or_default();
        match line.event {
            Event::Start => of.push(Run { start: line, end: None }),
            Event::End => {
                if let Some(run) = of.iter_mut().rfind(|run| run.start.fence == line.fence) {
                    run.end = Some(line);
                }
            }
        }
    }
    for of in runs.values_mut() {
        of.sort_by_key(|run| run.start.at);
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_000 + second, 0).unwrap()
    }

    /// A line of process 7 about the task `a`.
    fn line(event: Event, run: i64, retried: u32, second: i64) -> Line {
        let fence = (at(run).timestamp_nanos_opt()).unwrap();
        Line { event, id: "a".into(), fence, retried, pid: 7, at: at(second), clock: at(second) }
    }

    fn verdict(fails: u32, lines: &[Line], incidents: &[Incident], archived: &[&str]) -> Verdict {
        let report = ProducerReport { stored: BTreeMap::from([("a".into(), fails)]), ..ProducerReport::default() };
        judge(&report, lines, incidents, &archived.iter().map(|&id| id.to_owned()).collect())
    }

    const START: Event = Event::Start;
    const END: Event = Event::End;

    #[test]
    fn a_task_that_ends_once_is_well() {
        assert_eq!(verdict(0, &[line(START, 0, 0, 1), line(END, 0, 0, 2)], &[], &[]), Verdict::default());
    }

    #[test]
    fn a_task_without_an_end_is_lost() {
        let lost = Verdict { lost: vec!["a".into()], ..Verdict::default() };
        assert_eq!(verdict(0, &[], &[], &[]), lost);
        assert_eq!(verdict(0, &[line(START, 0, 0, 1)], &[], &["a"]), lost);
        assert_eq!(verdict(4, &[line(START, 0, 0, 1)], &[], &[]), lost);
    }

    #[test]
    fn a_note_is_in_one_digest() {
        let stored = BTreeSet::from([1, 2, 3, 4]);
        assert_eq!(misplaced(&stored, "made\na 1 2\nmade\na 1 2\nb 3 4\n"), (vec![], vec![]));
        assert_eq!(misplaced(&stored, "a 1 2\nb 2 3\n"), (vec![4], vec![2]));
    }

    #[test]
    fn a_tick_between_two_others_is_missing() {
        assert_eq!(missing(&BTreeSet::from([5, 10, 20, 35]), 5), [15, 25, 30]);
        assert_eq!(missing(&BTreeSet::new(), 5), [] as [i64; 0]);
    }

    #[test]
    fn failures_are_distinguished_from_runs_that_were_cut_off() {
        let lines = [line(START, 0, 0, 1), line(START, 3, 1, 3), line(END, 3, 1, 4)];
        assert_eq!(verdict(1, &lines, &[], &[]), Verdict { failures: 1, ..Verdict::default() });
        let archived = Verdict { archived: 1, ..Verdict::default() };
        assert_eq!(verdict(4, &[line(START, 0, 3, 1)], &[], &["a"]), archived);
    }

    #[test]
    fn a_task_whose_worker_was_killed_under_each_of_three_runs_is_archived_and_not_lost() {
        let run = |pid, second| Line { pid, ..line(START, second, 0, second) };
        let lines = [run(7, 1), run(8, 3), run(9, 5)];
        let killed = |pid, second| Incident { pid, from: at(second), until: at(second), harm: Harm::Killed };
        let incidents = [killed(7, 2), killed(8, 4), killed(9, 6)];
        assert_eq!(verdict(0, &lines, &incidents, &["a"]), Verdict { again: 1, crashed: 1, ..Verdict::default() });
        let lost = Verdict { lost: vec!["a".into()], again: 1, ..Verdict::default() };
        assert_eq!(verdict(0, &lines, &incidents, &[]), lost, "it is not in the archive");
        assert_eq!(verdict(0, &lines[..2], &incidents, &["a"]), lost, "two deaths are not enough");
        let terminated = Incident { harm: Harm::Terminated, ..incidents[2] };
        assert_eq!(
            verdict(0, &lines, &[incidents[0], incidents[1], terminated], &["a"]),
            lost,
            "the third was asked to leave"
        );
    }

    #[test]
    fn a_run_that_was_written_late_began_when_it_says() {
        let of_another = |event, second| Line { pid: 8, ..line(event, 9, 0, second) };
        let late = [of_another(START, 9), of_another(END, 10), line(START, 0, 0, 1)];
        let stopped = Incident { pid: 7, from: at(1), until: at(12), harm: Harm::Stopped };
        assert_eq!(verdict(0, &late, &[stopped], &[]), Verdict { again: 1, ..Verdict::default() });
    }

    #[test]
    fn a_second_run_needs_a_blow_to_the_worker_of_the_first_while_it_had_the_task() {
        let twice = [line(START, 0, 0, 1), line(END, 0, 0, 2), line(START, 9, 0, 9), line(END, 9, 0, 10)];
        let unexplained = Verdict { unexplained: vec!["a".into()], ended_twice: 1, ..Verdict::default() };
        let explained = Verdict { again: 1, ended_twice: 1, ..Verdict::default() };
        let of = |pid, (from, until), harm| {
            let incident = Incident { pid, from: at(from), until: at(until), harm };
            verdict(0, &twice, &[incident], &[])
        };
        assert_eq!(verdict(0, &twice, &[], &[]), unexplained);
        assert_eq!(of(7, (5, 5), Harm::Killed), explained);
        assert_eq!(of(7, (5, 12), Harm::Killed), explained, "its parent learnt of its death late");
        assert_eq!(of(8, (5, 5), Harm::Killed), unexplained, "another worker");
        assert_eq!(of(7, (12, 12), Harm::Killed), unexplained, "later");
        assert_eq!(of(7, (-5, -5), Harm::Killed), unexplained, "before it asked for the task");
        assert_eq!(of(7, (-5, 3), Harm::Stopped), explained);
        assert_eq!(of(7, (-5, 3), Harm::Silenced), explained);
        assert_eq!(of(7, (-5, -1), Harm::Stopped), unexplained);
        assert_eq!(of(0, (5, 5), Harm::FailedOver), explained);
        assert_eq!(of(0, (8, 8), Harm::FailedOver), unexplained, "the replica had it by then");
    }
}
