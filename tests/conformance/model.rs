//! A long random life beside a model of a few lines: after every step both must show the same tasks, order and counts.
//!
//! Steps come from a seed and go through two brokers in turn, as two processes have them. A failure prints the seed and
//! the steps so far; `SEED=… cargo test -p asynq-tests --test conformance model` plays that life again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use asynq_runtime::{
    broker::{Action, Broker, Member, NewTask, Refused, Run, Settled, Wanted},
    task::{Extra, TaskState},
};
use asynq_tests::{Build as _, Seeded as _, default_queue, lock_key, task};

use super::Fixture;

const STEPS: usize = 250;
const LIVES: u64 = 4;
const DAY_MS: i64 = 86_400_000;

/// What the model knows of one task.
#[derive(Debug, Clone)]
struct Task {
    lock: Option<String>,
    retried: u32,
    crashes: u32,
    /// Due, or the end of the retention, in milliseconds.
    at: i64,
    /// Of the run that holds it: its number, and when its lease was last renewed.
    run: Option<(usize, i64)>,
}

#[derive(Debug, Default)]
struct Model {
    tasks: BTreeMap<String, Task>,
    pending: Vec<String>,
    waiting: BTreeMap<TaskState, BTreeSet<(i64, String)>>,
    kept: BTreeMap<TaskState, BTreeSet<String>>,
    locks: BTreeMap<String, String>,
    /// Processed and failed by day.
    days: BTreeMap<i64, (u64, u64)>,
    paused: bool,
}

impl Model {
    fn count(&mut self, now: i64, failed: bool) {
        let day = self.days.entry(now.div_euclid(DAY_MS)).or_default();
        day.0 += 1;
        day.1 += u64::from(failed);
    }

    fn free(&mut self, id: &str) {
        if let Some(key) =
            self.tasks[id].lock.as_ref().filter(|key| self.locks.get(*key).is_some_and(|owner| owner == id))
        {
            self.locks.remove(key);
        }
    }

    fn wait(&mut self, state: TaskState, at: i64, id: &str) {
        self.tasks.get_mut(id).unwrap().at = at;
        self.waiting.entry(state).or_default().insert((at, id.to_owned()));
    }

    fn keep(&mut self, state: TaskState, id: &str) {
        self.kept.entry(state).or_default().insert(id.to_owned());
    }

    /// Does what an accepted outcome does.
    fn end(&mut self, id: &str, action: &Action, now: i64, retention: i64) {
        let task = self.tasks.get_mut(id).unwrap();
        task.run = None;
        if *action != Action::Requeue {
            task.crashes = 0;
        }
        match action {
            Action::Done => {
                self.free(id);
                self.tasks.remove(id);
                self.count(now, false);
            }
            Action::Complete { .. } => {
                task.at = now + retention * 1000;
                self.free(id);
                self.keep(TaskState::Completed, id);
                self.count(now, false);
            }
            Action::Retry { delay, counted, .. } => {
                task.retried += u32::from(*counted);
                self.wait(TaskState::Retry, now + delay.as_millis() as i64, id);
                if *counted {
                    self.count(now, true);
                }
            }
            Action::Archive { .. } => {
                self.free(id);
                self.keep(TaskState::Archived, id);
                self.count(now, true);
            }
            Action::Requeue => self.pending.insert(0, id.to_owned()),
        }
    }
}

/// Small, seeded, and the same on every machine (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}

struct Life {
    t: Fixture,
    brokers: Vec<(Arc<dyn Broker>, Member)>,
    dice: Dice,
    model: Model,
    runs: Vec<Run>,
    steps: Vec<String>,
    seed: u64,
}

impl Life {
    async fn new(seed: u64) -> Self {
        let t = Fixture::start().await;
        let there = t.another_broker().await;
        let member = t.member_of(&*there, 2).await;
        let brokers = vec![(t.shared(), t.member().clone()), (there, member)];
        Self { t, brokers, dice: Dice(seed), model: Model::default(), runs: Vec::new(), steps: Vec::new(), seed }
    }

    fn now(&self) -> i64 {
        self.t.now().timestamp_millis()
    }

    fn note(&mut self, step: String) {
        self.steps.push(format!("{} {step}", self.now()));
    }

    #[track_caller]
    fn fail(&self, what: &str) -> ! {
        let last = self.steps.len().saturating_sub(40);
        panic!("SEED={}: {what}\nlast steps:\n{}\nmodel: {:#?}", self.seed, self.steps[last..].join("\n"), self.model);
    }

    async fn step(&mut self) {
        let (broker, member) = self.brokers[self.dice.roll(2) as usize].clone();
        match self.dice.roll(20) {
            0..=4 => self.enqueue(&*broker).await,
            5..=8 => self.dequeue(&*broker, &member).await,
            9..=13 => self.settle(&*broker).await,
            14 => self.extend(&*broker).await,
            15 => self.forward(&*broker).await,
            16 => self.recover(&*broker).await,
            17 => self.housekeeping(&*broker).await,
            18 => self.pause(&*broker).await,
            _ => {
                let ms = [1, 250, 1_000, 3_000, 20_000, 45_000][self.dice.roll(6) as usize];
                self.note(format!("advance {ms} ms"));
                self.t.advance(Duration::from_millis(ms));
            }
        }
        self.compare(&*broker).await;
    }

    async fn enqueue(&mut self, broker: &dyn Broker) {
        let n = 1 + self.dice.roll(3);
        let mut batch: Vec<NewTask> = Vec::new();
        for _ in 0..n {
            let mut new = task(&format!("t{}", self.dice.roll(10))).kept(30);
            if self.dice.roll(3) == 0 {
                // A delay of its own, so that no two tasks are due at once.
                new = new.after(Duration::from_millis(1000 + self.dice.roll(5000) * 7 + self.steps.len() as u64 % 7));
            }
            if self.dice.roll(3) == 0 {
                new = new.locked(&lock_key(&format!("k{}", self.dice.roll(2))), 10_000_000);
            }
            batch.push(new);
        }
        self.note(format!(
            "enqueue {:?}",
            batch.iter().map(|new| (&new.id, &new.when, &new.unique)).collect::<Vec<_>>()
        ));
        let answers = broker.enqueue(batch.clone()).await;
        for (new, answer) in batch.iter().zip(answers) {
            let (id, lock) = (new.id.to_string(), new.unique.as_ref().map(|lock| lock.key.clone()));
            let taken = self.model.tasks.contains_key(&id);
            let held = lock.as_ref().and_then(|key| self.model.locks.get(key)).cloned();
            match answer {
                Ok(placed) if !taken && held.is_none() => {
                    self.model
                        .tasks
                        .insert(id.clone(), Task { lock: lock.clone(), retried: 0, crashes: 0, at: 0, run: None });
                    self.model.locks.extend(lock.map(|key| (key, id.clone())));
                    match placed.state {
                        TaskState::Pending => self.model.pending.push(id),
                        state => self.model.wait(state, placed.process_at.timestamp_millis(), &id),
                    }
                }
                Err(Refused::IdConflict) if taken => {}
                Err(Refused::Duplicate { holder: Some(holder) }) if held.as_deref() == Some(holder.as_str()) => {}
                other => {
                    self.fail(&format!("{id} with {lock:?} was answered {other:?}; taken: {taken}, held by {held:?}"))
                }
            }
        }
    }

    async fn dequeue(&mut self, broker: &dyn Broker, member: &Member) {
        let n = 1 + self.dice.roll(3) as usize;
        self.note(format!("dequeue {n}"));
        let runs = broker.dequeue(member, &[Wanted { queue: default_queue(), n }]).await.unwrap();
        let take = if self.model.paused { 0 } else { n.min(self.model.pending.len()) };
        let expected: Vec<String> = self.model.pending.drain(..take).collect();
        let got: Vec<String> = runs.iter().map(|run| run.key.id.to_string()).collect();
        if got != expected {
            self.fail(&format!("dequeue gave {got:?}, not {expected:?}"));
        }
        let now = self.now();
        for run in runs {
            let task = self.model.tasks.get_mut(run.key.id.as_str()).unwrap();
            task.run = Some((self.runs.len(), now));
            assert_eq!((run.crashes, run.text().retried), (task.crashes, task.retried as i32), "{:?}", run.key);
            self.runs.push(run);
        }
    }

    /// Any run there ever was, the later the likelier.
    fn any_run(&mut self) -> Option<(usize, Run, bool)> {
        let back = self.dice.roll(6).min(self.dice.roll(40)) as usize;
        let number = self.runs.len().checked_sub(1 + back)?;
        let run = self.runs[number].clone();
        let holds = self.model.tasks.get(run.key.id.as_str()).and_then(|task| task.run);
        Some((number, run, holds.is_some_and(|(holder, _)| holder == number)))
    }

    async fn settle(&mut self, broker: &dyn Broker) {
        let Some((number, run, holds)) = self.any_run() else { return };
        let delay = Duration::from_millis(1000 + self.dice.roll(3000) * 7 + self.steps.len() as u64 % 7);
        let (error, extra) = (Some("boom".to_owned()), Extra::default());
        let action = match self.dice.roll(6) {
            0 => Action::Done,
            1 => asynq_tests::complete("42"),
            2 => Action::Retry { delay, error, counted: true, extra },
            3 => Action::Retry { delay, error: None, counted: false, extra },
            4 => asynq_tests::archive("fatal"),
            _ => Action::Requeue,
        };
        self.note(format!(
            "settle run {number} of {} {action:?}, which {}",
            run.key.id,
            if holds { "holds" } else { "is stale" }
        ));
        let answer = broker.settle(&[run.ends_with(action.clone())]).await.remove(0).unwrap();
        if holds {
            if answer != Settled::Ok {
                self.fail(&format!("the rightful run was answered {answer:?}"));
            }
            let now = self.now();
            self.model.end(run.key.id.as_str(), &action, now, 30);
        }
    }

    async fn extend(&mut self, broker: &dyn Broker) {
        let Some((number, run, holds)) = self.any_run() else { return };
        self.note(format!("extend run {number} of {}", run.key.id));
        let answer = broker.extend(std::slice::from_ref(&run.key)).await.unwrap()[0];
        if (answer == Settled::Ok) != holds {
            self.fail(&format!(
                "extend was answered {answer:?}, and the run {}",
                if holds { "holds" } else { "is stale" }
            ));
        }
        if holds {
            let now = self.now();
            self.model.tasks.get_mut(run.key.id.as_str()).unwrap().run = Some((number, now));
        }
    }

    async fn forward(&mut self, broker: &dyn Broker) {
        self.note("forward".into());
        let moved = broker.forward(&[default_queue()]).await.unwrap().moved;
        let now = self.now();
        let mut due: Vec<(i64, String)> = Vec::new();
        for list in self.model.waiting.values_mut() {
            let later = list.split_off(&(now + 1, String::new()));
            due.extend(std::mem::replace(list, later));
        }
        due.sort();
        if moved != due.len() {
            self.fail(&format!("{moved} were forwarded, not {due:?}"));
        }
        self.model.pending.extend(due.into_iter().map(|(_, id)| id));
    }

    async fn recover(&mut self, broker: &dyn Broker) {
        self.note("recover".into());
        let recovered = broker.recover(&[default_queue()]).await.unwrap().tasks;
        let recovered: BTreeSet<String> = recovered.into_iter().map(|(_, id)| id.to_string()).collect();
        let (now, lease) = (self.now(), broker.lease().as_millis() as i64);
        let runs: Vec<_> = self.model.tasks.iter().filter_map(|(id, task)| Some((id.clone(), task.run?.1))).collect();
        for (id, renewed) in runs {
            // Leases are kept in whole seconds on Redis; within two seconds either answer is right.
            let (early, late) = (now < renewed + lease - 2000, now > renewed + lease + 2000);
            match recovered.contains(&id) {
                true if early => self.fail(&format!("{id} was recovered before its lease had passed")),
                false if late => self.fail(&format!("{id} was not recovered though its lease has passed")),
                true => {
                    let task = self.model.tasks.get_mut(&id).unwrap();
                    task.run = None;
                    task.crashes += 1;
                }
                false => {}
            }
        }
        // Among themselves their order is the broker's affair; they are ahead of all others.
        let seen = self.t.snapshot().await;
        let seen = seen.ids(TaskState::Pending);
        let (head, rest) = seen.split_at(recovered.len().min(seen.len()));
        if head.iter().map(|id| (*id).to_owned()).collect::<BTreeSet<_>>() != recovered || rest != self.model.pending {
            self.fail(&format!("{recovered:?} should be ahead of all others in {seen:?}"));
        }
        self.model.pending = seen.into_iter().map(str::to_owned).collect();
    }

    async fn housekeeping(&mut self, broker: &dyn Broker) {
        self.note("sweep, delete expired".into());
        let queue = default_queue();
        assert_eq!(broker.sweep(&queue).await.unwrap(), Default::default(), "nothing is broken");
        let deleted = broker.delete_expired(&queue, 100).await.unwrap();
        let now = self.now();
        let completed = self.model.kept.entry(TaskState::Completed).or_default();
        let tasks = &self.model.tasks;
        // A retention ends in whole seconds on Redis: within the second either answer is right.
        let seen = self.t.snapshot().await;
        let left: BTreeSet<String> = seen.ids(TaskState::Completed).into_iter().map(str::to_owned).collect();
        let gone: Vec<String> = completed.difference(&left).cloned().collect();
        let early = gone.iter().any(|id| now < tasks[id].at - 1000);
        let late = left.iter().any(|id| tasks.get(id).is_none_or(|task| now > task.at + 1000));
        if early || late || deleted != gone.len() {
            self.fail(&format!("{deleted} expired tasks were deleted: {gone:?}, left are {left:?}"));
        }
        *completed = left;
        self.model.tasks.retain(|id, _| !gone.contains(id));
    }

    async fn pause(&mut self, broker: &dyn Broker) {
        self.note(if self.model.paused { "resume" } else { "pause" }.into());
        let queue = default_queue();
        let changed = if self.model.paused { broker.resume(&queue).await } else { broker.pause(&queue).await };
        assert!(changed.unwrap());
        self.model.paused = !self.model.paused;
    }

    async fn compare(&self, broker: &dyn Broker) {
        let seen = self.t.snapshot().await;
        let sorted = |state| seen.ids(state).into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
        let model = &self.model;
        if seen.ids(TaskState::Pending) != model.pending {
            self.fail(&format!("pending is {:?}", seen.ids(TaskState::Pending)));
        }
        for (state, list) in [(TaskState::Scheduled, &seen.scheduled), (TaskState::Retry, &seen.retry)] {
            let expected = model.waiting.get(&state).cloned().unwrap_or_default();
            let shown: Vec<_> =
                list.iter().map(|entry| (entry.due.unwrap().timestamp_millis(), entry.id.clone())).collect();
            // Redis keeps whole seconds in order, so that Go can read them; within one second any order is right.
            let in_order = shown.is_sorted_by_key(|(at, _)| (at + 999) / 1000);
            if !in_order || shown.iter().cloned().collect::<BTreeSet<_>>() != expected {
                self.fail(&format!("{state} is {shown:?}, not {expected:?}"));
            }
        }
        for state in [TaskState::Archived, TaskState::Completed] {
            if sorted(state) != model.kept.get(&state).cloned().unwrap_or_default() {
                self.fail(&format!("{state} is {:?}", sorted(state)));
            }
        }
        let running = model.tasks.iter().filter(|(_, task)| task.run.is_some()).map(|(id, _)| id.clone());
        if sorted(TaskState::Active) != running.collect() {
            self.fail(&format!("active is {:?}", sorted(TaskState::Active)));
        }
        let stats = broker.queue_stats(&default_queue()).await.unwrap();
        let today = model.days.get(&self.now().div_euclid(DAY_MS)).copied().unwrap_or_default();
        let total = model.days.values().fold((0, 0), |sum, day| (sum.0 + day.0, sum.1 + day.1));
        let counted = ((stats.processed, stats.failed), (stats.processed_total, stats.failed_total));
        let shown = (stats.size, stats.pending, stats.paused);
        let lists = (model.tasks.len() as u64, model.pending.len() as u64, model.paused);
        if counted != (today, total) || shown != lists {
            self.fail(&format!("{stats:?} does not show {today:?} {total:?} {lists:?}"));
        }
    }
}

async fn live(seed: u64) {
    let mut life = Life::new(seed).await;
    for _ in 0..STEPS {
        life.step().await;
    }
    for key in ["k0", "k1"] {
        let held = life.t.holder_of(&lock_key(key)).await;
        let expected = life.model.locks.get(&lock_key(key));
        if held.as_ref().map(|id| id.as_str()) != expected.map(String::as_str) {
            life.fail(&format!("{key} is held by {held:?}"));
        }
    }
}

#[tokio::test]
async fn a_random_life_goes_as_the_model_says() {
    let seeds = std::env::var("SEED").ok().map(|seed| seed.parse().expect("SEED is a number"));
    match seeds {
        Some(seed) => live(seed).await,
        None => {
            for seed in 1..=LIVES {
                live(seed).await;
            }
        }
    }
}
