//! Reads queues and tasks, and pauses and resumes queues.

mod failures;
mod queues;
mod tasks;

use std::time::Duration;

use chrono::{DateTime, Days, Utc};
use tokio::time::sleep;

use self::{
    failures::{MOST_FAILURES, newest_first},
    queues::counter,
};
use super::{
    super::{
        Broker as _, BrokerError, BrokerErrorKind, DayStats, Failure, Inspect, LockInfo, LockPage, Page, QueueStats,
        TaskBrief, TaskEnd, inspect::LOOK_FOR_QUEUES, task_end::wait_for_end,
    },
    RedisBroker,
    keys::{Keys, QUEUES},
    queue_names::QueueNames,
    reply::{self, BEGIN},
    router::Answer,
    script::{Call, MEMORY, PAUSE},
    seen::{Kind, Question, Topic},
    waits::{end, left},
};
use crate::task::{GroupName, QueueName, TaskId, TaskInfo, TaskMessage, TaskState};

/// Tasks of each state, and groups, that asynq's estimate looks at.
const SAMPLES: (usize, usize) = (20, 5);
/// How many days the counters are kept.
const MOST_DAYS: usize = 90;
/// Number of queues in which one round trip looks for an id.
const PER_TRIP: usize = 100;
/// Approximate number of the server's keys that one look for locks reads.
const KEYS: usize = 1000;

impl RedisBroker {
    /// Lists a queue that has tasks and is missing from the set of queues: servers of patterns take tasks of listed queues only.
    async fn list_again(&self, queue: &QueueName) -> Result<(), BrokerError> {
        if self.knows(queue).await? {
            return Ok(());
        }
        let call = Call::plain("EXISTS").arg(Keys::new(queue).containers());
        if reply::number(&self.router.send_one(call).await?) > Some(0) {
            self.router.send_one(QueueNames::call([queue])).await?;
        }
        Ok(())
    }
}

#[async_trait::async_trait]
impl Inspect for RedisBroker {
    async fn queues(&self) -> Result<Vec<QueueName>, BrokerError> {
        // Every server asks for the names as well, so this uses the main connection and opens no other.
        let names = reply::array(self.router.send_one(Call::plain("SMEMBERS").arg(QUEUES)).await?)?;
        let mut names: Vec<QueueName> =
            names.into_iter().filter_map(reply::text).map(|name| QueueName::from_wire(&name)).collect();
        names.sort();
        Ok(names)
    }

    async fn knows(&self, queue: &QueueName) -> Result<bool, BrokerError> {
        let call = Call::plain("SISMEMBER").arg(QUEUES).arg(queue.as_str());
        Ok(reply::number(&self.router.send_one(call).await?) == Some(1))
    }

    async fn wait_for_queues(&self, limit: Duration) -> Result<(), BrokerError> {
        let end = end(limit);
        let names = Question::new(Kind::Members, QUEUES.to_owned());
        let mut reads = self.reads(Topic::Names);
        if reads.answer(&names).is_none() {
            // Changes are announced from here on. The caller has to look for earlier ones itself.
            reads.ask([&names]).await?.failure.map_or(Ok(()), Err)?;
            if !reads.is_tracked() {
                sleep(LOOK_FOR_QUEUES.min(left(end))).await;
            }
            return Ok(());
        }
        while reads.answer(&names).is_some() && reads.changed(left(end)).await? {}
        Ok(())
    }

    async fn queue_stats(&self, queue: &QueueName) -> Result<QueueStats, BrokerError> {
        self.stats(queue).await
    }

    async fn list(
        &self,
        queue: &QueueName,
        state: TaskState,
        group: Option<&GroupName>,
        page: Page,
        most: Option<usize>,
    ) -> Result<Vec<TaskBrief>, BrokerError> {
        let keys = Keys::new(queue);
        let (state, place) = match group {
            Some(group) => (TaskState::Aggregating, keys.group(group)),
            None if state == TaskState::Aggregating => return self.list_grouped(queue, page, most).await,
            None => (state, keys.state(state)),
        };
        self.list_slices(queue, state, &place, page, most).await
    }

    async fn task(&self, queue: &QueueName, id: &TaskId) -> Result<Option<TaskInfo>, BrokerError> {
        self.find(queue, id).await
    }

    async fn queues_of(&self, id: &TaskId) -> Result<Vec<QueueName>, BrokerError> {
        let mut found = Vec::new();
        for queues in self.queues().await?.chunks(PER_TRIP) {
            let exists = |queue| Call::plain("EXISTS").arg(Keys::new(queue).task(id.as_str()));
            let answers = self.looking().send(queues.iter().map(exists).collect()).await?;
            for (queue, answer) in queues.iter().zip(answers) {
                if reply::number(&answer?) == Some(1) {
                    found.push(queue.clone());
                }
            }
        }
        Ok(found)
    }

    async fn wait_for_end(&self, queue: &QueueName, id: &TaskId, limit: Duration) -> Result<TaskEnd, BrokerError> {
        wait_for_end(self.begin_wait(queue, id), queue, id, limit).await
    }

    async fn wait_until_idle(&self, queues: &[QueueName], limit: Duration) -> Result<bool, BrokerError> {
        self.wait_for_idle_queues(queues, limit).await
    }

    async fn pause(&self, queue: &QueueName) -> Result<bool, BrokerError> {
        let now = self.clock.now().timestamp();
        let keys = Keys::new(queue);
        let call = PAUSE.on(&[keys.paused(), keys.absent()]).arg(now);
        Ok(reply::number(&self.router.change(call).await?) == Some(1))
    }

    async fn resume(&self, queue: &QueueName) -> Result<bool, BrokerError> {
        let call = Call::plain("DEL").arg(Keys::new(queue).paused());
        let was_paused = reply::number(&self.router.change(call).await?) == Some(1);
        match self.list_again(queue).await {
            // In a cluster another master may keep the names, and the queue goes on without it.
            Err(_) if was_paused => Ok(true),
            listed => listed.map(|()| was_paused),
        }
    }

    async fn locks(&self, queue: &QueueName, after: Option<&str>) -> Result<LockPage, BrokerError> {
        let (keys, cursor) = (Keys::new(queue), after.unwrap_or(BEGIN));
        if cursor.parse::<u64>().is_err() {
            return Err(LockPage::nowhere());
        }
        // SCAN names no key: a master from which the slot is moving, or has moved, would answer with the locks that it still has. It refuses
        // a call on absent keys instead, or redirects it.
        if self.looking().has_parts() {
            let probe = Call::plain("EXISTS").arg(keys.absent()).arg(keys.pending());
            self.looking().send_one(probe).await?;
        }
        let (found, next) = self.looking().scan(keys.prefix(), cursor, &keys.pattern("unique:"), KEYS).await?;
        let reads = found.iter().flat_map(|key| [Call::plain("GET").arg(key), Call::plain("PTTL").arg(key)]);
        let mut answers = self.looking().send(reads.collect()).await?.into_iter();
        let mut locked: Vec<(String, String, Option<Duration>)> = Vec::with_capacity(found.len());
        for key in found {
            let (Some(holder), Some(left)) = (answers.next(), answers.next()) else { break };
            // A lock without a value has ended meanwhile.
            if let Some(holder) = text_unless_foreign(holder)? {
                locked.push((key, holder, reply::count(&left?).map(Duration::from_millis)));
            }
        }
        let states = locked.iter().map(|(_, holder, _)| Call::plain("HGET").arg(keys.task(holder)).arg("state"));
        let states = self.looking().send(states.collect()).await?;
        let states: Vec<_> = states.into_iter().map(text_unless_foreign).collect::<Result<_, _>>()?;
        let now = self.now();
        let locks = locked.into_iter().zip(states).map(|((key, holder, left), state)| LockInfo {
            key,
            holder: TaskId::from_wire(&holder),
            state: state.and_then(|state| state.parse().ok()),
            // Another program may have let the key live beyond the last year that chrono knows.
            until: left.map(|left| crate::clock::later(now, left)),
        });
        Ok(LockPage { locks: locks.collect(), next })
    }

    async fn failures(&self, queue: &QueueName, id: &TaskId) -> Result<Vec<Failure>, BrokerError> {
        let mut call = Call::plain("HMGET").arg(Keys::new(queue).task(id.as_str())).arg("msg");
        for place in 0..MOST_FAILURES {
            call.push(format!("e{place}"));
        }
        let mut fields = match self.looking().send_one(call).await {
            // The key of the task has another type, so there is no task.
            Err(error) if error.kind() == BrokerErrorKind::Corrupt => return Ok(Vec::new()),
            answer => reply::array(answer?)?.into_iter(),
        };
        let message = fields.next().and_then(reply::bytes).and_then(|raw| TaskMessage::decode(raw.into()).ok());
        let ring = fields.filter_map(reply::text).filter_map(|text| failures::read(&text)).collect();
        Ok(newest_first(ring, message.as_ref()))
    }

    async fn history(&self, queue: &QueueName, days: usize) -> Result<Vec<DayStats>, BrokerError> {
        let (keys, now) = (Keys::new(queue), self.clock.now());
        // asynq goes back by 24 hours, which in UTC are days.
        let days: Vec<DateTime<Utc>> =
            (0..days.min(MOST_DAYS)).map_while(|n| now.checked_sub_days(Days::new(n as u64))).collect();
        if days.is_empty() {
            return Ok(Vec::new());
        }
        let mut call = Call::plain("MGET");
        for &day in &days {
            call.push(keys.processed_on(day));
            call.push(keys.failed_on(day));
        }
        let counters = reply::array(self.looking().send_one(call).await?)?;
        let mut counters = counters.iter().map(counter);
        let mut next = || counters.next().ok_or_else(|| reply::unexpected("too few counters"));
        days.iter().map(|day| Ok(DayStats::new(day.date_naive(), next()?, next()?))).collect()
    }

    async fn memory_usage(&self, queue: &QueueName) -> Result<u64, BrokerError> {
        let keys = Keys::new(queue);
        let call = MEMORY.on(&keys.containers()).arg(keys.prefix()).arg(SAMPLES.0).arg(SAMPLES.1);
        reply::count(&self.looking().send_one(call).await?).ok_or_else(|| reply::unexpected("no number"))
    }
}

/// Returns the text that Redis answered; `None` if there is none, or the key has another type than asynq's.
fn text_unless_foreign(answer: Answer) -> Result<Option<String>, BrokerError> {
    match answer {
        Err(error) if error.kind() == BrokerErrorKind::Corrupt => Ok(None),
        answer => answer.map(reply::text),
    }
}
