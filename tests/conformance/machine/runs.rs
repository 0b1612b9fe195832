//! The steps of runs: take, extend, settle.

use std::time::Duration;

use asynq_runtime::{
    broker::{Action, HeldLock, Quarantined, Settled, Settlement, Wanted},
    task::Extra,
};
use asynq_tests::{Seeded as _, default_queue};
use bytes::Bytes;

use super::{
    facts::{Hold, Phase},
    play::{Check, Machine, TakenRun, ensure, ok},
    step::{By, End, Ending, RunPick, Sparing},
};

impl Machine<'_> {
    pub(super) async fn dequeue(&mut self, by: By, n: usize, sparing: Sparing) -> Check {
        let (now, queue) = (self.now(), default_queue());
        let (quarantined, mut left) = match sparing {
            Sparing::All => (Quarantined::All, usize::MAX),
            Sparing::One => (Quarantined::One, 1),
            Sparing::None => (Quarantined::None, 0),
        };
        let mut expected = Vec::new();
        for id in self.model.pending.iter().filter(|_| !self.model.paused) {
            // Such a task is archived at its next crash.
            let is_quarantined = Extra::default().is_quarantined(self.model.tasks[id].crashes);
            if expected.len() == n || (is_quarantined && left == 0) {
                continue;
            }
            left -= usize::from(is_quarantined);
            expected.push(id.clone());
        }
        let answer = self.broker(by).dequeue_sparing(&self.member(by), &[Wanted { queue, n }], quarantined).await;
        let runs = ok("dequeue", answer)?;
        let got: Vec<_> = runs.iter().map(|run| run.key.id.as_str()).collect();
        ensure!(got == expected, "dequeue gave {got:?}, not {expected:?}");
        self.dequeues += 1;
        let lease = self.model.floor(now) + self.stage.broker().lease().as_millis() as i64;
        for (nth, run) in runs.into_iter().enumerate() {
            let (id, number) = (run.key.id.as_str(), self.runs.len());
            let task = &self.model.tasks[id];
            let Ok(message) = &run.message else { return Err(format!("{id} cannot be read")) };
            let waited = run.waited.map(|waited| waited.as_millis() as i64);
            let seen = (run.crashes, message.retried as u32, waited);
            let known = (task.crashes, task.retried, Some(now - task.phase.time()));
            ensure!(seen == known, "{id} has crashes, retried and waited {seen:?}, not {known:?}");
            self.model.put(id, Phase::Active { run: number, lease });
            let program = if usize::from(by.broker) % 2 == 0 { 0 } else { self.program };
            self.runs.push(TakenRun { run, call: (self.dequeues, nth), at: now, program, sent: None });
        }
        Ok(())
    }

    /// The broker's answer to a write of a run without an outcome.
    fn standing(&self, run: usize) -> Settled {
        let id = self.id(run);
        match self.model.tasks.get(id) {
            _ if self.model.holds(id, run) => Settled::Ok,
            Some(_) => Settled::Fenced,
            None => Settled::Gone,
        }
    }

    /// Each run at most once: a separate case covers a batch that settles a run twice.
    fn settlements(&self, ends: &[End]) -> Vec<(usize, Settlement)> {
        let mut found: Vec<(usize, Settlement)> = Vec::new();
        for end in ends {
            let Some((number, _)) = self.pick(end.run) else { continue };
            if found.iter().any(|(other, _)| self.id(*other) == self.id(number)) {
                continue;
            }
            let TakenRun { run, sent, .. } = &self.runs[number];
            let extra = run.extra.clone();
            let action = match end.ending {
                Ending::Done => Action::Done,
                Ending::Requeue => Action::Requeue,
                Ending::Complete { result } => {
                    Action::Complete { result: result.map(|result| Bytes::from(format!("r{result}"))) }
                }
                Ending::Retry { delay_ms, counted, error } => Action::Retry {
                    delay: Duration::from_millis(delay_ms),
                    error: error.map(|error| format!("e{error}")),
                    counted,
                    extra,
                },
                Ending::Defer { delay_ms, error } => Action::Defer {
                    delay: Duration::from_millis(delay_ms),
                    error: error.map(|error| format!("e{error}")),
                    extra,
                },
                Ending::Archive { error } => Action::Archive { error: format!("e{error}"), extra },
                Ending::Again => match sent {
                    Some(action) => action.clone(),
                    None => continue,
                },
            };
            let resend = end.resend || end.ending == Ending::Again;
            found.push((number, Settlement { resend, ..run.ends_with(action) }));
        }
        found
    }

    pub(super) async fn settle(&mut self, by: By, ends: &[End]) -> Check {
        let (now, sent) = (self.now(), self.settlements(ends));
        let batch: Vec<_> = sent.iter().map(|(_, settlement)| settlement.clone()).collect();
        let answers = self.broker(by).settle(&batch).await;
        ensure!(answers.len() == batch.len(), "{} answers to {} outcomes", answers.len(), batch.len());
        for ((run, settlement), answer) in sent.into_iter().zip(answers) {
            let (id, answer) = (self.id(run).to_owned(), ok("settle", answer)?);
            let Settlement { action, resend, .. } = settlement;
            let expected = if self.model.holds(&id, run) {
                Some(Settled::Ok)
            } else {
                self.model.refusal(&id, run, resend.then_some(action == Action::Done))
            };
            let is_right = expected.map_or(answer != Settled::Gone, |expected| answer == expected);
            ensure!(is_right, "{action:?} of run {run} of {id} was answered {answer:?}, not {expected:?}");
            if self.model.holds(&id, run) {
                self.model.end(&id, run, &action, now);
            }
            self.runs[run].sent = Some(action);
        }
        Ok(())
    }

    pub(super) async fn extend(&mut self, by: By, picks: &[RunPick]) -> Check {
        let runs: Vec<_> = picks.iter().filter_map(|pick| self.pick(*pick)).map(|(run, _)| run).collect();
        let keys: Vec<_> = runs.iter().map(|run| self.runs[*run].run.key.clone()).collect();
        let answers = self.broker(by).extend(&keys).await.into_iter().collect::<Result<Vec<_>, _>>();
        let answers = ok("extend", answers)?;
        let expected: Vec<_> = runs.iter().map(|run| self.standing(*run)).collect();
        ensure!(answers == expected, "extend of runs {runs:?} was answered {answers:?}, not {expected:?}");
        let lease = self.model.floor(self.now()) + self.stage.broker().lease().as_millis() as i64;
        for run in runs {
            let id = self.id(run).to_owned();
            if self.model.holds(&id, run) {
                self.model.put(&id, Phase::Active { run, lease });
            }
        }
        Ok(())
    }

    pub(super) async fn write_result(&mut self, by: By, pick: RunPick, result: u8) -> Check {
        let Some((run, holds)) = self.pick(pick) else { return Ok(()) };
        let (id, result, expected) = (self.id(run).to_owned(), format!("w{result}"), self.standing(run));
        let answer = self.broker(by).write_result(&self.runs[run].run.key, &Bytes::from(result.clone())).await;
        let answer = ok("write_result", answer)?;
        ensure!(answer == expected, "a result of run {run} of {id} was answered {answer:?}, not {expected:?}");
        if holds {
            self.model.task(&id).result = Some(result);
        }
        Ok(())
    }

    /// The run and the key of its task's lock, unless the lock is in doubt.
    fn lock_of(&self, pick: RunPick) -> Option<(usize, bool, String)> {
        let (run, holds) = self.pick(pick)?;
        let key = self.runs[run].run.message.as_ref().ok()?.unique_key.clone();
        let is_doubtful = self.model.hold(&key, self.now()) == Hold::Doubtful;
        (!key.is_empty() && !is_doubtful).then_some((run, holds, key))
    }

    pub(super) async fn free_lock(&mut self, by: By, pick: RunPick) -> Check {
        let Some((run, holds, key)) = self.lock_of(pick) else { return Ok(()) };
        let (id, expected) = (self.id(run).to_owned(), self.standing(run));
        let answer = ok("free_lock", self.broker(by).free_lock(&self.runs[run].run.key, &key).await)?;
        ensure!(answer == expected, "free_lock of run {run} of {id} was answered {answer:?}, not {expected:?}");
        if holds && self.model.locks.get(&key).is_some_and(|lock| lock.holder == id) {
            self.model.locks.remove(&key);
        }
        Ok(())
    }

    pub(super) async fn extend_lock(&mut self, by: By, pick: RunPick) -> Check {
        let Some((run, holds, key)) = self.lock_of(pick) else { return Ok(()) };
        let (now, id) = (self.now(), self.id(run).to_owned());
        let lock = HeldLock { run: self.runs[run].run.key.clone(), key: key.clone() };
        ok("extend_locks", self.broker(by).extend_locks(&[lock]).await)?;
        let until = now + 20 * self.stage.broker().lease().as_millis() as i64;
        let is_its_own = holds && self.model.tasks[&id].lock.as_deref() == Some(key.as_str());
        let is_longer = match self.model.hold(&key, now) {
            Hold::Held(holder) => holds && holder == id && self.model.locks[&key].end < until,
            // It has ended, and no other task has taken it.
            Hold::Free => is_its_own,
            Hold::Doubtful => false,
        };
        if is_longer {
            self.model.take_lock(&key, &id, until);
        }
        Ok(())
    }
}
