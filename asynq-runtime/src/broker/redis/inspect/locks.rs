//! Lists the unique locks of a queue, some keys of the server at a time.

use std::time::Duration;

use crate::{
    broker::{
        Broker as _, BrokerError, LockInfo, LockPage,
        redis::{RedisBroker, keys::Keys, reply, script::Call},
    },
    task::{QueueName, TaskId},
};

/// Approximate number of the server's keys that one call looks at.
const SLICE: usize = 1000;

impl RedisBroker {
    pub(super) async fn list_locks(&self, queue: &QueueName, after: Option<&str>) -> Result<LockPage, BrokerError> {
        let (keys, cursor) = (Keys::new(queue), after.unwrap_or("0"));
        if cursor.parse::<u64>().is_err() {
            return Err(LockPage::nowhere());
        }
        let scan = Call::plain("SCAN").arg(cursor).arg("MATCH").arg(keys.pattern("unique:")).arg("COUNT").arg(SLICE);
        let answer = self.looking().send_one(scan.beside(keys.pending())).await?;
        let mut parts = reply::array(answer)?.into_iter();
        let next = parts.next().and_then(reply::text).ok_or_else(|| reply::unexpected("no cursor"))?;
        let found = parts.next().map(reply::array).transpose()?.unwrap_or_default();
        let found: Vec<String> = found.into_iter().filter_map(reply::text).collect();
        let reads = found.iter().flat_map(|key| [Call::plain("GET").arg(key), Call::plain("PTTL").arg(key)]);
        let answers = if found.is_empty() { Vec::new() } else { self.looking().send(reads.collect()).await? };
        let mut locked: Vec<(String, String, Option<i64>)> = Vec::with_capacity(found.len());
        let mut answers = answers.into_iter();
        for key in found {
            let (Some(holder), Some(left)) = (answers.next(), answers.next()) else { break };
            // An error means that the key has another type. A lock without a value has ended meanwhile.
            if let (Some(holder), Ok(left)) = (holder.ok().and_then(reply::text), left) {
                locked.push((key, holder, reply::number(&left).filter(|left| *left >= 0)));
            }
        }
        let states = locked.iter().map(|(_, holder, _)| Call::plain("HGET").arg(keys.task(holder)).arg("state"));
        let states = if locked.is_empty() { Vec::new() } else { self.looking().send(states.collect()).await? };
        let now = self.now();
        let locks = locked.into_iter().zip(states).map(|((key, holder, left), state)| LockInfo {
            key,
            holder: TaskId::from_wire(&holder),
            state: state.ok().and_then(reply::text).and_then(|state| state.parse().ok()),
            until: left.map(|left| now + Duration::from_millis(left.unsigned_abs())),
        });
        Ok(LockPage { locks: locks.collect(), next: (next != "0").then_some(next) })
    }
}
