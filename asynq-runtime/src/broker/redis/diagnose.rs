//! Examines Redis itself, and looks for inconsistencies in a queue (contract: `broker/diagnose.rs`).

mod node;

use std::collections::{BTreeMap, HashMap, HashSet};

use redis::Value;

#[cfg(feature = "cluster")]
use super::{super::QueueSlot, router::Router, slots::slot};
use super::{
    super::{BrokerError, Diagnose, Examination, Node, OddityKind, QueueKeys},
    RedisBroker,
    keys::{Keys, QUEUES, TASKS_AND_LOCKS},
    reply::{self, BEGIN},
    script::{Call, EXAMINE_CONTAINER, EXAMINE_KEYS, IS_LOST},
};
use crate::task::{GroupName, QueueName, TaskState};

/// Most ids of a container, and most keys, that one script looks at.
const SLICE: usize = 100;
/// Keys that one step of a walk over all keys looks at.
const PER_SCAN: usize = 1000;

#[async_trait::async_trait]
impl Diagnose for RedisBroker {
    async fn nodes(&self) -> Result<Vec<Node>, BrokerError> {
        self.describe_nodes().await
    }

    #[cfg(feature = "cluster")]
    async fn slots(&self, queues: &[QueueName]) -> Result<Vec<QueueSlot>, BrokerError> {
        let Router::Many(cluster) = &self.router else { return Ok(Vec::new()) };
        let map = cluster.map().await?;
        let slot_of = |queue: &QueueName| {
            let slot = slot(Keys::new(queue).prefix().as_bytes());
            QueueSlot { queue: queue.clone(), slot, nodes: map.nodes_of(slot) }
        };
        Ok(queues.iter().map(slot_of).collect())
    }

    async fn keys_of(&self, queue: &QueueName, limit: usize) -> Result<QueueKeys, BrokerError> {
        let keys = Keys::new(queue);
        // A walk for one queue brings no names of other queues over the network.
        self.walk(keys.prefix(), &keys.pattern("[tu][:n]"), limit).await
    }

    async fn keys_of_all(
        &self,
        listed: &[QueueName],
        limit: usize,
    ) -> Vec<(QueueName, Result<QueueKeys, BrokerError>)> {
        let prefixes: Vec<String> = listed.iter().map(|queue| Keys::new(queue).prefix().to_owned()).collect();
        // Where no queue is listed, the server that keeps the list may have one all the same.
        let places: Vec<String> = prefixes.iter().cloned().chain([QUEUES.to_owned()]).collect();
        let owners = match self.router.owners(&places).await {
            Ok(owners) => owners,
            Err(error) => return listed.iter().map(|queue| (queue.clone(), Err(error.clone()))).collect(),
        };
        let mut servers: HashMap<Option<&str>, &str> = HashMap::new();
        for (owner, place) in owners.iter().zip(&places) {
            servers.entry(owner.as_deref()).or_insert(place);
        }
        let mut names: HashMap<&str, Vec<String>> =
            prefixes.iter().map(|prefix| (prefix.as_str(), Vec::new())).collect();
        let (mut walks, mut unlisted) = (HashMap::new(), BTreeMap::<QueueName, QueueKeys>::new());
        for (owner, place) in servers {
            let (found, complete) = match self.walk(place, TASKS_AND_LOCKS, limit).await {
                Ok(QueueKeys { names, complete }) => (names, complete),
                Err(error) => {
                    walks.insert(owner, Err(error));
                    continue;
                }
            };
            walks.insert(owner, Ok(complete));
            for name in found {
                let mut is_listed = false;
                // Names of queues and ids of tasks may have braces.
                for (at, end) in name.match_indices("}:") {
                    if let Some(names) = names.get_mut(&name[..at + end.len()]) {
                        names.push(name.clone());
                        is_listed = true;
                    }
                }
                if let Some(queue) = queue_of(&name).filter(|_| !is_listed) {
                    let keys = unlisted.entry(QueueName::from_wire(queue)).or_default();
                    keys.complete = complete;
                    keys.names.push(name);
                }
            }
        }
        let of_listed = listed.iter().zip(&prefixes).zip(&owners).map(|((queue, prefix), owner)| {
            let names = names.remove(prefix.as_str()).unwrap_or_default();
            let keys = walks[&owner.as_deref()].clone().map(|complete| QueueKeys { names, complete });
            (queue.clone(), keys)
        });
        of_listed.chain(unlisted.into_iter().map(|(queue, keys)| (queue, Ok(keys)))).collect()
    }

    async fn examine_with(
        &self,
        queue: &QueueName,
        keys: &QueueKeys,
        limit: usize,
    ) -> Result<Examination, BrokerError> {
        let mut examiner = Examiner { broker: self, keys: Keys::new(queue), limit, found: Examination::default() };
        examiner.found.complete = true;
        // If a container has a foreign type, no script can tell whether a task is where it should be.
        if examiner.has_foreign_containers().await? {
            examiner.found.complete = false;
            return Ok(examiner.found);
        }
        let (mut listed, mut has_whole_lists) = (HashSet::new(), true);
        let places = examiner.places();
        let found = examiner.containers(&places).await?;
        for ((name, _), (ids, whole)) in places.into_iter().zip(found) {
            if name == TaskState::Pending.as_str() || name == TaskState::Active.as_str() {
                listed.extend(ids);
                has_whole_lists &= whole;
            }
        }
        examiner.groups().await?;
        // Looking one task up in a long list keeps Redis busy. So a task is looked up only if it is missing from lists
        // that were read whole.
        examiner.keys(keys, has_whole_lists.then_some(&listed)).await?;
        Ok(examiner.found)
    }
}

impl RedisBroker {
    /// Walks over the keys of the server that keeps `beside`, and returns those that the pattern matches.
    async fn walk(&self, beside: &str, pattern: &str, limit: usize) -> Result<QueueKeys, BrokerError> {
        match self.walk_once(beside, pattern, limit).await {
            // A failover breaks a walk off, and the server that keeps the queues now may answer.
            Err(error) if error.is_unavailable() => self.walk_once(beside, pattern, limit).await,
            walked => walked,
        }
    }

    async fn walk_once(&self, beside: &str, pattern: &str, limit: usize) -> Result<QueueKeys, BrokerError> {
        let (mut found, mut cursor, mut looked_at) = (Vec::new(), BEGIN.to_owned(), 0);
        loop {
            let (names, next) = self.looking().scan(beside, &cursor, pattern, PER_SCAN).await?;
            found.extend(names);
            looked_at += PER_SCAN;
            match next {
                Some(next) if looked_at < limit => cursor = next,
                next => return Ok(QueueKeys { names: found, complete: next.is_none() }),
            }
        }
    }
}

/// Returns the queue whose task or lock the key is. A name with `}:` is taken for none, because an id of a task may hold it as well.
fn queue_of(key: &str) -> Option<&str> {
    let (queue, name) = key.strip_prefix("asynq:{")?.split_once("}:")?;
    let is_its_own = ["t:", "unique:"].iter().any(|family| name.starts_with(family)) && !name.contains("}:");
    is_its_own.then_some(queue)
}

/// The state of an examination.
struct Examiner<'a> {
    broker: &'a RedisBroker,
    keys: Keys,
    limit: usize,
    found: Examination,
}

impl Examiner<'_> {
    /// Notes the keys of the queue that hold something else than asynq writes there. Returns whether there are any.
    async fn has_foreign_containers(&mut self) -> Result<bool, BrokerError> {
        let (places, lists, set) = (self.keys.places(), [self.keys.pending(), self.keys.active()], self.keys.groups());
        let calls = places.iter().map(|key| Call::plain("TYPE").arg(key)).collect();
        let mut has_some = false;
        for (key, kind) in places.into_iter().zip(self.broker.looking().send(calls).await?) {
            let kind = reply::text(kind?).unwrap_or_default();
            let expected = match &key {
                key if lists.contains(key) => "list",
                key if *key == set => "set",
                _ => "zset",
            };
            if kind != expected && kind != "none" {
                self.found.add(OddityKind::ForeignKey, key);
                has_some = true;
            }
        }
        Ok(has_some)
    }

    /// Returns every container of tasks but the groups with its state, or with `lease`.
    fn places(&self) -> Vec<(&'static str, String)> {
        use TaskState::{Active, Archived, Completed, Pending, Retry, Scheduled};
        let states = [Active, Pending, Scheduled, Retry, Archived, Completed];
        let of_states = states.into_iter().map(|state| (state.as_str(), self.keys.state(state)));
        of_states.chain([("lease", self.keys.lease())]).collect()
    }

    /// Looks through containers of these states, whose first slices are read many at once: a queue may have a group for each user.
    /// Returns for each the ids that are there, and whether these are all.
    async fn containers(&mut self, containers: &[(&str, String)]) -> Result<Vec<(Vec<String>, bool)>, BrokerError> {
        let mut found = Vec::with_capacity(containers.len());
        for some in containers.chunks(SLICE) {
            let calls = some.iter().map(|(state, container)| self.slice(state, container, 0)).collect();
            let answers = self.broker.looking().send(calls).await?;
            for ((state, container), first) in some.iter().zip(answers) {
                found.push(self.container(state, container, first?).await?);
            }
        }
        Ok(found)
    }

    /// Looks through one container, whose `first` slice was answered.
    async fn container(
        &mut self,
        state: &str,
        container: &str,
        first: Value,
    ) -> Result<(Vec<String>, bool), BrokerError> {
        let (mut ids, mut from, mut answer) = (Vec::new(), 0, first);
        loop {
            let slice = self.read(answer)?;
            from += slice.len();
            let is_last = slice.len() < SLICE;
            ids.extend(slice.into_iter().filter_map(reply::text));
            if is_last {
                return Ok((ids, true));
            }
            if from >= self.limit {
                self.found.complete = false;
                return Ok((ids, false));
            }
            answer = self.broker.looking().send_one(self.slice(state, container, from)).await?;
        }
    }

    /// Looks through the groups.
    async fn groups(&mut self) -> Result<(), BrokerError> {
        let (mut names, mut next) = self.broker.group_names(&self.keys, BEGIN).await?;
        while let Some(cursor) = next.take_if(|_| names.len() < self.limit) {
            let (more, after) = self.broker.group_names(&self.keys, &cursor).await?;
            names.extend(more);
            next = after;
        }
        self.found.complete &= next.is_none();
        // Two steps of a walk may have the same name.
        names.sort_unstable();
        names.dedup();
        let group = |name: &String| (TaskState::Aggregating.as_str(), self.keys.group(&GroupName::from_wire(name)));
        let groups: Vec<_> = names.iter().map(group).collect();
        self.containers(&groups).await.map(drop)
    }

    /// Returns the call that looks at one slice of a container.
    fn slice(&self, state: &str, container: &str, from: usize) -> Call {
        let call = self.broker.on_places(&EXAMINE_CONTAINER, &self.keys, [container.to_owned()]);
        call.arg(state).arg(from).arg(SLICE)
    }

    /// Returns the ids that a script answered, and adds the oddities that follow them.
    fn read(&mut self, answer: Value) -> Result<Vec<Value>, BrokerError> {
        let mut parts = reply::array(answer)?.into_iter();
        let ids = reply::array(parts.next().unwrap_or_default())?;
        // The other parts are pairs of kind and subject.
        while let Some(kind) = parts.next() {
            let kind = reply::text(kind).and_then(|kind| OddityKind::named(&kind));
            let (Some(kind), Some(subject)) = (kind, parts.next().and_then(reply::text)) else {
                return Err(reply::unexpected("no oddity"));
            };
            self.found.add(kind, subject);
        }
        Ok(ids)
    }

    /// Looks at the queue's keys for tasks without a container and locks without a holder. `listed` are the ids that were found in
    /// lists; without them, tasks whose state names a list count as listed.
    async fn keys(&mut self, found: &QueueKeys, listed: Option<&HashSet<String>>) -> Result<(), BrokerError> {
        self.found.complete &= found.complete;
        for slice in found.names.chunks(SLICE) {
            let call = self.broker.on_places(&EXAMINE_KEYS, &self.keys, slice.iter().cloned());
            let answer = self.broker.looking().send_one(call).await?;
            let in_lists = self.read(answer)?;
            let is_missing = |id: &String| listed.is_some_and(|listed| !listed.contains(id));
            for id in in_lists.into_iter().filter_map(reply::text).filter(is_missing) {
                // The task may have come or moved since the lists were read.
                if self.is_lost(&id).await? {
                    self.found.add(OddityKind::TaskWithoutPlace, id);
                }
            }
        }
        Ok(())
    }

    async fn is_lost(&self, id: &str) -> Result<bool, BrokerError> {
        let call = self.broker.on_places(&IS_LOST, &self.keys, [self.keys.task(id)]).arg(id);
        Ok(reply::number(&self.broker.looking().send_one(call).await?) == Some(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_of_a_task_or_a_lock_is_found_and_no_other_key_is_taken_for_one() {
        for name in ["t:1", "unique:email:k"] {
            assert_eq!(queue_of(&format!("asynq:{{q:1}}:{name}")), Some("q:1"));
        }
        for other in ["asynq:{q}:t:x}:t:1", "asynq:{q}:tx", "asynq:{q}:units", "asynq:{q}:pending", "t:1"] {
            assert_eq!(queue_of(other), None, "{other}");
        }
    }
}
