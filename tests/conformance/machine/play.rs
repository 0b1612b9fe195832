//! Plays the steps on the brokers and checks each answer against the model.

use std::{sync::Arc, time::Duration};

use asynq_runtime::broker::{Action, Broker, Cancellations, Member, Run, TaskSet};
use asynq_test_support::PATIENCE;
use asynq_tests::{group, join, lock_key};

use super::{
    Stage,
    facts::Phase,
    model::Model,
    step::{By, RunPick, SetPick, Step},
};

/// The verdict on a step; an error names the fault.
pub(super) type Check<T = ()> = Result<T, String>;

/// Fails the step unless the condition holds.
macro_rules! ensure {
    ($holds:expr, $($what:tt)+) => {
        if !$holds {
            return Err(format!($($what)+));
        }
    };
}
pub(super) use ensure;

/// Adds the name of the call to an error of the broker.
pub(super) fn ok<T, E: std::fmt::Display>(call: &str, answer: Result<T, E>) -> Check<T> {
    answer.map_err(|error| format!("{call} failed: {error}"))
}

/// A run from a dequeue, and its later outcome.
pub(super) struct TakenRun {
    pub(super) run: Run,
    /// The number of the dequeue, and the position of the task in it.
    pub(super) call: (usize, usize),
    pub(super) at: i64,
    /// The program that made the dequeue.
    pub(super) program: usize,
    /// The last outcome sent.
    pub(super) sent: Option<Action>,
}

impl TakenRun {
    /// Whether this run was surely taken before `other`: the order of two programs' calls at one instant is undefined.
    pub(super) fn is_before(&self, other: &Self) -> bool {
        self.at < other.at || (self.program == other.program && self.call < other.call)
    }
}

/// A set from a claim, and its end.
pub(super) struct Claimed {
    pub(super) set: TaskSet,
    pub(super) is_open: bool,
    pub(super) deadline: i64,
    /// The time at which the set was finished.
    pub(super) ended: Option<i64>,
}

/// Two brokers on one store, as two programs have them, and the model.
pub(super) struct Machine<'a> {
    pub(super) stage: &'a dyn Stage,
    pub(super) brokers: Vec<(Arc<dyn Broker>, Vec<Member>)>,
    pub(super) listeners: Vec<Box<dyn Cancellations>>,
    /// The number of the second program; programs with a lower number are dead, apart from the first, which is 0.
    pub(super) program: usize,
    pub(super) dequeues: usize,
    pub(super) model: Model,
    pub(super) runs: Vec<TakenRun>,
    pub(super) sets: Vec<Claimed>,
}

impl<'a> Machine<'a> {
    pub(super) async fn start(stage: &'a dyn Stage) -> Check<Self> {
        let model = Model::new(stage.broker().kind() == "redis");
        let (runs, sets, brokers, listeners) = Default::default();
        let mut machine = Self { stage, brokers, listeners, program: 0, dequeues: 0, model, runs, sets };
        machine.open(stage.broker()).await?;
        machine.open(stage.connect().await).await?;
        machine.program = 1;
        Ok(machine)
    }

    /// Adds a broker with two members.
    pub(super) async fn open(&mut self, broker: Arc<dyn Broker>) -> Check {
        let mut members = Vec::new();
        for _ in 0..2 {
            let number = 10 * self.program + 2 * self.brokers.len() + members.len();
            members.push(join(&*broker, number as u32).await);
        }
        self.listeners.push(ok("cancellations", broker.cancellations().await)?);
        self.brokers.push((broker, members));
        Ok(())
    }

    /// The time and the model, for a reader.
    pub(super) fn describe(&self) -> String {
        let Model { tasks, pending, locks, paused, .. } = &self.model;
        let tasks: String = tasks.iter().map(|(id, task)| format!("    {id}: {task:?}\n")).collect();
        let locks: Vec<_> = locks.iter().map(|(key, lock)| (key, &lock.holder, lock.end)).collect();
        format!("The model at {}:\n{tasks}    pending {pending:?}, locks {locks:?}, paused: {paused}", self.now())
    }

    pub(super) fn now(&self) -> i64 {
        self.stage.now().timestamp_millis()
    }

    pub(super) fn broker(&self, by: By) -> Arc<dyn Broker> {
        Arc::clone(&self.brokers[usize::from(by.broker) % self.brokers.len()].0)
    }

    pub(super) fn member(&self, by: By) -> Member {
        let members = &self.brokers[usize::from(by.broker) % self.brokers.len()].1;
        members[usize::from(by.member) % members.len()].clone()
    }

    /// Plays one step and compares the store with the model afterwards.
    pub(super) async fn play(&mut self, step: &Step) -> Check {
        let step = async {
            self.make(step).await?;
            self.compare().await
        };
        tokio::time::timeout(PATIENCE, step).await.unwrap_or_else(|_| Err(format!("no answer within {PATIENCE:?}")))
    }

    async fn make(&mut self, step: &Step) -> Check {
        match step {
            Step::Advance { ms } => self.advance(i64::try_from(*ms).unwrap()).await,
            Step::AdvanceTo { nth, beside_ms } => self.advance_to(*nth, *beside_ms).await,
            Step::Maintain { by } => {
                self.recover(*by).await?;
                self.forward(*by).await?;
                self.housekeeping(*by, 100).await?;
                self.reclaim(*by).await
            }
            Step::Forward { by } => self.forward(*by).await,
            Step::Recover { by } => self.recover(*by).await,
            Step::Housekeeping { by, limit } => self.housekeeping(*by, *limit).await,
            Step::Dequeue { by, n, quarantined } => self.dequeue(*by, *n, *quarantined).await,
            Step::Extend { by, runs } => self.extend(*by, runs).await,
            Step::Enqueue { by, tasks } => self.enqueue(*by, tasks).await,
            Step::Settle { by, ends } => self.settle(*by, ends).await,
            Step::Pause { by, on } => self.pause(*by, *on).await,
            Step::FreeLock { by, run } => self.free_lock(*by, *run).await,
            Step::ExtendLock { by, run } => self.extend_lock(*by, *run).await,
            Step::WriteResult { by, run, result } => self.write_result(*by, *run, *result).await,
            Step::Cancel { by, task } => self.cancel(*by, *task).await,
            Step::Change { by, task, change } => self.change(*by, *task, *change).await,
            Step::ChangeAll { by, state, change } => self.change_all(*by, *state, *change).await,
            Step::Trim { by, age, size, limit } => self.trim(*by, *age, *size, *limit).await,
            Step::Claim { by, group, rules } => self.claim(*by, *group, *rules).await,
            Step::Finish { by, set, makes, fates, resend } => self.finish(*by, *set, makes, fates, *resend).await,
            Step::Release { by, set } => self.release(*by, *set).await,
            Step::Reclaim { by } => self.reclaim(*by).await,
            Step::Crash => self.crash().await,
        }
    }

    /// Where no server forwards for a day, Redis forgets the milliseconds of due times (docs/design/wire.md#due-times): so a step
    /// forwards in time. Redis counts that day by its own clock, which goes on during the steps, on a slow machine for long.
    async fn advance(&mut self, ms: i64) -> Check {
        const HOUR_MS: i64 = 3_600_000;
        const DAY_MS: i64 = 24 * HOUR_MS;
        let (now, mut left) = (self.now(), ms);
        let due = |phase| match phase {
            Phase::Scheduled { due } | Phase::Retry { due } => Some(due),
            _ => None,
        };
        if let Some(latest) = self.model.tasks.values().filter_map(|task| due(task.phase)).max()
            && latest + DAY_MS <= now + ms + HOUR_MS
        {
            let first = (latest - now).max(0);
            self.stage.advance(Duration::from_millis(first.unsigned_abs()));
            self.forward(By { broker: 0, member: 0 }).await?;
            left -= first;
        }
        self.stage.advance(Duration::from_millis(left.unsigned_abs()));
        Ok(())
    }

    async fn advance_to(&mut self, nth: u8, beside_ms: i64) -> Check {
        let now = self.now();
        let mut ends = self.model.ends();
        ends.extend(self.sets.iter().filter(|set| set.is_open).map(|set| set.deadline));
        ends.retain(|end| *end + beside_ms > now);
        let nth = usize::from(nth) % ends.len().max(1);
        match ends.into_iter().nth(nth) {
            Some(end) => self.advance(end + beside_ms - now).await,
            None => Ok(()),
        }
    }

    /// The number of a run, and whether the run holds its task.
    pub(super) fn pick(&self, pick: RunPick) -> Option<(usize, bool)> {
        let holds = |run: usize| self.model.holds(self.id(run), run);
        let nth = |mut runs: Vec<usize>, n: u8| {
            runs.reverse();
            (!runs.is_empty()).then(|| runs[usize::from(n) % runs.len()])
        };
        let run = match pick {
            RunPick::Holding(n) => nth((0..self.runs.len()).filter(|run| holds(*run)).collect(), n)?,
            RunPick::Stale(n) => {
                let is_stale = |run: &usize| !holds(*run) && self.model.tasks.contains_key(self.id(*run));
                nth((0..self.runs.len()).filter(is_stale).collect(), n)?
            }
            RunPick::Any(n) => nth((0..self.runs.len()).collect(), n)?,
        };
        Some((run, holds(run)))
    }

    pub(super) fn id(&self, run: usize) -> &str {
        self.runs[run].run.key.id.as_str()
    }

    /// Whether the program that took a run is known to be dead: Redis knows that by the lease alone.
    pub(super) fn is_dead(&self, run: usize) -> bool {
        let program = self.runs[run].program;
        !self.model.is_redis && program != 0 && program != self.program
    }

    /// The number of the set that `pick` selects.
    pub(super) fn pick_set(&self, pick: SetPick) -> Option<usize> {
        let (mut sets, n): (Vec<usize>, u8) = match pick {
            SetPick::Open(n) => ((0..self.sets.len()).filter(|set| self.sets[*set].is_open).collect(), n),
            SetPick::Any(n) => ((0..self.sets.len()).collect(), n),
        };
        sets.reverse();
        (!sets.is_empty()).then(|| sets[usize::from(n) % sets.len()])
    }

    pub(super) fn group_name(number: u8) -> asynq_runtime::task::GroupName {
        group(&format!("g{number}"))
    }

    pub(super) fn key(number: u8) -> String {
        lock_key(&format!("k{number}"))
    }
}
