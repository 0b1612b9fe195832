//! Tracks dequeues without an answer: those under way, and those whose caller has gone.
//!
//! The tasks of a lost dequeue already belong to this member; the next call finds them by the run token, and requeues them. A
//! dequeue whose caller is blocked by a job can be taken over; its answer is then discarded.

use std::{
    collections::HashMap,
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::{
    super::{Member, RunToken, Wanted},
    identity::Identity,
    socket::Progress,
};
use crate::task::QueueName;

/// How much longer a dequeue may take on the connection that all calls share: the bytes of its answer are not seen there among
/// those of others.
const UNSEEN: u32 = 6;

/// Dequeues that were sent, or are about to be, and have no answer yet.
#[derive(Debug, Default)]
pub(super) struct UnansweredDequeues {
    calls: Mutex<HashMap<Member, Calls>>,
    numbers: AtomicU64,
}

#[derive(Debug, Default)]
struct Calls {
    on_their_way: Vec<OnItsWay>,
    lost: Vec<DequeueRequest>,
}

/// A call whose caller waits.
#[derive(Debug)]
struct OnItsWay {
    /// Identifies the waiting call. Taking a call over gives it a new number.
    number: u64,
    since: Instant,
    request: DequeueRequest,
}

/// The part of a dequeue that is about one queue.
#[derive(Debug, Clone)]
pub(super) struct DequeueRequest {
    pub(super) queue: QueueName,
    pub(super) token: RunToken,
    /// The time at which the request was made, before it was sent.
    pub(super) at: Instant,
    /// The dedicated connection on which the request was sent. Redis may still run it until that connection is ended.
    pub(super) abandoned: Option<Arc<Identity>>,
    /// The progress of its connection, which shows whether an answer that takes long is still coming.
    pub(super) progress: Option<Progress>,
}

impl DequeueRequest {
    /// Returns a dequeue of `queue` that was not sent yet.
    pub(super) fn new(queue: QueueName, token: RunToken) -> Self {
        Self { queue, token, at: Instant::now(), abandoned: None, progress: None }
    }
}

impl OnItsWay {
    fn is_late(&self, older: Duration) -> bool {
        self.since.elapsed() >= older
    }

    /// Returns whether no byte of the answer has come for at least `older`.
    fn is_stalled(&self, older: Duration) -> bool {
        match &self.request.progress {
            Some(progress) => progress.silent_for() >= older,
            None => self.is_late(older.saturating_mul(UNSEEN)),
        }
    }
}

/// A dequeue on its way. If it is dropped without an answer, because of an error or because its caller was dropped, it
/// counts as lost.
pub(super) struct Unanswered<'b> {
    all: &'b UnansweredDequeues,
    member: Member,
    number: u64,
    request: DequeueRequest,
    is_over: bool,
}

impl UnansweredDequeues {
    /// Notes a dequeue that is about to be sent.
    pub(super) fn note(&self, member: &Member, request: DequeueRequest) -> Unanswered<'_> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let on_its_way = OnItsWay { number, since: Instant::now(), request: request.clone() };
        self.calls.lock().entry(member.clone()).or_default().on_their_way.push(on_its_way);
        Unanswered { all: self, member: member.clone(), number, request, is_over: false }
    }

    /// Takes the lost dequeues of the wanted queues; each is lost again unless it is answered now.
    pub(super) fn take(&self, member: &Member, wanted: &[Wanted]) -> Vec<Unanswered<'_>> {
        let is_wanted = |request: &DequeueRequest| wanted.iter().any(|wanted| wanted.queue == request.queue);
        self.note_again(member, |calls| calls.lost.extract_if(.., |request| is_wanted(request)).collect())
    }

    /// Takes the lost dequeues of any queue, and those that have been on their way for at least `older` and whose
    /// answer is not coming; each is lost again unless it is answered now.
    pub(super) fn take_over(&self, member: &Member, older: Duration) -> Vec<Unanswered<'_>> {
        self.note_again(member, |calls| {
            let is_late = |call: &mut OnItsWay| call.is_late(older) && call.is_stalled(older);
            let late = calls.on_their_way.extract_if(.., is_late).map(|call| call.request);
            mem::take(&mut calls.lost).into_iter().chain(late).collect()
        })
    }

    fn note_again(&self, member: &Member, take: impl FnOnce(&mut Calls) -> Vec<DequeueRequest>) -> Vec<Unanswered<'_>> {
        let taken = self.calls.lock().get_mut(member).map(take).unwrap_or_default();
        taken.into_iter().map(|request| self.note(member, request)).collect()
    }

    /// Returns the dequeues that have been on their way for at least `older` and whose answer is still coming.
    pub(super) fn coming(&self, member: &Member, older: Duration) -> Vec<DequeueRequest> {
        let all = self.calls.lock();
        let calls = all.get(member).map_or(&[][..], |calls| &calls.on_their_way);
        let is_coming = |call: &&OnItsWay| call.is_late(older) && !call.is_stalled(older);
        calls.iter().filter(is_coming).map(|call| call.request.clone()).collect()
    }

    /// Returns whether the member's next call has tasks to requeue before it takes any.
    pub(super) fn has(&self, member: &Member, wanted: &[Wanted]) -> bool {
        let is_wanted =
            |request: &DequeueRequest| wanted.iter().any(|wanted| wanted.n > 0 && wanted.queue == request.queue);
        self.calls.lock().get(member).is_some_and(|calls| calls.lost.iter().any(is_wanted))
    }

    /// Forgets a member that left.
    pub(super) fn forget(&self, member: &Member) {
        self.calls.lock().remove(member);
    }
}

impl Unanswered<'_> {
    /// Returns the request that has no answer.
    pub(super) fn request(&self) -> &DequeueRequest {
        &self.request
    }

    /// Notes that Redis has read the request, or never will: the connection on which it was sent need not be ended for
    /// it.
    pub(super) fn was_read(&mut self) {
        self.request.abandoned = None;
    }

    /// Ends the note of a dequeue that was answered, or need not be looked for. `false` if another caller has taken the
    /// call over, and with it the answer.
    pub(super) fn answered(mut self) -> bool {
        self.is_over = true;
        self.end(&mut self.all.calls.lock())
    }

    /// Removes the call from those on their way; `false` if it was not among them.
    fn end(&self, all: &mut HashMap<Member, Calls>) -> bool {
        let Some(calls) = all.get_mut(&self.member) else { return false };
        let at = calls.on_their_way.iter().position(|call| call.number == self.number);
        at.map(|at| calls.on_their_way.swap_remove(at)).is_some()
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut all = self.all.calls.lock();
        if self.end(&mut all) {
            all.entry(self.member.clone()).or_default().lost.push(self.request.clone());
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

    fn request(queue: &str, token: i64) -> DequeueRequest {
        DequeueRequest::new(QueueName::from_wire(queue), RunToken(token))
    }

    fn wanted(queue: &str) -> [Wanted; 1] {
        [Wanted { queue: QueueName::from_wire(queue), n: 1 }]
    }

    fn tokens(found: &[Unanswered<'_>]) -> Vec<i64> {
        found.iter().map(|found| found.request().token.0).collect()
    }

    #[test]
    fn a_dequeue_that_is_dropped_unanswered_is_looked_for_by_the_next_call_of_its_member_and_queue() {
        let all = UnansweredDequeues::default();
        drop(all.note(&member(), request("a", 1)));
        assert!(all.note(&member(), request("a", 2)).answered());
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
    }

    #[test]
    fn a_stalled_dequeue_is_taken_over_once_and_its_own_answer_is_discarded() {
        let all = UnansweredDequeues::default();
        let (stalled, other) = (all.note(&member(), request("a", 1)), all.note(&member(), request("b", 2)));
        assert!(all.take(&member(), &wanted("a")).is_empty(), "its answer may still come");
        assert!(all.take_over(&member(), Duration::from_secs(60)).is_empty(), "it is not late yet");
        assert!(other.answered());
        let taken = all.take_over(&member(), Duration::ZERO);
        assert_eq!(tokens(&taken), [1]);
        assert!(!stalled.answered(), "another caller looks for it");
        drop(taken);
        let lost = all.take_over(&member(), Duration::from_secs(60));
        assert_eq!(tokens(&lost), [1], "a lost one is late at once");
        assert!(lost.into_iter().all(Unanswered::answered));
        assert!(all.take_over(&member(), Duration::ZERO).is_empty());
    }

    #[test]
    fn the_answer_of_a_dequeue_whose_bytes_are_not_seen_may_take_six_times_as_long() {
        let all = UnansweredDequeues::default();
        let call = all.note(&member(), request("a", 1));
        let began = |ago: u64| {
            let mut calls = all.calls.lock();
            let since = Instant::now().checked_sub(Duration::from_secs(ago)).unwrap();
            calls.get_mut(&member()).unwrap().on_their_way[0].since = since;
        };
        let older = Duration::from_secs(3);
        began(17);
        assert!(all.take_over(&member(), older).is_empty());
        assert_eq!(all.coming(&member(), older).len(), 1, "its lease is extended");
        began(19);
        assert!(all.coming(&member(), older).is_empty());
        assert_eq!(tokens(&all.take_over(&member(), older)), [1]);
        assert!(!call.answered());
    }
}
