//! Makes sets of the tasks that wait in groups, and ends them (contract: `broker/groups.rs`).
//!
//! A task is in a set while its `batch` names the set; its other columns stay, so that releasing the set is one update.

mod claim;
mod finish;
mod list;

use rusqlite::params;

use crate::{
    broker::{
        BrokerError, GroupPage, GroupRules, GroupStats, GroupStep, Groups, RipeGroups, SetError, SetOutcome, TaskSet,
    },
    task::{GroupName, QueueName, TaskState},
};

use super::{
    SqliteBroker,
    busy_queues::BusyQueues,
    candidate::met_damage,
    command::{Priority, WriteCommand},
    row::limit_of,
    sql,
    tx::{Tx, View},
};

/// Groups that one step of a walk looks at.
const PER_STEP: usize = 200;
/// Most sets that one call releases.
const MOST_SETS: usize = 100;

#[async_trait::async_trait]
impl Groups for SqliteBroker {
    async fn groups(
        &self,
        queue: &QueueName,
        after: Option<&GroupStep>,
        limit: usize,
    ) -> Result<GroupPage, BrokerError> {
        let (queue, after) = (queue.clone(), after.cloned());
        self.store.read(move |view| list::page(view, &queue, after.as_ref(), limit, list::MOST_COUNTED)).await
    }

    async fn group(&self, queue: &QueueName, group: &GroupName) -> Result<Option<GroupStats>, BrokerError> {
        let (queue, group) = (queue.clone(), group.clone());
        self.store.read(move |view| list::one(view, &queue, &group)).await
    }

    async fn worth_aggregating(&self, queues: &[QueueName]) -> Result<Vec<QueueName>, BrokerError> {
        let queues = queues.to_vec();
        self.store.read(move |view| with_groups(view, &queues)).await
    }

    async fn ripe_groups(
        &self,
        queue: &QueueName,
        rules: &GroupRules,
        from: Option<&GroupStep>,
    ) -> Result<RipeGroups, BrokerError> {
        let (queue, rules, from) = (queue.clone(), *rules, from.cloned());
        self.store
            .read(move |view| {
                let Some(q) = view.queue(&queue)? else { return Ok(RipeGroups::default()) };
                let (mut ripe, mut looks) = (Vec::new(), 0);
                let next = list::walk(view, q, from.as_ref(), |name| {
                    // By any other name, no call finds the group.
                    if let Ok(name) = str::from_utf8(name) {
                        let group = GroupName::from_wire(name);
                        if claim::is_ripe(view, q, &group, &rules)? {
                            ripe.push(group);
                        }
                    }
                    looks += 1;
                    Ok(looks < PER_STEP)
                })?;
                Ok(RipeGroups { groups: ripe, next })
            })
            .await
    }

    async fn claim_set(
        &self,
        queue: &QueueName,
        group: &GroupName,
        rules: &GroupRules,
    ) -> Result<Option<TaskSet>, BrokerError> {
        let named = || (queue.clone(), group.clone());
        let ((queue, group), look, damaged, rules) = (named(), named(), named(), *rules);
        let most = rules.enough().unwrap_or(TaskSet::MOST);
        let command = WriteCommand::new(Priority::Forward, most, move |tx| claim::claim(tx, &queue, &group, &rules));
        let command = command
            .may_be_lost()
            .unless(move |view| Ok(claim::queue_of_ripe(view, &look.0, &look.1, &rules)?.is_none().then_some(None)));
        let answer = self.store.write(command).await;
        if met_damage(&answer) {
            let waiting = move |view: &View<'_>| claim::without_messages(view, &damaged.0, &damaged.1);
            self.set_damaged_aside(TaskState::Aggregating, waiting).await;
        }
        answer
    }

    async fn finish_set(&self, set: &TaskSet, outcome: &SetOutcome) -> Result<(), SetError> {
        outcome.check(set)?;
        let finish = finish::Finish::new(set, outcome);
        self.store.write(WriteCommand::new(Priority::Settle, set.members.len(), move |tx| finish.run(tx))).await?
    }

    async fn release_set(&self, set: &TaskSet) -> Result<(), BrokerError> {
        let (number, id) = (set.number, set.id.clone());
        let command = WriteCommand::new(Priority::Settle, set.members.len(), move |tx| {
            if let Some((q, false)) = find_set(&tx.view, number, &id)? {
                release(tx, q, number)?;
            }
            Ok(())
        });
        self.store.write(command).await
    }

    async fn reclaim_sets(&self, queue: &QueueName) -> Result<usize, BrokerError> {
        let mut reclaimed = 0;
        while reclaimed < MOST_SETS {
            let (queue, look) = (queue.clone(), queue.clone());
            let most = MOST_SETS - reclaimed;
            let command = WriteCommand::new(Priority::Forward, TaskSet::MOST, move |tx| reclaim(tx, &queue, most));
            let command = command.unless(move |view| Ok(over(view, &look, 1)?.is_empty().then_some((0, false))));
            let (sets, more) = self.store.write(command).await?;
            reclaimed += sets;
            if !more {
                break;
            }
        }
        Ok(reclaimed)
    }
}

/// Finds the queue of a set, and whether the set was finished: its row is its receipt then.
fn find_set(view: &View<'_>, number: i64, id: &str) -> rusqlite::Result<Option<(i64, bool)>> {
    view.find(&sql::groups::SET, params![number, id], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Releases the tasks of a set to their group; returns how many.
fn release(tx: &mut Tx<'_>, q: i64, number: i64) -> rusqlite::Result<usize> {
    let released = tx.view.execute(&sql::groups::RELEASE, [q, number])?;
    tx.view.execute(&sql::groups::FORGET_SET, [number])?;
    Ok(released)
}

/// Releases sets whose deadline has passed, and forgets receipts, until as many tasks have moved as a set may have. Returns how many were
/// released, and whether there may be more.
fn reclaim(tx: &mut Tx<'_>, queue: &QueueName, most: usize) -> rusqlite::Result<(usize, bool)> {
    let (mut sets, mut moved) = (0, 0);
    let mut over = over(&tx.view, queue, most + 1)?;
    let more = over.len() > most;
    over.truncate(most);
    for (q, number, ended) in over {
        if moved >= TaskSet::MOST {
            return Ok((sets, true));
        }
        if ended {
            tx.view.execute(&sql::groups::FORGET_SET, [number])?;
        } else {
            tx.view.execute(&sql::groups::NOTE_CRASH, [q, number])?;
            moved += release(tx, q, number)?;
            sets += 1;
        }
    }
    Ok((sets, more))
}

/// Returns those of `queues` that have groups.
pub(super) fn with_groups(view: &View<'_>, queues: &[QueueName]) -> rusqlite::Result<Vec<QueueName>> {
    let (busy, mut found) = (BusyQueues::with_tasks(view, queues.len())?, Vec::new());
    for queue in queues.iter().filter(|queue| busy.may_include(queue)) {
        let Some(q) = view.queue(queue)? else { continue };
        if view.find(&sql::groups::NEXT, params![q, ""], |_| Ok(()))?.is_some() {
            found.push(queue.clone());
        }
    }
    Ok(found)
}

/// Whether there is a set, or a receipt, whose time has passed.
pub(super) fn is_over(view: &View<'_>, queue: &QueueName) -> rusqlite::Result<bool> {
    Ok(!over(view, queue, 1)?.is_empty())
}

/// Returns sets and receipts whose time has passed: queue, number, whether the row is a receipt.
fn over(view: &View<'_>, queue: &QueueName, limit: usize) -> rusqlite::Result<Vec<(i64, i64, bool)>> {
    let Some(q) = view.queue(queue)? else { return Ok(Vec::new()) };
    view.list(&sql::groups::OVER, [q, view.now, limit_of(limit)], |row| Ok((q, row.get(0)?, row.get(1)?)))
}
