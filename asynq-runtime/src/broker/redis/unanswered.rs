//! Dequeues without an answer: those that are on their way, and those whose answer nobody will take any more.
//!
//! What a lost one took is this member's already, and the next call asks for it by its token (F6). One that is held up,
//! because a job blocks the thread of whoever waits for it, can be taken over: its answer is nobody's then.

use std::{
    collections::HashMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{
    super::{BrokerError, Member, RunToken, Wanted},
    keeper::Identity,
};
use crate::task::QueueName;

/// Dequeues that were sent, or are about to be, and have no answer yet.
#[derive(Debug, Default)]
pub(super) struct UnansweredDequeues(Mutex<HashMap<Member, Calls>>);

#[derive(Debug, Default)]
struct Calls {
    /// With the moment of the call.
    on_their_way: Vec<(Instant, Asked)>,
    lost: Vec<Asked>,
    /// What a call that returned tasks could not tell.
    error: Option<BrokerError>,
}

/// One queue's part of a dequeue.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) queue: QueueName,
    pub(super) token: RunToken,
    /// The connection beside the broker's own on which it was sent, and may still be run until that is ended.
    pub(super) stray: Option<Arc<Identity>>,
}

/// A dequeue on its way. Dropped without an answer, by an error or because the caller went away, it counts as lost.
pub(super) struct Unanswered<'b> {
    all: &'b UnansweredDequeues,
    member: Member,
    asked: Asked,
    is_over: bool,
}

impl UnansweredDequeues {
    /// Notes one that is about to be sent.
    pub(super) fn note(&self, member: &Member, asked: Asked) -> Unanswered<'_> {
        let on_their_way = (Instant::now(), asked.clone());
        self.lock().entry(member.clone()).or_default().on_their_way.push(on_their_way);
        Unanswered { all: self, member: member.clone(), asked, is_over: false }
    }

    /// What is lost in the wanted queues; each is lost again unless it is answered now.
    pub(super) fn take(&self, member: &Member, wanted: &[Wanted]) -> Vec<Unanswered<'_>> {
        let is_wanted = |asked: &Asked| wanted.iter().any(|wanted| wanted.queue == asked.queue);
        let taken: Vec<Asked> = match self.lock().get_mut(member) {
            Some(calls) => calls.lost.extract_if(.., |asked| is_wanted(asked)).collect(),
            None => return Vec::new(),
        };
        taken.into_iter().map(|asked| self.note(member, asked)).collect()
    }

    /// What is lost in any queue, and what was on its way for longer than `older`; the same holds for them.
    pub(super) fn take_over(&self, member: &Member, older: Duration) -> Vec<Unanswered<'_>> {
        let taken: Vec<Asked> = match self.lock().get_mut(member) {
            Some(calls) => {
                let lost = mem::take(&mut calls.lost).into_iter();
                let late = calls.on_their_way.extract_if(.., |(since, _)| since.elapsed() >= older);
                lost.chain(late.map(|(_, asked)| asked)).collect()
            }
            None => return Vec::new(),
        };
        taken.into_iter().map(|asked| self.note(member, asked)).collect()
    }

    /// Whether the member's next call has something to fetch or to tell before anything new.
    pub(super) fn has(&self, member: &Member, wanted: &[Wanted]) -> bool {
        let is_wanted = |asked: &Asked| wanted.iter().any(|wanted| wanted.n > 0 && wanted.queue == asked.queue);
        let has = |calls: &Calls| calls.error.is_some() || calls.lost.iter().any(is_wanted);
        self.lock().get(member).is_some_and(has)
    }

    /// Keeps what the member's next call is to be told.
    pub(super) fn keep_error(&self, member: &Member, error: BrokerError) {
        self.lock().entry(member.clone()).or_default().error = Some(error);
    }

    /// What this call is to be told.
    pub(super) fn take_error(&self, member: &Member) -> Option<BrokerError> {
        self.lock().get_mut(member)?.error.take()
    }

    /// Forgets a member that left.
    pub(super) fn forget(&self, member: &Member) {
        self.lock().remove(member);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Member, Calls>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Unanswered<'_> {
    /// What was asked.
    pub(super) fn asked(&self) -> &Asked {
        &self.asked
    }

    /// Redis has read it, or never will: the connection on which it was sent need not be ended for it.
    pub(super) fn was_read(&mut self) {
        self.asked.stray = None;
    }

    /// It was answered, or nobody need look for it. `false` if somebody has taken it over: the answer is theirs.
    pub(super) fn answered(mut self) -> bool {
        self.is_over = true;
        self.end(&mut self.all.lock())
    }

    /// Takes it from those on their way; `false` if it was not there.
    fn end(&self, all: &mut HashMap<Member, Calls>) -> bool {
        let Some(calls) = all.get_mut(&self.member) else { return false };
        let at = calls.on_their_way.iter().position(|(_, asked)| asked.token == self.asked.token);
        at.map(|at| calls.on_their_way.swap_remove(at)).is_some()
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut all = self.all.lock();
        if self.end(&mut all) {
            all.entry(self.member.clone()).or_default().lost.push(self.asked.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::ServerName;

    fn member() -> Member {
        let name = ServerName { host: "h".into(), pid: 1, server_id: "s".into() };
        Member { name, number: 0 }
    }

    fn asked(queue: &str, token: i64) -> Asked {
        Asked { queue: QueueName::from_wire(queue), token: RunToken(token), stray: None }
    }

    fn wanted(queue: &str) -> [Wanted; 1] {
        [Wanted { queue: QueueName::from_wire(queue), n: 1 }]
    }

    fn tokens(found: &[Unanswered<'_>]) -> Vec<i64> {
        found.iter().map(|found| found.asked().token.0).collect()
    }

    #[test]
    fn a_dequeue_that_is_dropped_unanswered_is_looked_for_by_the_next_call_of_its_member_and_queue() {
        let all = UnansweredDequeues::default();
        drop(all.note(&member(), asked("a", 1)));
        assert!(all.note(&member(), asked("a", 2)).answered());
        assert!(all.take(&member(), &wanted("b")).is_empty());
        assert_eq!((all.has(&member(), &wanted("a")), all.has(&member(), &wanted("b"))), (true, false));
        let found = all.take(&member(), &wanted("a"));
        assert_eq!(tokens(&found), [1]);
        drop(found);
        let again = all.take(&member(), &wanted("a"));
        assert_eq!(again.len(), 1, "looked for until it is answered");
        assert!(again.into_iter().all(Unanswered::answered));
        assert!(all.take(&member(), &wanted("a")).is_empty());
        assert!(!all.has(&member(), &wanted("a")));
        all.keep_error(&member(), crate::broker::redis::line::closed());
        assert!(all.has(&member(), &wanted("a")), "an error to be told");
    }

    #[test]
    fn one_that_is_held_up_is_taken_over_once_and_its_own_answer_is_nobodys() {
        let all = UnansweredDequeues::default();
        let (held_up, other) = (all.note(&member(), asked("a", 1)), all.note(&member(), asked("b", 2)));
        assert!(all.take(&member(), &wanted("a")).is_empty(), "it may be answered any moment");
        assert!(all.take_over(&member(), Duration::from_secs(60)).is_empty(), "it is not late yet");
        assert!(other.answered());
        let taken = all.take_over(&member(), Duration::ZERO);
        assert_eq!(tokens(&taken), [1]);
        // Both ends are over, in either order; what was taken over and not answered is looked for again.
        assert!(held_up.asked().token == RunToken(1) && taken.len() == 1);
        drop(taken);
        assert!(!held_up.answered(), "somebody else has looked for it");
        let lost = all.take_over(&member(), Duration::from_secs(60));
        assert_eq!(tokens(&lost), [1], "a lost one is late at once");
        assert!(lost.into_iter().all(Unanswered::answered));
        assert!(all.take_over(&member(), Duration::ZERO).is_empty());
    }
}
