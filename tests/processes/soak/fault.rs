//! Faults of workers and of the broker, drawn from a seed.

use std::time::Duration;

use fastrand::Rng;

/// A fault that the soak can inject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// kill -9 of one worker.
    Kill,
    /// kill -9 of all workers.
    KillAll,
    /// TERM to one worker, as a deploy does.
    Term,
    /// STOP of one worker for much less than a lease.
    StopShort,
    /// STOP of one worker for longer than its lease.
    StopLong,
    /// The network of one worker, and that of the producers, carries nothing for much less than a lease, and then what it took
    /// in meanwhile: calls arrive that their callers have given up.
    SilentShort,
    /// The network of one worker carries nothing for longer than its lease, and then what it took in meanwhile.
    SilentLong,
    /// The network of one worker forgets the connections that there are, which stay open.
    Forget,
    /// kill -9 of Redis, which is started again soon.
    Restart,
    /// Redis ends every connection.
    Cut,
    /// Redis has no memory left for a while.
    Full,
    /// Redis does not answer for a while.
    Freeze,
    /// Redis is away for longer than the lease.
    Outage,
    /// kill -9 of the primary; its replica takes over, and the old primary comes back as a replica of that.
    FailOver,
    /// Another program holds SQLite's write lock for a while.
    Lock,
    /// Another program holds SQLite's write lock for longer than the lease.
    LockLong,
    /// The wall clock of all workers steps ahead, by more than a lease, and back after a while.
    Step,
    /// The disk of the SQLite file has no room left for a while.
    FullDisk,
}

impl Fault {
    pub(super) const REDIS: &[(u64, Self)] = &[
        (22, Self::Kill),
        (12, Self::Term),
        (10, Self::StopShort),
        (4, Self::StopLong),
        (5, Self::KillAll),
        (8, Self::SilentShort),
        (4, Self::SilentLong),
        (4, Self::Forget),
        (12, Self::Restart),
        (9, Self::Cut),
        (5, Self::Full),
        (4, Self::Freeze),
        (4, Self::Step),
        (1, Self::Outage),
    ];

    pub(super) const REPLICATED: &[(u64, Self)] = &[
        (30, Self::Kill),
        (20, Self::Term),
        (16, Self::StopShort),
        (5, Self::StopLong),
        (6, Self::KillAll),
        (4, Self::Step),
        (23, Self::FailOver),
    ];

    pub(super) const SQLITE: &[(u64, Self)] = &[
        (35, Self::Kill),
        (22, Self::Term),
        (16, Self::StopShort),
        (5, Self::StopLong),
        (7, Self::KillAll),
        (14, Self::Lock),
        (5, Self::Step),
        (5, Self::FullDisk),
        (1, Self::LockLong),
    ];

    /// Draws one fault of `weights`.
    pub(super) fn drawn(weights: &[(u64, Self)], random: &mut Rng) -> Self {
        let all: u64 = weights.iter().map(|(weight, _)| weight).sum();
        let mut left = random.u64(..all);
        for &(weight, fault) in weights {
            if left < weight {
                return fault;
            }
            left -= weight;
        }
        Self::Kill
    }
}

/// Draws a duration of less than `millis` milliseconds.
pub(super) fn within(millis: u64, random: &mut Rng) -> Duration {
    Duration::from_millis(random.u64(..millis))
}
