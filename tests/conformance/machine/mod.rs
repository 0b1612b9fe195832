//! Random sequences of broker calls beside a model: after every step the store and the model must show the same tasks, order,
//! counts and locks.
//!
//! The steps come from a seed that is fresh in every run. A failure prints the seed and the shortest sequence that fails;
//! `MODEL_SEED=<seed>` plays that sequence again. The steps are data without preconditions (`step`), so plain proptest
//! strategies draw them, and `shrink` works on a list of them. `proptest-state-machine` would need the model's state while it
//! draws, which here depends on answers (ids of sets, the order of equal times), and a blocking call per step.

mod compare;
mod facts;
mod model;
mod play;
mod repairs;
mod runs;
mod sets;
mod shrink;
mod step;
mod upkeep;

use std::{
    collections::BTreeMap,
    fmt::{self, Display, Write as _},
    sync::Arc,
    time::{Duration, Instant},
};

use asynq_runtime::broker::Broker;
use asynq_tests::{Fixture, Store, default_queue};
use chrono::{DateTime, Utc};
use proptest::{
    prelude::RngExt as _,
    strategy::{Strategy as _, ValueTree as _},
    test_runner::{Config, RngSeed, TestRunner},
};

use self::{play::Machine, step::Step};

/// The parts of a fixture that a machine needs.
#[async_trait::async_trait]
pub(crate) trait Stage: Send + Sync {
    fn now(&self) -> DateTime<Utc>;
    fn advance(&self, by: Duration);
    fn broker(&self) -> Arc<dyn Broker>;
    async fn connect(&self) -> Arc<dyn Broker>;
    /// The unique locks of the default queue and their holders.
    fn locks(&self) -> BTreeMap<String, String>;
}

#[async_trait::async_trait]
impl<S: Store> Stage for Fixture<S> {
    fn now(&self) -> DateTime<Utc> {
        self.now()
    }

    fn advance(&self, by: Duration) {
        self.advance(by);
    }

    fn broker(&self) -> Arc<dyn Broker> {
        self.shared()
    }

    async fn connect(&self) -> Arc<dyn Broker> {
        self.another_broker().await
    }

    fn locks(&self) -> BTreeMap<String, String> {
        self.store.locks(&default_queue(), self.now())
    }
}

/// The longest time for shrinking a failure: a call that hangs costs a minute at each play.
const SHRINK_TIME: Duration = Duration::from_secs(180);

/// After so long the suite begins no further sequence: a slow machine plays fewer.
const IN_THE_SUITE: Duration = Duration::from_secs(60);

/// The number and the length of the sequences.
struct Budget {
    sequences: usize,
    steps: usize,
    /// Ends the sequences early.
    time: Option<Duration>,
    /// Most sequences that are played to shrink a failure.
    shrinks: usize,
    seed: Option<u64>,
}

impl Budget {
    /// The budget from the environment; else a few seconds on the stores with implementations of their own.
    fn of<S: Store>() -> Self {
        let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
        let few = if matches!(S::NAME, "redis" | "sqlite") { 2 } else { 1 };
        let minutes = number("MODEL_MINUTES");
        let seed = number("MODEL_SEED");
        let (sequences, time) = match (seed, minutes, number("MODEL_SEQUENCES")) {
            (Some(_), ..) => (1, None),
            (None, Some(minutes), _) => (u64::MAX, Some(Duration::from_secs(60 * minutes))),
            (None, None, Some(sequences)) => (sequences, None),
            (None, None, None) => (few, Some(IN_THE_SUITE)),
        };
        Self {
            sequences: sequences as usize,
            steps: number("MODEL_STEPS").unwrap_or(200) as usize,
            time,
            shrinks: number("MODEL_SHRINKS").unwrap_or(1_000) as usize,
            seed,
        }
    }
}

/// A sequence, in the form in which a person plays it again. A panic, which a broker or a fixture may cause, prints it as well.
struct Seed {
    number: u64,
    steps: usize,
}

impl Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, steps } = self;
        let thread = std::thread::current();
        let test = thread.name().filter(|name| name.contains("::")).unwrap_or("model::");
        write!(f, "MODEL_SEED={number} MODEL_STEPS={steps} cargo test -p asynq-tests --test conformance {test}")
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("play it again: {self}");
        }
    }
}

/// The proof of a store by random sequences.
pub(crate) trait Prove {
    /// Plays sequences until the budget is used up; panics with the first failing one, shrunk.
    async fn prove();
}

impl<S: Store> Prove for Fixture<S> {
    async fn prove() {
        let (budget, begun) = (Budget::of::<S>(), Instant::now());
        let first = budget.seed.unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0 >> 16);
        let mut played = 0;
        while played < budget.sequences && budget.time.is_none_or(|time| begun.elapsed() < time) {
            let seed = first + played as u64;
            played += 1;
            if let Err(failure) = sequence::<S>(&budget, seed).await {
                panic!("{}: sequence {played} fails. {failure}", S::NAME);
            }
        }
        let line = format!(
            "\nmodel: {}: {played} sequences, {} steps, seeds {first} to {} in {:.1} s: no difference\n",
            S::NAME,
            played * budget.steps,
            first + played.max(1) as u64 - 1,
            begun.elapsed().as_secs_f64(),
        );
        // The test harness would swallow `println!`, and with it that a slow machine has played fewer sequences.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
    }
}

/// Plays one sequence; the error describes its shortest failing form for a reader.
async fn sequence<S: Store>(budget: &Budget, seed: u64) -> Result<(), String> {
    let again = Seed { number: seed, steps: budget.steps };
    let config = Config { rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let step = step::step(|below| runner.rng().random_range(0..below));
    let mut trees: Vec<_> =
        (0..budget.steps).map(|_| step.new_tree(&mut runner).expect("every step can be drawn")).collect();
    let steps: Vec<Step> = trees.iter().map(|tree| tree.current()).collect();
    let Err(Failure { step: failed_at, why, .. }) = play::<S>(&steps).await else { return Ok(()) };
    let (mut shortest, begun) = ((Vec::new(), None), Instant::now());
    shrink::shrink(&mut trees, failed_at, budget.shrinks, async |mut steps: Vec<Step>| {
        if begun.elapsed() > SHRINK_TIME {
            return None;
        }
        let failure = play::<S>(&steps).await.err()?;
        let failed_at = failure.step;
        steps.truncate(failed_at + 1);
        shortest = (steps, Some(failure));
        Some(failed_at)
    })
    .await;
    let mut text = format!("Step {failed_at}: {why}\n");
    if let (steps, Some(failure)) = shortest {
        let _ = writeln!(text, "Shrunk to {} steps:", steps.len());
        for step in steps {
            let _ = writeln!(text, "    {step:?}");
        }
        let _ = writeln!(text, "The last one: {}\n{}", failure.why, failure.model);
    }
    let _ = writeln!(text, "play it again: {again}");
    Err(text)
}

/// The step at which a sequence failed, and the reason.
struct Failure {
    step: usize,
    why: String,
    model: String,
}

/// Plays a sequence on a fresh store.
async fn play<S: Store>(steps: &[Step]) -> Result<(), Failure> {
    let fixture = Fixture::<S>::start().await;
    let failure = |step, why, model| Failure { step, why, model };
    let mut machine = Machine::start(&fixture).await.map_err(|why| failure(0, why, String::new()))?;
    for (number, step) in steps.iter().enumerate() {
        if let Err(why) = machine.play(step).await {
            return Err(failure(number, why, machine.describe()));
        }
    }
    Ok(())
}
