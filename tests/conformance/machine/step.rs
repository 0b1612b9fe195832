//! The steps of a sequence as data, and how proptest draws them.
//!
//! A step names tasks, runs and sets by small numbers that are resolved when the step is played. So a step stays valid
//! no matter which other steps are removed, and a sequence can be shrunk without preconditions.

use proptest::{collection::vec, option, prelude::*, strategy::Union};

/// One call of the contract, or an event of the machine that makes the calls.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Advance {
        ms: u64,
    },
    /// Advances to the end of a lease, lock, delay, retention … of the model, or to a moment near it.
    AdvanceTo {
        nth: u8,
        beside_ms: i64,
    },
    /// The regular duties of a server: recover, forward, delete expired tasks, reclaim sets.
    Maintain {
        by: By,
    },
    Forward {
        by: By,
    },
    Recover {
        by: By,
    },
    Housekeeping {
        by: By,
        limit: usize,
    },
    Dequeue {
        by: By,
        n: usize,
        quarantined: Sparing,
    },
    Extend {
        by: By,
        runs: Vec<RunPick>,
    },
    Enqueue {
        by: By,
        tasks: Vec<New>,
    },
    Settle {
        by: By,
        ends: Vec<End>,
    },
    Pause {
        by: By,
        on: bool,
    },
    FreeLock {
        by: By,
        run: RunPick,
    },
    ExtendLock {
        by: By,
        run: RunPick,
    },
    WriteResult {
        by: By,
        run: RunPick,
        result: u8,
    },
    Cancel {
        by: By,
        task: u8,
    },
    Change {
        by: By,
        task: u8,
        change: Change,
    },
    ChangeAll {
        by: By,
        state: u8,
        change: Change,
    },
    Trim {
        by: By,
        age: u64,
        size: usize,
        limit: usize,
    },
    Claim {
        by: By,
        group: u8,
        rules: Rules,
    },
    Finish {
        by: By,
        set: SetPick,
        makes: Vec<New>,
        fates: Vec<Fate>,
        resend: bool,
    },
    Release {
        by: By,
        set: SetPick,
    },
    Reclaim {
        by: By,
    },
    /// The second broker and its members die; a new broker replaces it.
    Crash,
}

/// Selects one of the two brokers for the call, and one of its two members.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct By {
    pub(super) broker: u8,
    pub(super) member: u8,
}

/// A task to enqueue.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct New {
    pub(super) id: u8,
    /// 0 makes the task due at once.
    pub(super) delay_ms: u64,
    pub(super) group: Option<u8>,
    /// The key, and the seconds of the lock.
    pub(super) lock: Option<(u8, u64)>,
    pub(super) keeps_lock: bool,
    pub(super) retention: i64,
}

/// How many quarantined tasks a dequeue takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Sparing {
    All,
    One,
    None,
}

/// A run, counted from the newest: of those that hold their task, of those whose task exists but is held by another run, or
/// of all runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum RunPick {
    Holding(u8),
    Stale(u8),
    Any(u8),
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct End {
    pub(super) run: RunPick,
    pub(super) ending: Ending,
    pub(super) resend: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Ending {
    Done,
    Requeue,
    Complete {
        result: Option<u8>,
    },
    Retry {
        delay_ms: u64,
        counted: bool,
        error: Option<u8>,
    },
    Defer {
        delay_ms: u64,
        error: Option<u8>,
    },
    Archive {
        error: u8,
    },
    /// The last outcome of this run, sent again.
    Again,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Change {
    Run,
    Archive,
    Delete,
    /// Ends an orphaned task; there is no such call for many tasks at once.
    Orphan,
}

/// The rules for a ripe group, in whole seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rules {
    pub(super) grace: u64,
    pub(super) max_delay: Option<u64>,
    pub(super) max_size: Option<usize>,
}

/// A set, counted from the newest: of the open ones, or of all sets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum SetPick {
    Open(u8),
    Any(u8),
}

/// The outcome of a task in a set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Fate {
    Merged,
    Alone,
}

const DAY_MS: u64 = 86_400_000;

/// Seconds after which a group may become ripe.
pub(super) const RIPE_AFTER: [u64; 4] = [30, 1, 3, 10];

fn by() -> impl Strategy<Value = By> {
    (0..2_u8, 0..2_u8).prop_map(|(broker, member)| By { broker, member })
}

/// Durations around the limits of leases, locks, sets and days.
fn clock() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 1..3_000_u64,
        4 => prop::sample::select(vec![1, 999, 1_000, 9_999, 10_000, 11_000, 30_000, 31_000, 60_000, 120_000, 121_000]),
        2 => 1..200_000_u64,
        1 => prop::sample::select(vec![600_000, 3_600_000, DAY_MS, 3 * DAY_MS, 91 * DAY_MS]),
    ]
}

fn delay() -> impl Strategy<Value = u64> {
    prop_oneof![2 => 1..3_000_u64, 1 => 1_000..100_000_u64]
}

fn new() -> impl Strategy<Value = New> {
    let delay = prop_oneof![3 => Just(0), 1 => delay()];
    let lock = option::weighted(0.35, (0..2_u8, prop::sample::select(vec![3_u64, 40, 600, 100_000])));
    let retention = prop::sample::select(vec![30_i64, 1, 0, 7_200, 200_000]);
    (0..10_u8, delay, option::weighted(0.3, 0..2_u8), lock, prop::bool::weighted(0.2), retention).prop_map(
        |(id, delay_ms, group, lock, keeps_lock, retention)| New { id, delay_ms, group, lock, keeps_lock, retention },
    )
}

fn run() -> impl Strategy<Value = RunPick> {
    prop_oneof![
        8 => (0..6_u8).prop_map(RunPick::Holding),
        3 => (0..4_u8).prop_map(RunPick::Stale),
        1 => (0..12_u8).prop_map(RunPick::Any),
    ]
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![
        2 => Just(Ending::Done),
        2 => Just(Ending::Requeue),
        2 => option::of(any::<u8>()).prop_map(|result| Ending::Complete { result }),
        3 => (delay(), any::<bool>(), option::weighted(0.7, any::<u8>()))
            .prop_map(|(delay_ms, counted, error)| Ending::Retry { delay_ms, counted, error }),
        1 => (delay(), option::of(any::<u8>())).prop_map(|(delay_ms, error)| Ending::Defer { delay_ms, error }),
        2 => any::<u8>().prop_map(|error| Ending::Archive { error }),
        2 => Just(Ending::Again),
    ]
}

fn end() -> impl Strategy<Value = End> {
    (run(), ending(), prop::bool::weighted(0.3)).prop_map(|(run, ending, resend)| End { run, ending, resend })
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![Just(Change::Delete), Just(Change::Run), Just(Change::Archive), Just(Change::Orphan)]
}

fn rules() -> impl Strategy<Value = Rules> {
    (1..40_u64, option::of(1..100_u64), option::of(1..4_usize)).prop_map(|(grace, max_delay, max_size)| Rules {
        grace,
        max_delay,
        max_size,
    })
}

fn set() -> impl Strategy<Value = SetPick> {
    prop_oneof![3 => (0..3_u8).prop_map(SetPick::Open), 1 => (0..6_u8).prop_map(SetPick::Any)]
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![2 => Just(Fate::Merged), 1 => Just(Fate::Alone)]
}

/// Any step. The order is that of shrinking: a step is replaced by an earlier kind if possible.
///
/// `chance` returns a number below its argument. It makes some kinds of steps frequent or absent, so that sequences differ more
/// than steps of equal frequency would make them.
pub(super) fn step(mut chance: impl FnMut(u32) -> u32) -> Union<BoxedStrategy<Step>> {
    let limit = || prop_oneof![3 => Just(100_usize), 1 => 1..3_usize];
    let beside = prop::sample::select(vec![0_i64, 1, -1, 1_000, -1_000]);
    let finish = (by(), set(), vec(new(), 0..3), vec(fate(), 4), prop::bool::weighted(0.3))
        .prop_map(|(by, set, makes, fates, resend)| Step::Finish { by, set, makes, fates, resend });
    let steps: Vec<(u32, BoxedStrategy<Step>)> = vec![
        (5, clock().prop_map(|ms| Step::Advance { ms }).boxed()),
        (12, (0..8_u8, beside).prop_map(|(nth, beside_ms)| Step::AdvanceTo { nth, beside_ms }).boxed()),
        (10, by().prop_map(|by| Step::Maintain { by }).boxed()),
        (3, by().prop_map(|by| Step::Forward { by }).boxed()),
        (4, by().prop_map(|by| Step::Recover { by }).boxed()),
        (2, (by(), limit()).prop_map(|(by, limit)| Step::Housekeeping { by, limit }).boxed()),
        (2, by().prop_map(|by| Step::Reclaim { by }).boxed()),
        (14, dequeue().boxed()),
        (3, (by(), vec(run(), 1..4)).prop_map(|(by, runs)| Step::Extend { by, runs }).boxed()),
        (14, (by(), vec(new(), 1..5)).prop_map(|(by, tasks)| Step::Enqueue { by, tasks }).boxed()),
        (14, (by(), vec(end(), 1..4)).prop_map(|(by, ends)| Step::Settle { by, ends }).boxed()),
        (2, (by(), prop::bool::weighted(0.2)).prop_map(|(by, on)| Step::Pause { by, on }).boxed()),
        (2, (by(), run()).prop_map(|(by, run)| Step::FreeLock { by, run }).boxed()),
        (2, (by(), run()).prop_map(|(by, run)| Step::ExtendLock { by, run }).boxed()),
        (2, (by(), run(), any::<u8>()).prop_map(|(by, run, result)| Step::WriteResult { by, run, result }).boxed()),
        (1, (by(), any::<u8>()).prop_map(|(by, task)| Step::Cancel { by, task }).boxed()),
        (6, (by(), any::<u8>(), change()).prop_map(|(by, task, change)| Step::Change { by, task, change }).boxed()),
        (
            2,
            (by(), any::<u8>(), change()).prop_map(|(by, state, change)| Step::ChangeAll { by, state, change }).boxed(),
        ),
        (3, trim(limit().boxed()).boxed()),
        (8, (by(), any::<u8>(), rules()).prop_map(|(by, group, rules)| Step::Claim { by, group, rules }).boxed()),
        (6, finish.boxed()),
        (2, (by(), set()).prop_map(|(by, set)| Step::Release { by, set }).boxed()),
        (1, Just(Step::Crash).boxed()),
    ];
    let mut often = |weight: u32| match chance(12) {
        0 if weight < 10 => 0,
        1 | 2 => 4 * weight,
        _ => weight,
    };
    let steps = steps.into_iter().map(|(weight, step)| (often(weight), step));
    Union::new_weighted(steps.filter(|(weight, _)| *weight > 0).collect())
}

fn dequeue() -> impl Strategy<Value = Step> {
    let quarantined = prop_oneof![4 => Just(Sparing::All), 1 => Just(Sparing::One), 1 => Just(Sparing::None)];
    (by(), 1..4_usize, quarantined).prop_map(|(by, n, quarantined)| Step::Dequeue { by, n, quarantined })
}

fn trim(limit: BoxedStrategy<usize>) -> impl Strategy<Value = Step> {
    let age = prop::sample::select(vec![1_000_000_u64, 0, 1, 60, 4_000]);
    (by(), age, 0..4_usize, limit).prop_map(|(by, age, size, limit)| Step::Trim { by, age, size, limit })
}
