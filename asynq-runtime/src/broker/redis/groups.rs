//! Groups on Redis: asynq's keys, so that Go servers and this program release each other's lapsed sets.

mod finish;
mod lost;

use std::time::Duration;

use chrono::DateTime;
use redis::Value;

use super::{
    RedisBroker,
    consume::read_message,
    keys::Keys,
    last_look::Finding,
    reply::{self, BEGIN},
    script::{CLAIM, Call, LIST_GROUPS, RELEASE_SETS, RIPE},
    seen::{Kind, Question, Topic},
    span::whole_seconds,
};
use crate::{
    broker::{
        BrokerError, GroupPage, GroupRules, GroupStats, GroupStep, Groups, RipeGroups, SetError, SetMember, SetOutcome,
        TaskSet,
    },
    task::{GroupName, QueueName, TaskId},
};

/// Time to keep the receipt of an ended set: longer than any server repeats the call.
const RECEIPT_TTL: Duration = Duration::from_secs(600);
/// Most sets that one call releases.
const SETS: usize = 100;
/// Looks that one call takes at a group for a set. All but the last find ids without a task; the next call goes on behind them.
const CLAIMS: usize = 20;
/// Groups that one script looks at.
const PER_LIST: usize = 100;
/// Names that one step of a list looks at; Redis may give some more, and gives a small set as a whole.
const PER_SCAN: usize = 200;
/// Steps of the walk over groups that one page takes at most: where names are left without tasks, a page has few groups.
const STEPS_PER_PAGE: usize = 10;

#[async_trait::async_trait]
impl Groups for RedisBroker {
    async fn groups(
        &self,
        queue: &QueueName,
        after: Option<&GroupStep>,
        limit: usize,
    ) -> Result<GroupPage, BrokerError> {
        let keys = Keys::new(queue);
        let mut at = ListStep::read(after.map_or("", GroupStep::as_str));
        let mut found = Vec::new();
        for _ in 0..STEPS_PER_PAGE {
            let wanted = limit - found.len();
            if wanted == 0 {
                break;
            }
            let (mut names, next) = self.group_names(&keys, &at.cursor).await?;
            names.retain(|name| at.last.is_empty() || *name > at.last);
            let is_whole = names.len() <= wanted;
            names.truncate(wanted);
            found.extend(self.group_stats(&keys, &names).await?);
            match (is_whole, next) {
                (false, _) => at.last = names.pop().unwrap_or_default(),
                (true, Some(cursor)) => at = ListStep { cursor, last: String::new() },
                (true, None) => return Ok(GroupPage { groups: found, next: None }),
            }
        }
        Ok(GroupPage { groups: found, next: Some(GroupStep::from_text(at.write())) })
    }

    async fn group(&self, queue: &QueueName, group: &GroupName) -> Result<Option<GroupStats>, BrokerError> {
        let name = group.as_str().to_owned();
        Ok(self.group_stats(&Keys::new(queue), &[name]).await?.pop())
    }

    async fn worth_aggregating(&self, queues: &[QueueName]) -> Result<Vec<QueueName>, BrokerError> {
        let mut reads = self.reads(Topic::Groups);
        let members = |queue: &QueueName| [Question::new(Kind::Members, Keys::new(queue).groups())];
        let find = |_: &QueueName, answers: &[Option<Option<i64>>]| match answers {
            [Some(Some(0))] => Finding::From(None),
            [Some(_)] => Finding::From(Some(0)),
            _ => Finding::Unknown,
        };
        let look = self.looks.groups.look(&mut reads, queues, members, find).await?;
        let worth = look.due(0).into_iter().map(|place| queues[place].clone()).collect();
        self.looks.groups.keep(look, &reads);
        Ok(worth)
    }

    async fn ripe_groups(
        &self,
        queue: &QueueName,
        rules: &GroupRules,
        from: Option<&GroupStep>,
    ) -> Result<RipeGroups, BrokerError> {
        let (keys, at) = (Keys::new(queue), ListStep::read(from.map_or("", GroupStep::as_str)));
        let call = self.timed(&RIPE, &[keys.groups()]).arg(keys.prefix());
        let call = with_rules(call.arg(at.cursor), rules);
        let mut answer = reply::array(self.router.send_one(call).await?)?.into_iter();
        let next = answer.next().and_then(next_step).map(|cursor| ListStep { cursor, last: String::new() }.write());
        let next = next.map(GroupStep::from_text);
        let names = answer.filter_map(read_name).map(|name| GroupName::from_wire(&name));
        Ok(RipeGroups { groups: names.collect(), next })
    }

    async fn claim_set(
        &self,
        queue: &QueueName,
        group: &GroupName,
        rules: &GroupRules,
    ) -> Result<Option<TaskSet>, BrokerError> {
        let keys = Keys::new(queue);
        // By the version, release_sets.lua tells our sets from asynq's.
        let id = uuid::Uuid::now_v7().hyphenated().to_string();
        let call = self
            .timed(&CLAIM, &[keys.group(group), keys.groups(), keys.sets(), keys.set(group, &id), keys.orphans()])
            .arg(keys.task_prefix())
            .arg(group.as_str());
        let call = with_rules(call, rules)
            .arg(rules.enough().unwrap_or(TaskSet::MOST))
            .arg(TaskSet::BYTES)
            .arg(TaskSet::DEADLINE.as_secs());
        for _ in 0..CLAIMS {
            match self.router.send_one(call.clone()).await? {
                // Ids without a task were in place of the set.
                Value::Int(_) => {}
                value => return read_set(value, queue, group, id),
            }
        }
        Ok(None)
    }

    async fn finish_set(&self, set: &TaskSet, outcome: &SetOutcome) -> Result<(), SetError> {
        outcome.check(set)?;
        let call = finish::call(set, outcome, &self.clock.argument());
        finish::read_end(self.router.send_one(call).await?, set)
    }

    async fn release_set(&self, set: &TaskSet) -> Result<(), BrokerError> {
        let keys = Keys::new(&set.queue);
        self.release_sets(&keys, &keys.set(&set.group, &set.id), 1).await.map(|_| ())
    }

    async fn reclaim_sets(&self, queue: &QueueName) -> Result<usize, BrokerError> {
        let keys = Keys::new(queue);
        let mut back = 0;
        // Go's sets may have any size, so releasing one in parts takes several calls.
        for _ in 0..SETS {
            let (sets, more) = self.release_sets(&keys, "", SETS - back).await?;
            back += sets;
            if !more || back >= SETS {
                break;
            }
        }
        Ok(back)
    }
}

impl RedisBroker {
    /// Returns the names of one step of a walk in the order of their bytes, whether or not tasks wait there, and the
    /// cursor of the next step.
    pub(super) async fn group_names(
        &self,
        keys: &Keys,
        cursor: &str,
    ) -> Result<(Vec<String>, Option<String>), BrokerError> {
        let call = Call::plain("SSCAN").arg(keys.groups()).arg(cursor).arg("COUNT").arg(PER_SCAN);
        let (names, next) = reply::scanned(self.router.send_one(call).await?)?;
        let mut names: Vec<String> = names.into_iter().filter_map(read_name).collect();
        names.sort_unstable();
        names.dedup();
        Ok((names, next))
    }

    /// Returns the number of tasks and the oldest of each group that is named; empty groups are left out.
    async fn group_stats(&self, keys: &Keys, names: &[String]) -> Result<Vec<GroupStats>, BrokerError> {
        let groups: Vec<GroupName> = names.iter().map(|name| GroupName::from_wire(name)).collect();
        let call = |part: &[GroupName]| LIST_GROUPS.on(&part.iter().map(|group| keys.group(group)).collect::<Vec<_>>());
        let answers = self.router.send(groups.chunks(PER_LIST).map(call).collect()).await?;
        let mut found = Vec::new();
        for (part, answer) in groups.chunks(PER_LIST).zip(answers) {
            let mut numbers = reply::array(answer?)?.into_iter();
            for group in part {
                let (Some(size), Some(oldest)) = (numbers.next(), numbers.next()) else {
                    return Err(reply::unexpected("not two numbers per group"));
                };
                let size: u64 = reply::count(&size).unwrap_or_default();
                let oldest = reply::number(&oldest).and_then(|seconds| DateTime::from_timestamp(seconds, 0));
                if size > 0 {
                    found.push(GroupStats::new(group.clone(), size, oldest));
                }
            }
        }
        Ok(found)
    }

    /// Releases a set, or up to so many that have lapsed where it is ''. Returns how many were released, and whether there are more.
    async fn release_sets(&self, keys: &Keys, set: &str, sets: usize) -> Result<(usize, bool), BrokerError> {
        let call = self
            .timed(&RELEASE_SETS, &[keys.sets(), keys.groups(), keys.absent()])
            .arg(keys.prefix())
            .arg(set)
            .arg(sets)
            .arg(TaskSet::MOST)
            .arg(TaskSet::DEADLINE.as_secs());
        let [released, more]: [usize; 2] = reply::counts(self.router.send_one(call).await?)?;
        Ok((released, more == 1))
    }
}

/// Adds the rules as `ripe.lua` reads them.
fn with_rules(call: Call, rules: &GroupRules) -> Call {
    let call = call.arg(whole_seconds(rules.grace).max(1)).optional(rules.max_delay.map(whole_seconds));
    call.optional(rules.enough())
}

/// The position in a walk over groups: a step of the walk, and the last name of that step that was listed.
#[derive(Debug, PartialEq, Eq)]
struct ListStep {
    cursor: String,
    last: String,
}

impl ListStep {
    fn write(&self) -> String {
        format!("{}:{}", self.cursor, self.last)
    }

    /// Reads the text of [`write`](Self::write); any other text begins anew.
    fn read(text: &str) -> Self {
        let parts = text.split_once(':').filter(|(cursor, _)| cursor.parse::<u64>().is_ok());
        let (cursor, last) = parts.unwrap_or((BEGIN, ""));
        Self { cursor: cursor.to_owned(), last: last.to_owned() }
    }
}

fn read_set(value: Value, queue: &QueueName, group: &GroupName, id: String) -> Result<Option<TaskSet>, BrokerError> {
    let mut parts = reply::array(value)?.into_iter();
    let Some(deadline) = parts.next() else { return Ok(None) };
    let deadline = reply::number(&deadline).and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    let deadline = deadline.ok_or_else(|| reply::unexpected("no deadline"))?;
    let crashes = parts.next().as_ref().and_then(reply::count).unwrap_or_default();
    let (mut members, mut bytes) = (Vec::with_capacity(parts.len() / 3), 0);
    while let (Some(id), Some(raw), Some(extra)) = (parts.next(), parts.next(), parts.next()) {
        let (Some(id), Some(raw)) = (reply::text(id), reply::bytes(raw)) else {
            return Err(reply::unexpected("a task without id or message"));
        };
        bytes += raw.len();
        let message = read_message(raw.into(), &id, queue);
        members.push(SetMember { id: TaskId::from_wire(&id), message, extra: reply::extra(extra) });
    }
    let is_full = bytes >= TaskSet::BYTES;
    Ok(Some(TaskSet { queue: queue.clone(), group: group.clone(), id, number: 0, deadline, members, is_full, crashes }))
}

/// Reads the name of a group. asynq programs write names as text, so bytes that are not text do not name a group of
/// theirs.
fn read_name(name: Value) -> Option<String> {
    String::from_utf8(reply::bytes(name)?).ok()
}

/// Reads the next step of a walk over groups from the answer of a script; `None` at the end.
pub(super) fn next_step(value: Value) -> Option<String> {
    reply::text(value).filter(|next| !next.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::Extra;

    #[test]
    fn a_step_is_stored_as_text_and_nonsense_begins_anew() {
        let step = ListStep { cursor: "17".into(), last: "a:b".into() };
        assert_eq!(ListStep::read(&step.write()), step);
        for nonsense in ["", "17", "x:a", ":", "-1:a", "99999999999999999999:a"] {
            assert_eq!(ListStep::read(nonsense).write(), "0:", "{nonsense}");
        }
    }

    #[test]
    fn a_set_is_read_with_its_undecodable_members_and_nonsense_is_an_error() {
        let (queue, group) = (QueueName::from_wire("q"), GroupName::from_wire("g"));
        let text = |text: &str| Value::BulkString(text.into());
        let read = |value: Value| read_set(value, &queue, &group, "S".into());
        assert!(read(Value::Nil).unwrap().is_none());
        let set = read(Value::Array(vec![text("7"), text("2"), text("a"), text("\u{ff}"), text("")])).unwrap().unwrap();
        assert_eq!(
            (set.deadline.timestamp(), set.task_id(0).as_str(), set.task_id(2).as_str()),
            (7, "agg:S", "agg:S:2")
        );
        assert_eq!(set.crashes, 2);
        assert!(
            set.members[0].message.is_err() && set.members[0].id == "a" && set.members[0].extra == Extra::default()
        );
        for nonsense in [vec![text("x")], vec![text("7"), text("0"), Value::Nil, text("m"), text("")]] {
            assert!(read(Value::Array(nonsense)).is_err());
        }
    }
}
