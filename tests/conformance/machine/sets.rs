//! The steps that create tasks: enqueue, and the sets of groups.

use std::{collections::BTreeMap, time::Duration};

use asynq_runtime::{
    broker::{GroupRules, NewTask, Refused, SetError, SetOutcome, TaskSet},
    task::{Extra, TaskId, TaskState, UniqueUntil},
};
use asynq_tests::{Build as _, default_queue, made, task};

use super::{
    facts::{Denied, Hold, Incoming, Phase},
    play::{Check, Claimed, Machine, ensure, ok},
    step::{By, Fate, New, Rules, SetPick},
};

/// How long the receipt of a finished set is kept.
const RECEIPT_MS: i64 = 600_000;

impl Machine<'_> {
    /// The task for the broker and for the model. A lock in doubt is left out.
    fn prepare(&self, new: &New, base: NewTask) -> (NewTask, Incoming) {
        let now = self.now();
        // On Redis a short lock would be in doubt from the beginning.
        let shortest = if self.model.is_redis { 600 } else { 1 };
        let lock = new.lock.map(|(key, seconds)| (Self::key(key), seconds.max(shortest)));
        let lock = lock.filter(|(key, _)| self.model.hold(key, now) != Hold::Doubtful);
        let unique_until = if new.keeps_lock { UniqueUntil::Success } else { UniqueUntil::End };
        let mut task = base
            .with_retention(new.retention)
            .with_extra(Extra { unique_until: unique_until.into(), ..Extra::default() });
        if new.delay_ms > 0 {
            task = task.after(Duration::from_millis(new.delay_ms));
        }
        if let Some((key, seconds)) = &lock {
            task = task.locked(key, *seconds);
        }
        if let Some(group) = new.group {
            task = task.grouped(Self::group_name(group).as_str());
        }
        let incoming = Incoming {
            id: task.id.to_string(),
            due: now + new.delay_ms as i64,
            group: task.group.as_ref().map(ToString::to_string),
            lock,
            keeps_lock: new.keeps_lock,
            retention: new.retention,
        };
        (task, incoming)
    }

    pub(super) async fn enqueue(&mut self, by: By, tasks: &[New]) -> Check {
        let now = self.now();
        let (batch, incoming): (Vec<_>, Vec<_>) =
            tasks.iter().map(|new| self.prepare(new, task(&format!("t{}", new.id)))).unzip();
        let answers = self.broker(by).enqueue(batch).await;
        ensure!(answers.len() == incoming.len(), "{} answers to {} tasks", answers.len(), incoming.len());
        for (new, answer) in incoming.into_iter().zip(answers) {
            let expected = self.model.admit(&new, now);
            let at = new.due.max(now);
            let is_right = match (&answer, &expected) {
                (Ok(placed), Ok(state)) => (placed.state, placed.process_at.timestamp_millis()) == (*state, at),
                (Err(refused), Err(denied)) => is_refused(refused, denied),
                _ => false,
            };
            ensure!(is_right, "{new:?} was answered {answer:?}, not {expected:?}");
        }
        Ok(())
    }

    pub(super) async fn claim(&mut self, by: By, group: u8, rules: Rules) -> Check {
        let groups = self.model.groups();
        let name = groups.keys().nth(usize::from(group) % groups.len().max(1)).map_or("empty", String::as_str);
        let (now, name) = (self.now(), asynq_tests::group(name));
        let limits = GroupRules {
            grace: Duration::from_secs(rules.grace),
            max_delay: rules.max_delay.map(Duration::from_secs),
            max_size: rules.max_size,
        };
        let set = ok("claim_set", self.broker(by).claim_set(&default_queue(), &name, &limits).await)?;
        let waiting: Vec<(i64, String)> =
            self.model.in_group(name.as_str()).into_iter().map(|(at, id)| (at, id.to_owned())).collect();
        let (Some((first, _)), Some((last, _))) = (waiting.first(), waiting.last()) else {
            ensure!(set.is_none(), "a set of nothing: {set:?}");
            return Ok(());
        };
        let floor = self.model.floor(now);
        let has_waited = |since: i64, seconds: u64| since + seconds as i64 * 1000 <= floor;
        let is_ripe = has_waited(*last, rules.grace)
            || rules.max_delay.is_some_and(|limit| has_waited(*first, limit))
            || rules.max_size.is_some_and(|size| waiting.len() >= size);
        ensure!(set.is_some() == is_ripe, "of {waiting:?} at {now} the set {set:?} was taken; ripe: {is_ripe}");
        let Some(set) = set else { return Ok(()) };
        let deadline = floor + TaskSet::DEADLINE.as_millis() as i64;
        ensure!(set.deadline.timestamp_millis() == deadline, "{set:?} should end at {deadline}");
        let most = rules.max_size.unwrap_or(TaskSet::MOST).min(waiting.len());
        // Tasks of equal times may come in any order.
        let times: BTreeMap<&str, i64> = waiting.iter().map(|(at, id)| (id.as_str(), *at)).collect();
        let members: Option<Vec<i64>> =
            set.members.iter().map(|member| times.get(member.id.as_str()).copied()).collect();
        let expected: Vec<i64> = waiting[..most].iter().map(|(at, _)| *at).collect();
        ensure!(members.as_ref() == Some(&expected), "of {waiting:?} the set {set:?} was taken");
        let crashes = set.members.iter().map(|member| self.model.tasks[member.id.as_str()].crashes).max();
        ensure!(crashes == Some(set.crashes), "the set {set:?} came back {crashes:?} times");
        let number = self.sets.len();
        for member in &set.members {
            if let Phase::Aggregating { set, .. } = &mut self.model.task(member.id.as_str()).phase {
                *set = Some(number);
            }
        }
        self.sets.push(Claimed { set, is_open: true, deadline, ended: None });
        Ok(())
    }

    pub(super) async fn finish(&mut self, by: By, pick: SetPick, makes: &[New], fates: &[Fate], resend: bool) -> Check {
        let Some(number) = self.pick_set(pick) else { return Ok(()) };
        let (now, claimed) = (self.now(), &self.sets[number]);
        let set = claimed.set.clone();
        let fate_of = |nth: usize| fates[nth % fates.len()];
        let of_fate = |fate: Fate| {
            let members = set.members.iter().enumerate().filter(move |(nth, _)| fate_of(*nth) == fate);
            members.map(|(_, member)| member.id.clone()).collect::<Vec<TaskId>>()
        };
        let (made, incoming): (Vec<_>, Vec<_>) =
            makes.iter().enumerate().map(|(nth, new)| self.prepare(new, made(&set, nth))).unzip();
        let alone = of_fate(Fate::Alone);
        let outcome = SetOutcome { made, alone: alone.clone(), resend };
        let answer = self.broker(by).finish_set(&set, &outcome).await;
        if !claimed.is_open {
            return self.is_lost(number, resend, &answer);
        }
        let (before, mut after) = (self.model.pending.len(), self.model.clone());
        let mut times = Vec::new();
        for member in &set.members {
            let id = member.id.as_str();
            if alone.contains(&member.id) {
                times.push(after.tasks[id].phase.time());
                after.run_alone(id, now);
            } else {
                after.remove(id);
            }
        }
        let mut denied = None;
        for new in &incoming {
            match after.admit(new, now) {
                // Made tasks come after those that run alone, in their order.
                Ok(TaskState::Pending) => times.push(i64::MAX),
                Ok(_) => {}
                Err(reason) => denied = denied.or(Some(reason)),
            }
        }
        let is_right = match (&answer, &denied) {
            (Ok(()), None) => true,
            (Err(SetError::Refused(refused)), Some(denied)) => is_refused(refused, denied),
            _ => false,
        };
        ensure!(is_right, "{outcome:?} of set {number} was answered {answer:?}, not {denied:?}");
        if denied.is_none() {
            self.model = after;
            self.sets[number].is_open = false;
            self.sets[number].ended = Some(now);
            let made = self.model.pending[before + alone.len().min(times.len())..].to_vec();
            self.adopt_order(before, &times).await?;
            ensure!(
                self.model.pending.ends_with(&made),
                "{made:?} were made in this order, pending is {:?}",
                self.model.pending
            );
        }
        Ok(())
    }

    /// Checks the answer about a set that was finished or reclaimed. A broker recognises its own first send by the receipt.
    fn is_lost(&self, number: usize, resend: bool, answer: &Result<(), SetError>) -> Check {
        let ended = self.sets[number].ended;
        let is_lost = matches!(answer, Err(SetError::Lost));
        let is_right = match ended.filter(|_| resend) {
            None => is_lost,
            // Later the receipt may still exist, or a made task.
            Some(ended) if self.now() >= ended + RECEIPT_MS - 60_000 => is_lost || answer.is_ok(),
            Some(_) => answer.is_ok(),
        };
        ensure!(is_right, "set {number}, ended {ended:?}, resend {resend}, was answered {answer:?}");
        Ok(())
    }

    pub(super) async fn release(&mut self, by: By, pick: SetPick) -> Check {
        let Some(number) = self.pick_set(pick) else { return Ok(()) };
        ok("release_set", self.broker(by).release_set(&self.sets[number].set).await)?;
        if self.sets[number].is_open {
            self.sets[number].is_open = false;
            self.model.release(number);
        }
        Ok(())
    }

    pub(super) async fn reclaim(&mut self, by: By) -> Check {
        let reclaimed = ok("reclaim_sets", self.broker(by).reclaim_sets(&default_queue()).await)?;
        let floor = self.model.floor(self.now());
        let over: Vec<usize> =
            (0..self.sets.len()).filter(|set| self.sets[*set].is_open && self.sets[*set].deadline <= floor).collect();
        ensure!(reclaimed == over.len(), "{reclaimed} sets were reclaimed, not {over:?}");
        for set in over {
            self.sets[set].is_open = false;
            self.model.release(set);
            self.model.task(self.sets[set].set.members[0].id.as_str()).crashes += 1;
        }
        Ok(())
    }
}

fn is_refused(refused: &Refused, denied: &Denied) -> bool {
    match (refused, denied) {
        (Refused::IdConflict, Denied::IdConflict) => true,
        (Refused::Duplicate { holder: Some(found) }, Denied::Duplicate(holder)) => *found == *holder.as_str(),
        _ => false,
    }
}
