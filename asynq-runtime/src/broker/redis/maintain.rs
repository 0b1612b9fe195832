//! Housekeeping in slices of at most 100 tasks per queue.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use chrono::{DateTime, Utc};
use redis::Value;

use super::{
    super::{
        ArchivePolicy, BrokerError, Forwarded, HeldLock, Maintain, Recovered, RetryOrder, RunKey, Settled, Swept,
        TaskSet, maintain::LOCK_LEASES,
    },
    RedisBroker,
    clock::since_boot,
    keys::Keys,
    last_look::Finding,
    reply,
    script::{Call, DELETE_EXPIRED, EXTEND, EXTEND_LOCKS, FORWARD, RECOVER, SWEEP, TRIM_ARCHIVE},
    seen::{Kind, Question, Topic},
    settle::settled,
    span::whole_seconds,
};
use crate::task::{QueueName, TaskId};

/// Most tasks that one script touches.
const SLICE: usize = 100;
/// Time for which a Go run keeps its task after its lease has lapsed, because Go's own recoverer waits as long.
pub(super) const GO_GRACE: Duration = Duration::from_secs(30);
/// The time after which queues that take no writes are looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

#[async_trait::async_trait]
impl Maintain for RedisBroker {
    async fn forward(&self, queues: &[QueueName], retries: RetryOrder) -> Result<Forwarded, BrokerError> {
        let (mut forwarded, mut failed) = (Forwarded::default(), None);
        for answer in self.ask_each(queues, |keys| self.forward_call(keys, retries)).await? {
            match answer.and_then(reply::counts::<usize, 2>) {
                Ok([moved, more]) => {
                    forwarded.moved += moved;
                    forwarded.more |= more == 1;
                }
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        // The next call meets the error again, if it lasts.
        failed.filter(|_| forwarded.moved == 0).map_or(Ok(forwarded), Err)
    }

    async fn wait_for_due(&self, queues: &[QueueName], limit: Duration) -> Result<Vec<QueueName>, BrokerError> {
        self.wait_for_next_due(queues, limit).await
    }

    async fn extend(&self, runs: &[RunKey]) -> Vec<Result<Settled, BrokerError>> {
        let mut queues: HashMap<&QueueName, Vec<usize>> = HashMap::new();
        for (place, run) in runs.iter().enumerate() {
            queues.entry(&run.queue).or_default().push(place);
        }
        let portions = queues.iter().flat_map(|(queue, places)| places.chunks(SLICE).map(move |some| (*queue, some)));
        let (places, calls) =
            portions.map(|(queue, some)| (some.to_vec(), self.extend_call(queue, some, runs))).unzip();
        self.send_by_places(runs.len(), places, calls, |letter, _| settled(letter)).await
    }

    async fn asked_to_cancel(&self, runs: &[RunKey]) -> Vec<Result<bool, BrokerError>> {
        let mark = |run: &RunKey| Call::plain("HGET").arg(Keys::new(&run.queue).task(run.id.as_str())).arg("cancel");
        let marks = match self.router.send(runs.iter().map(mark).collect()).await {
            Ok(marks) => marks,
            Err(error) => return vec![Err(error); runs.len()],
        };
        // A mark with another token is a request to an earlier run of the task.
        let names = |run: &RunKey, mark| reply::text(mark).is_some_and(|token| token == run.token.to_string());
        runs.iter().zip(marks).map(|(run, mark)| mark.map(|mark| names(run, mark))).collect()
    }

    async fn recover(&self, queues: &[QueueName]) -> Result<Recovered, BrokerError> {
        let Lapses { mut lapsed, .. } = self.lapses(queues).await?;
        lapsed.retain(|queue| !self.is_held(queue));
        // A process that was met after the last look may have older leases: the next look begins a hold.
        if !self.hold.lock().is_on(self.router.process()) {
            return Ok(Recovered::default());
        }
        let answers = self.ask_each(&lapsed, |keys| self.recover_call(keys)).await?;
        let (mut recovered, mut failed) = (Recovered::default(), None);
        for (queue, answer) in lapsed.iter().zip(answers) {
            let mut parts = match answer.and_then(reply::array) {
                Ok(parts) => parts.into_iter(),
                Err(error) => {
                    failed.get_or_insert(error);
                    continue;
                }
            };
            recovered.more |= parts.next().and_then(|more| reply::number(&more)) == Some(1);
            let ids = parts.filter_map(reply::text).map(|id| (queue.clone(), TaskId::from_wire(&id)));
            recovered.tasks.extend(ids);
        }
        // The next call meets the error again, if it lasts.
        failed.filter(|_| recovered.tasks.is_empty()).map_or(Ok(recovered), Err)
    }

    async fn until_lapse(&self, queues: &[QueueName]) -> Result<Duration, BrokerError> {
        let hold = if self.clock.is_given() { Duration::ZERO } else { self.hold_of_lapses().await? };
        let Lapses { lapsed, overdue, quiet } = self.lapses(queues).await?;
        self.hold.lock().answered(Instant::now());
        if !overdue.is_empty() {
            self.hold_unwritable(&overdue, queues).await?;
            self.hold.lock().answered(Instant::now());
        }
        let is_held = !lapsed.is_empty() && lapsed.iter().all(|queue| self.is_held(queue));
        Ok(if is_held { LOOK_AGAIN } else { quiet }.max(hold))
    }

    async fn sweep(&self, queue: &QueueName) -> Result<Swept, BrokerError> {
        let keys = Keys::new(queue);
        let (active, pending) = self.sweeps.lock().get(queue).copied().unwrap_or_default();
        let call = self
            .timed(&SWEEP, &[keys.active(), keys.lease(), keys.pending(), keys.orphans(), keys.sets(), keys.absent()])
            .arg(keys.task_prefix())
            .arg(SLICE)
            .arg(active)
            .arg(pending)
            .arg(TaskSet::DEADLINE.as_secs())
            .arg(self.lease.as_secs());
        let answer = self.router.send_one(call).await?;
        let [leases_restored, ghosts_removed, active, pending]: [usize; 4] = reply::counts(answer)?;
        let mut sweeps = self.sweeps.lock();
        match (active, pending) {
            (0, 0) => sweeps.remove(queue),
            next => sweeps.insert(queue.clone(), next),
        };
        Ok(Swept { leases_restored, ghosts_removed })
    }

    async fn restore_groups(&self, queues: &[QueueName]) -> Result<usize, BrokerError> {
        self.find_lost(queues).await
    }

    async fn worth_cleaning(&self, policies: &[ArchivePolicy]) -> Result<Vec<QueueName>, BrokerError> {
        let mut reads = self.reads(Topic::Cleaning);
        let about = |policy: &ArchivePolicy| {
            let keys = Keys::new(&policy.queue);
            let [completed, archived, sets] =
                [keys.completed(), keys.archived(), keys.sets()].map(|key| Question::new(Kind::Head, key));
            [completed, archived, sets, Question::new(Kind::Size, keys.archived())]
        };
        let look = self.looks.cleaning.look(&mut reads, policies, about, worth_from).await?;
        let worth = look.due(self.clock.now().timestamp());
        let worth = worth.into_iter().map(|place| policies[place].queue.clone()).collect();
        self.looks.cleaning.keep(look, &reads);
        Ok(worth)
    }

    async fn worth_sweeping(&self, queues: &[QueueName]) -> Result<Vec<QueueName>, BrokerError> {
        let places = |queue| {
            let keys = Keys::new(queue);
            let [active, pending] = [keys.active(), keys.pending()].map(|key| Question::new(Kind::Length, key));
            [active, pending, Question::new(Kind::Size, keys.sets())]
        };
        let questions: Vec<Question> = queues.iter().flat_map(places).collect();
        let answers = self.reads(Topic::Cleaning).look(&questions).await?;
        let worth = queues.iter().zip(answers.chunks(3));
        let worth = worth.filter(|(_, lengths)| lengths.iter().any(|length| *length != Some(Some(0))));
        Ok(worth.map(|(queue, _)| queue.clone()).collect())
    }

    async fn delete_expired(&self, queue: &QueueName, limit: usize) -> Result<usize, BrokerError> {
        let keys = Keys::new(queue);
        let call = |slice: usize| {
            self.timed(&DELETE_EXPIRED, &[keys.completed(), keys.absent()]).arg(keys.task_prefix()).arg(slice)
        };
        self.in_slices(limit, call).await
    }

    async fn trim_archive(
        &self,
        queue: &QueueName,
        max_age: Duration,
        max_size: usize,
        limit: usize,
    ) -> Result<usize, BrokerError> {
        let keys = Keys::new(queue);
        let call = |slice: usize| {
            self.timed(&TRIM_ARCHIVE, &[keys.archived(), keys.absent()])
                .arg(keys.task_prefix())
                .arg(slice)
                .arg(whole_seconds(max_age))
                .arg(max_size)
        };
        self.in_slices(limit, call).await
    }

    async fn extend_locks(&self, locks: &[HeldLock]) -> Result<(), BrokerError> {
        let mut queues: HashMap<&QueueName, Vec<&HeldLock>> = HashMap::new();
        for lock in locks {
            queues.entry(&lock.run.queue).or_default().push(lock);
        }
        let calls: Vec<Call> = queues
            .into_iter()
            .flat_map(|(queue, mut locks)| {
                let keys = Keys::new(queue);
                // A key outside the queue is not a lock of its tasks.
                locks.retain(|lock| lock.key.starts_with(keys.prefix()));
                locks.chunks(SLICE).map(|portion| self.extend_locks_call(&keys, portion)).collect::<Vec<_>>()
            })
            .collect();
        self.router.send_all(calls).await
    }
}

impl RedisBroker {
    /// Looks at the first lease of each of `queues`. Redis is asked only about queues whose first lease has changed.
    async fn lapses(&self, queues: &[QueueName]) -> Result<Lapses, BrokerError> {
        let mut reads = self.reads(Topic::Leases);
        let head = |queue: &QueueName| [Question::new(Kind::Head, Keys::new(queue).lease())];
        // A key of a foreign type counts as lapsed: recovery reports the error.
        let find = |_: &QueueName, answers: &[Option<Option<i64>>]| match answers {
            &[Some(lapse)] => Finding::From(lapse),
            _ => Finding::Unknown,
        };
        let look = self.looks.leases.look(&mut reads, queues, head, find).await?;
        let now = self.clock.now();
        let named = |places: Vec<usize>| places.into_iter().map(|place| queues[place].clone()).collect::<Vec<_>>();
        let lapsed = named(look.due(now.timestamp()));
        // A worker that lives extends a lease when a third of it has passed. One that is only a little late costs no probe, and a second
        // is lost to rounding.
        let late = now.timestamp().saturating_add_unsigned((self.lease / 5 * 3).as_secs().saturating_sub(1));
        let overdue = named(look.due(late));
        // A task that is taken from now on has a whole lease.
        let quiet = look.next().map_or(self.lease, |lapse| until(lapse, now).min(self.lease));
        self.looks.leases.keep(look, &reads);
        Ok(Lapses { lapsed, overdue, quiet })
    }

    /// Holds those of `queues` in which no lease can be extended now, as the `overdue` ones among them show: their slot moves, or
    /// their master is away, or became a replica, or cannot save its data, and still answers reads. Such a time is a gap, like one
    /// without answers. It may end a moment before a lease lapses, and workers try again only after that: a probe that waited for
    /// the lapse would not see it.
    ///
    /// # Errors
    ///
    /// None of the queues takes writes now, which is a gap for all.
    async fn hold_unwritable(&self, overdue: &[QueueName], queues: &[QueueName]) -> Result<(), BrokerError> {
        // The script that extends leases, without a run. A key that is nowhere has it fail, too, while the slot is on its way to
        // another node: then a lease cannot be extended whose task is on the other side.
        // On one server, one queue shows it for all.
        let overdue = if self.is_spread() { overdue } else { overdue.get(..1).unwrap_or_default() };
        let probe =
            |keys: &Keys| self.timed(&EXTEND, &[keys.active(), keys.lease(), keys.absent()]).arg(self.lease.as_secs());
        let answers = self.ask_each(overdue, probe).await.inspect_err(|_| self.hold.lock().forget())?;
        let (mut moving, mut away, mut failure) = (Vec::new(), HashSet::new(), None);
        for (queue, answer) in overdue.iter().zip(answers) {
            match answer {
                Err(error) if reply::is_moving(&error) => moving.push(queue),
                Err(error) if error.is_unavailable() => {
                    away.insert(queue);
                    failure.get_or_insert(error);
                }
                _ => {}
            }
        }
        self.hold.lock().hold(moving, Instant::now());
        let Some(failure) = failure else { return Ok(()) };
        // The leases in the other queues of the same servers lapse, too.
        let leases: Vec<String> = queues.iter().map(|queue| Keys::new(queue).lease()).collect();
        let owners = self.router.owners(&leases).await?;
        let owned = || queues.iter().zip(&owners);
        let owners_away: HashSet<_> =
            owned().filter(|(queue, _)| away.contains(queue)).map(|(_, owner)| owner).collect();
        let held: Vec<&QueueName> =
            owned().filter(|(_, owner)| owners_away.contains(owner)).map(|(queue, _)| queue).collect();
        let mut hold = self.hold.lock();
        if held.len() == queues.len() {
            hold.forget();
            return Err(failure);
        }
        hold.hold(held, Instant::now());
        Ok(())
    }

    /// Returns whether lapsed leases of this queue must not be recovered yet.
    fn is_held(&self, queue: &QueueName) -> bool {
        self.hold.lock().is_held(queue, Instant::now())
    }

    /// Reads Redis's clock. Returns how long lapsed leases must not be recovered yet.
    async fn hold_of_lapses(&self) -> Result<Duration, BrokerError> {
        // With the time in which the machine slept, because the answers of two masters may be that far apart.
        let asked = since_boot();
        let times = self.router.send_to_each(Call::plain("TIME")).await?;
        let read: Vec<_> = times.iter().filter_map(|time| reply::time(time.as_ref().ok()?)).collect();
        // In a cluster, the clock that is furthest ahead counts.
        let ahead = self.clock.latest(&read, since_boot().saturating_sub(asked));
        let failure = || times.iter().find_map(|time| time.as_ref().err().cloned());
        let redis = ahead.ok_or_else(|| failure().unwrap_or_else(|| reply::unexpected("no time")))?;
        // Read after the answer: if a call had to wait for a new connection, the answer came on that one.
        let process = self.router.process();
        Ok(self.hold.lock().look(Instant::now(), redis, process))
    }

    async fn ask_each(
        &self,
        queues: &[QueueName],
        call: impl Fn(&Keys) -> Call,
    ) -> Result<Vec<Result<Value, BrokerError>>, BrokerError> {
        self.router.send(queues.iter().map(|queue| call(&Keys::new(queue))).collect()).await
    }

    fn forward_call(&self, keys: &Keys, retries: RetryOrder) -> Call {
        let names = [keys.pending(), keys.scheduled(), keys.retry(), keys.due(), keys.groups(), keys.absent()];
        self.timed(&FORWARD, &names).arg(keys.prefix()).arg(SLICE).arg(u8::from(retries == RetryOrder::First))
    }

    fn recover_call(&self, keys: &Keys) -> Call {
        self.timed(&RECOVER, &[keys.active(), keys.lease(), keys.pending(), keys.absent()])
            .arg(keys.task_prefix())
            .arg(SLICE)
            .arg(GO_GRACE.as_secs())
    }

    fn extend_call(&self, queue: &QueueName, places: &[usize], runs: &[RunKey]) -> Call {
        let keys = Keys::new(queue);
        let mut names = vec![keys.active(), keys.lease()];
        names.extend(places.iter().map(|&place| keys.task(runs[place].id.as_str())));
        let mut call = self.timed(&EXTEND, &names).arg(self.lease.as_secs());
        for &place in places {
            call.push(runs[place].id.as_str());
            call.push(runs[place].token.to_string());
        }
        call
    }

    fn extend_locks_call(&self, keys: &Keys, locks: &[&HeldLock]) -> Call {
        let names: Vec<String> =
            locks.iter().flat_map(|lock| [keys.task(lock.run.id.as_str()), lock.key.clone()]).collect();
        let mut call = EXTEND_LOCKS.on(&names).arg((self.lease * LOCK_LEASES).as_secs());
        for lock in locks {
            call.push(lock.run.id.as_str());
            call.push(lock.run.token.to_string());
        }
        call
    }

    /// Repeats a script that removes up to a slice until it has removed `limit` or finds no full slice any more.
    async fn in_slices(&self, limit: usize, call: impl Fn(usize) -> Call) -> Result<usize, BrokerError> {
        let mut removed = 0;
        while removed < limit {
            let slice = (limit - removed).min(SLICE);
            let answer = self.router.send_one(call(slice)).await?;
            let now: usize = reply::count(&answer).ok_or_else(|| reply::unexpected("no number"))?;
            removed += now;
            if now < slice {
                break;
            }
        }
        Ok(removed)
    }
}

/// Returns the Unix second from which a queue is worth cleaning, by the answers about it: the heads of `completed`, `archived` and
/// `aggregation_sets`, and the size of the archive.
fn worth_from(policy: &ArchivePolicy, answers: &[Option<Option<i64>>]) -> Finding {
    let &[Some(completed), Some(archived), Some(sets), Some(size)] = answers else { return Finding::Unknown };
    if size.is_some_and(|size| usize::try_from(size).is_ok_and(|size| size > policy.max_size)) {
        return Finding::From(Some(i64::MIN));
    }
    let too_old = archived.map(|since| since.saturating_add_unsigned(whole_seconds(policy.max_age)));
    Finding::From([completed, sets, too_old].into_iter().flatten().min())
}

/// Returns the time until a Unix second.
fn until(second: i64, now: DateTime<Utc>) -> Duration {
    let ms = second.saturating_mul(1000).saturating_sub(now.timestamp_millis());
    Duration::from_millis(u64::try_from(ms).unwrap_or_default())
}

/// The leases of several queues at one moment.
struct Lapses {
    /// The queues in which a lease has lapsed.
    lapsed: Vec<QueueName>,
    /// The queues in which the extension of a lease is overdue, those of `lapsed` among them.
    overdue: Vec<QueueName>,
    /// The time until the next lapse; zero if there is one already.
    quiet: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_until_a_second_ends_with_it() {
        let now = DateTime::from_timestamp_millis(7_250).unwrap_or_default();
        for (second, ms) in [(8, 750), (7, 0), (-1, 0), (37, 29_750)] {
            assert_eq!(until(second, now), Duration::from_millis(ms), "{second}");
        }
    }
}
