//! Housekeeping in slices of at most 100 tasks per queue.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use redis::Value;

use super::{
    super::{BrokerError, Forwarded, Maintain, Recovered, RunKey, Settled, Swept},
    RedisBroker,
    keys::Keys,
    produce::whole_seconds,
    reply,
    script::{Call, DELETE_EXPIRED, EXTEND, FORWARD, RECOVER, SWEEP, TRIM_ARCHIVE},
    settle::read_settled,
};
use crate::task::{QueueName, TaskId};

/// Most tasks that one script touches.
const SLICE: usize = 100;
/// How much longer than its lease a Go run keeps its task: what Go's own recoverer waits.
const GO_GRACE: Duration = Duration::from_secs(30);

#[async_trait::async_trait]
impl Maintain for RedisBroker {
    async fn forward(&self, queues: &[QueueName]) -> Result<Forwarded, BrokerError> {
        let mut forwarded = Forwarded::default();
        for answer in self.ask_each(queues, |keys| self.forward_call(keys)).await? {
            let numbers: Vec<i64> = reply::array(answer?)?.iter().filter_map(reply::number).collect();
            let [moved, more] = numbers[..] else { return Err(reply::unexpected("not two numbers")) };
            forwarded.moved += usize::try_from(moved).unwrap_or_default();
            forwarded.more |= more == 1;
        }
        Ok(forwarded)
    }

    async fn wait_for_due(&self, queues: &[QueueName], limit: Duration) -> Result<(), BrokerError> {
        self.wait_for_next_due(queues, limit).await
    }

    async fn extend(&self, runs: &[RunKey]) -> Result<Vec<Settled>, BrokerError> {
        let mut queues: HashMap<&QueueName, Vec<usize>> = HashMap::new();
        for (place, run) in runs.iter().enumerate() {
            queues.entry(&run.queue).or_default().push(place);
        }
        let portions: Vec<_> = queues
            .iter()
            .flat_map(|(queue, places)| places.chunks(SLICE).map(move |portion| (*queue, portion)))
            .collect();
        let calls: Vec<Call> = portions.iter().map(|(queue, places)| self.extend_call(queue, places, runs)).collect();
        if calls.is_empty() {
            return Ok(Vec::new());
        }
        let answers = self.link.send(calls).await?;
        let mut settled = vec![Settled::Gone; runs.len()];
        for ((_, places), answer) in portions.iter().zip(answers) {
            for (&place, one) in places.iter().zip(read_settled(answer, places.len())?) {
                settled[place] = one;
            }
        }
        Ok(settled)
    }

    async fn recover(&self, queues: &[QueueName]) -> Result<Recovered, BrokerError> {
        let answers = self.ask_each(queues, |keys| self.recover_call(keys)).await?;
        let mut recovered = Recovered::default();
        for (queue, answer) in queues.iter().zip(answers) {
            let mut parts = reply::array(answer?)?.into_iter();
            recovered.more |= parts.next().and_then(|more| reply::number(&more)) == Some(1);
            let ids = parts.filter_map(reply::text).map(|id| (queue.clone(), TaskId::from_wire(&id)));
            recovered.tasks.extend(ids);
        }
        Ok(recovered)
    }

    async fn sweep(&self, queue: &QueueName) -> Result<Swept, BrokerError> {
        let keys = Keys::new(queue);
        let (active, pending) = self.sweeps.begin(queue);
        let call = SWEEP
            .on(&[keys.active(), keys.lease(), keys.pending(), keys.orphans()])
            .arg(self.clock.argument())
            .arg(keys.task_prefix())
            .arg(SLICE)
            .arg(active)
            .arg(pending);
        let answer = reply::array(self.link.send_one(call).await?)?;
        let numbers: Vec<usize> =
            answer.iter().filter_map(reply::number).filter_map(|number| usize::try_from(number).ok()).collect();
        let [leases_restored, ghosts_removed, active, pending] = numbers[..] else {
            return Err(reply::unexpected("not four numbers"));
        };
        self.sweeps.go_on(queue, active, pending);
        Ok(Swept { leases_restored, ghosts_removed })
    }

    async fn delete_expired(&self, queue: &QueueName, limit: usize) -> Result<usize, BrokerError> {
        let keys = Keys::new(queue);
        let call = |slice: usize| {
            DELETE_EXPIRED.on(&[keys.completed()]).arg(self.clock.argument()).arg(keys.task_prefix()).arg(slice)
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
            TRIM_ARCHIVE
                .on(&[keys.archived()])
                .arg(self.clock.argument())
                .arg(keys.task_prefix())
                .arg(slice)
                .arg(whole_seconds(max_age))
                .arg(max_size)
        };
        self.in_slices(limit, call).await
    }

    async fn extend_locks(&self, _: &[crate::broker::HeldLock]) -> Result<(), BrokerError> {
        Err(BrokerError::new(crate::broker::BrokerErrorKind::Unexpected, "not there yet"))
    }
}

impl RedisBroker {
    async fn ask_each(
        &self,
        queues: &[QueueName],
        call: impl Fn(&Keys) -> Call,
    ) -> Result<Vec<Result<Value, BrokerError>>, BrokerError> {
        let calls: Vec<Call> = queues.iter().map(|queue| call(&Keys::new(queue))).collect();
        if calls.is_empty() { Ok(Vec::new()) } else { self.link.send(calls).await }
    }

    fn forward_call(&self, keys: &Keys) -> Call {
        FORWARD
            .on(&[keys.pending(), keys.scheduled(), keys.retry(), keys.due(), keys.groups()])
            .arg(self.clock.argument())
            .arg(keys.prefix())
            .arg(SLICE)
    }

    fn recover_call(&self, keys: &Keys) -> Call {
        RECOVER
            .on(&[keys.active(), keys.lease(), keys.pending()])
            .arg(self.clock.argument())
            .arg(keys.task_prefix())
            .arg(SLICE)
            .arg(GO_GRACE.as_secs())
    }

    fn extend_call(&self, queue: &QueueName, places: &[usize], runs: &[RunKey]) -> Call {
        let keys = Keys::new(queue);
        let mut names = vec![keys.active(), keys.lease()];
        names.extend(places.iter().map(|&place| keys.task(runs[place].id.as_str())));
        let mut call = EXTEND.on(&names).arg(self.clock.argument()).arg(self.lease.as_secs());
        for &place in places {
            call.push(runs[place].id.as_str());
            call.push(runs[place].token.to_string());
        }
        call
    }

    /// Repeats a script that removes up to a slice until it has removed `limit` or finds no full slice any more.
    async fn in_slices(&self, limit: usize, call: impl Fn(usize) -> Call) -> Result<usize, BrokerError> {
        let mut removed = 0;
        while removed < limit {
            let slice = (limit - removed).min(SLICE);
            let answer = self.link.send_one(call(slice)).await?;
            let number = reply::number(&answer).and_then(|number| usize::try_from(number).ok());
            let now = number.ok_or_else(|| reply::unexpected("no number"))?;
            removed += now;
            if now < slice {
                break;
            }
        }
        Ok(removed)
    }
}

/// Where the next sweep of each queue goes on, counted from the tails of active and pending.
#[derive(Debug, Default)]
pub(super) struct Sweeps(Mutex<HashMap<QueueName, (usize, usize)>>);

impl Sweeps {
    fn begin(&self, queue: &QueueName) -> (usize, usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(queue).copied().unwrap_or_default()
    }

    fn go_on(&self, queue: &QueueName, active: usize, pending: usize) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if active == 0 && pending == 0 {
            all.remove(queue);
        } else {
            all.insert(queue.clone(), (active, pending));
        }
    }
}
