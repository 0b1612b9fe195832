//! Takes tasks out of the file to run them (contract: `broker/consume.rs`).

mod ready;

use std::{collections::HashMap, sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use rusqlite::params;
use tokio::time::timeout_at;
use tokio_util::sync::CancellationToken;

use crate::{
    broker::{BrokerError, BrokerErrorKind, CALL_BYTES, Consume, Member, Quarantined, Run, Wanted, token::TokenSource},
    task::{QueueName, TaskId, TaskState},
};

use super::{
    SqliteBroker,
    candidate::{Candidate, met_damage},
    command::{CancelFlag, Priority, Ready, WriteCommand},
    row::{after, limit_of, text},
    sql,
    store::far,
    tx::{Tx, View},
};

/// Most tasks taken from one queue by one call.
const MOST: usize = 256;

#[async_trait::async_trait]
impl Consume for SqliteBroker {
    async fn dequeue_sparing(
        &self,
        member: &Member,
        wanted: &[Wanted],
        quarantined: Quarantined,
    ) -> Result<Vec<Run>, BrokerError> {
        let attempt = self.tokens.attempt(member.number, self.store.now());
        let (claim, command) = self.claim(member, &attempt, wanted, quarantined);
        let command = command.unless(move |view| Ok(claim.finds_nothing(view)?.then(Vec::new)));
        let answer = self.store.write_with(command, Arc::clone(&attempt.cancel_flag)).await;
        if met_damage(&answer) {
            self.set_damaged_aside(TaskState::Pending, waiting(wanted)).await;
        }
        attempt.ended_with(answer)
    }

    async fn wait_and_dequeue(
        &self,
        member: &Member,
        wanted: &[Wanted],
        quarantined: Quarantined,
        limit: Duration,
        stop: &CancellationToken,
    ) -> Result<Vec<Run>, BrokerError> {
        let attempt = self.tokens.attempt(member.number, self.store.now());
        let (claim, command) = self.claim(member, &attempt, wanted, quarantined);
        let queues: Vec<QueueName> = wanted.iter().map(|wanted| wanted.queue.clone()).collect();
        // Most queues are empty after most writes, which the walk of `ready::of` finds at once.
        let is_ready = move |view: &View<'_>| {
            Ok::<_, rusqlite::Error>(!claim.lost.is_empty() || !ready::of(view, &queues, quarantined)?.is_empty())
        };
        let command = command.once(move |view| Ok(if is_ready(view)? { Ready::Now } else { Ready::AfterNotification }));
        let answer = self.store.write_once(command, Arc::clone(&attempt.cancel_flag), limit, stop.cancelled()).await;
        match answer.transpose() {
            Some(answer) => {
                if met_damage(&answer) {
                    self.set_damaged_aside(TaskState::Pending, waiting(wanted)).await;
                }
                attempt.ended_with(answer)
            }
            // The command was given up before it was begun, as its flag says.
            None => Ok(Vec::new()),
        }
    }

    async fn release_unanswered(
        &self,
        member: &Member,
        _older: Duration,
    ) -> Result<Vec<(QueueName, TaskId)>, BrokerError> {
        let attempt = self.tokens.attempt(member.number, self.store.now());
        let (server, lost) = (member.number, attempt.lost.clone());
        if lost.is_empty() {
            return attempt.ended_with(Ok(Vec::new()));
        }
        let command = WriteCommand::new(Priority::Claim, lost.len(), move |tx| release(tx, server, &lost));
        let answer = self.store.write_with(command, Arc::clone(&attempt.cancel_flag)).await;
        attempt.ended_with(answer)
    }

    async fn ready(&self, queues: &[QueueName], quarantined: Quarantined) -> Result<Vec<QueueName>, BrokerError> {
        let queues = queues.to_vec();
        self.store.read(move |view| ready::of(view, &queues, quarantined)).await
    }

    async fn wait_for_work(
        &self,
        queues: &[QueueName],
        quarantined: Quarantined,
        limit: Duration,
    ) -> Result<Vec<QueueName>, BrokerError> {
        let deadline = far(limit);
        let mut notifier = self.store.common.notifier.work.subscribe();
        loop {
            let ready = self.ready(queues, quarantined).await?;
            if !ready.is_empty() || timeout_at(deadline, notifier.changed()).await.is_err() {
                return Ok(ready);
            }
        }
    }
}

impl SqliteBroker {
    /// Returns the claim, for looks, and the command that takes its tasks.
    fn claim(
        &self,
        member: &Member,
        attempt: &Attempt<'_>,
        wanted: &[Wanted],
        quarantined: Quarantined,
    ) -> (Arc<Claim>, WriteCommand<Vec<Run>>) {
        let wanted: Vec<Wanted> = wanted.iter().filter(|wanted| wanted.n > 0).cloned().collect();
        let claim = Arc::new(Claim {
            server: member.number,
            token: attempt.token,
            lost: attempt.lost.clone(),
            names: ready::names(wanted.iter().map(|wanted| &wanted.queue)),
            wanted,
            quarantined: match quarantined {
                Quarantined::All => usize::MAX,
                Quarantined::One => 1,
                Quarantined::None => 0,
            },
            lease: self.lease,
        });
        let items = claim.wanted.iter().map(|wanted| wanted.n.min(MOST)).sum::<usize>().max(1);
        let run = Arc::clone(&claim);
        (claim, WriteCommand::new(Priority::Claim, items, move |tx| run.run(tx)).may_be_lost())
    }
}

/// Returns a function that lists the next tasks of these queues without their messages.
fn waiting(wanted: &[Wanted]) -> impl Fn(&View<'_>) -> rusqlite::Result<Vec<Candidate>> + Clone + use<> {
    let wanted = wanted.to_vec();
    move |view| {
        let mut waiting = Vec::new();
        for Wanted { queue, .. } in &wanted {
            let Some(q) = view.queue(queue)? else { continue };
            let params = params![q, limit_of(MOST), true, false];
            waiting.extend(Candidate::list(view, &sql::consume::NEXT, params, usize::MAX)?.0);
        }
        Ok(waiting)
    }
}

/// Requeues the tasks that dequeues with the tokens `lost` took.
fn release(tx: &mut Tx<'_>, server: i64, lost: &[i64]) -> rusqlite::Result<Vec<(QueueName, TaskId)>> {
    let mut released = Vec::new();
    for &token in lost {
        released.extend(tx.view.list(&sql::consume::AGAIN, [server, token], |row| {
            Ok((row.get::<_, i64>(0)?, QueueName::from_wire(&text(row, 2)?), text(row, 1)?))
        })?);
    }
    // The task that is requeued last is the next to be taken.
    for (seq, queue, _) in released.iter().rev() {
        let Some(q) = tx.queue(queue)? else { continue };
        let place = tx.head(q)?;
        tx.view.execute(&sql::settle::REQUEUE, [*seq, place, tx.view.now])?;
        tx.moved(q, TaskState::Active, TaskState::Pending);
    }
    Ok(released.into_iter().map(|(_, queue, id)| (queue, TaskId::from_wire(&id))).collect())
}

/// The request of one dequeue.
#[derive(Debug)]
struct Claim {
    server: i64,
    token: i64,
    /// Tokens of earlier calls whose answers were lost.
    lost: Vec<i64>,
    wanted: Vec<Wanted>,
    /// The names of the wanted queues, for [`ready::by_name`].
    names: String,
    /// Most quarantined tasks that may be taken.
    quarantined: usize,
    lease: Duration,
}

impl Claim {
    fn finds_nothing(&self, view: &View<'_>) -> rusqlite::Result<bool> {
        Ok(self.lost.is_empty() && !ready::is_any(view, &self.names, self.quarantined > 0)?)
    }

    fn run(&self, tx: &mut Tx<'_>) -> rusqlite::Result<Vec<Run>> {
        release(tx, self.server, &self.lost)?;
        let (mut runs, mut room, mut quarantined) = (Vec::new(), CALL_BYTES, self.quarantined);
        let ready = ready::by_name(&tx.view, &self.names, quarantined > 0)?;
        let ready: HashMap<QueueName, i64> = ready.into_iter().map(|(q, name)| (name, q)).collect();
        for wanted in &self.wanted {
            if let Some(&q) = ready.get(&wanted.queue) {
                self.take(tx, q, wanted, (&mut quarantined, &mut room), &mut runs)?;
            }
        }
        Ok(runs)
    }

    /// Takes tasks from one queue, at most `quarantined` of them quarantined, until their messages fill `room`, and counts both down.
    fn take(
        &self,
        tx: &mut Tx<'_>,
        q: i64,
        wanted: &Wanted,
        (quarantined, room): (&mut usize, &mut usize),
        runs: &mut Vec<Run>,
    ) -> rusqlite::Result<()> {
        let until = after(tx.view.now, self.lease);
        let mut missing = wanted.n.min(MOST);
        while missing > 0 && *room > 0 {
            let params = params![q, limit_of(missing), *quarantined > 0, true];
            let (found, is_whole) = Candidate::list(&tx.view, &sql::consume::NEXT, params, *room)?;
            let all = is_whole && found.len() < missing;
            for candidate in found {
                if candidate.is_quarantined() {
                    // The next round does not find this task again: it asks for no quarantined task, because none is left to
                    // take.
                    let Some(left) = quarantined.checked_sub(1) else { continue };
                    *quarantined = left;
                }
                if candidate.can_never_run() {
                    candidate.set_aside(tx, TaskState::Pending)?;
                    continue;
                }
                tx.view.execute(&sql::consume::TAKE, [candidate.seq, until, self.server, self.token])?;
                tx.moved(q, TaskState::Pending, TaskState::Active);
                *room = room.saturating_sub(candidate.bytes());
                runs.extend(candidate.into_run(&wanted.queue, self.server, self.token, tx.view.now));
                missing -= 1;
            }
            if all {
                break;
            }
        }
        Ok(())
    }
}

/// Draws run tokens and remembers the tokens whose tasks never reached the caller.
#[derive(Debug)]
pub(super) struct Tokens {
    source: TokenSource,
    lost: Mutex<HashMap<i64, Vec<i64>>>,
}

/// One dequeue, from its token to its answer.
#[derive(Debug)]
struct Attempt<'a> {
    tokens: &'a Tokens,
    server: i64,
    token: i64,
    lost: Vec<i64>,
    cancel_flag: Arc<CancelFlag>,
    /// Whether the writer's answer is known, so that no task of this token is lost.
    is_over: bool,
}

impl Tokens {
    pub(super) fn new() -> Self {
        Self { source: TokenSource::new(), lost: Mutex::default() }
    }

    fn attempt(&self, server: i64, now: DateTime<Utc>) -> Attempt<'_> {
        let lost = self.lost.lock().remove(&server).unwrap_or_default();
        Attempt {
            tokens: self,
            server,
            token: self.source.draw(now).0,
            lost,
            cancel_flag: Arc::default(),
            is_over: false,
        }
    }
}

impl Attempt<'_> {
    fn ended_with<T>(mut self, answer: Result<T, BrokerError>) -> Result<T, BrokerError> {
        match &answer {
            Ok(_) => {
                self.is_over = true;
                self.lost.clear();
            }
            // The writer may have run the command or may still run it.
            Err(error) if error.kind() == BrokerErrorKind::Timeout => {}
            // The transaction was rolled back, so this call took no task, and the tasks of the earlier calls are still to be asked
            // for.
            Err(_) => self.is_over = true,
        }
        answer
    }
}

impl Drop for Attempt<'_> {
    /// Remembers the lost tokens for the next call. Also runs when the caller drops the future: tasks that the writer took meanwhile
    /// come with the next call.
    fn drop(&mut self) {
        let mut lost = std::mem::take(&mut self.lost);
        if !self.is_over && !self.cancel_flag.give_up() {
            lost.push(self.token);
        }
        if !lost.is_empty() {
            self.tokens.lost.lock().entry(self.server).or_default().append(&mut lost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{connection, migrate},
        *,
    };

    /// A run that goes on would be taken a second time.
    #[test]
    fn a_dequeue_whose_answer_was_lost_gives_back_its_own_tasks_alone_and_in_their_order() {
        let mut connection = connection::open_memory().unwrap();
        let names = migrate::settle_in(&mut connection, false, "here", |_| Ok(())).unwrap();
        connection
            .execute_batch(
                "INSERT INTO queue(q, name) VALUES (1, 'default');
                 INSERT INTO task(q, state, at, since, id, type, server, run) VALUES
                   (1, 1, 90, 1, 'another run', 't', 7, 2), (1, 1, 90, 3, 'second', 't', 7, 1),
                   (1, 1, 90, 2, 'first', 't', 7, 1), (1, 1, 90, 4, 'another server', 't', 8, 1)",
            )
            .unwrap();
        let mut tx = Tx::new(View::new(&connection, names, 50));
        let released = release(&mut tx, 7, &[1]).unwrap();
        assert_eq!(released.iter().map(|(_, id)| id.as_str()).collect::<Vec<_>>(), ["first", "second"]);
        let pending = "SELECT group_concat(id, ' ' ORDER BY at) FROM task WHERE state = 2";
        assert_eq!(connection.query_row(pending, [], |row| row.get::<_, String>(0)).unwrap(), "first second");
    }

    #[test]
    fn a_call_that_was_begun_but_not_answered_is_remembered_and_one_that_was_not_begun_is_not() {
        let tokens = Tokens::new();
        let now = Utc::now();
        drop(tokens.attempt(7, now));
        assert!(tokens.attempt(7, now).lost.is_empty());
        let begun = tokens.attempt(7, now);
        assert!(begun.cancel_flag.begin());
        let token = begun.token;
        drop(begun);
        let again = tokens.attempt(7, now);
        assert_eq!(again.lost, [token]);
        drop(again);
        assert!(tokens.attempt(8, now).lost.is_empty());
        let last = tokens.attempt(7, now);
        assert_eq!(last.lost, [token]);
        assert!(last.cancel_flag.begin());
        let failed = BrokerError::new(BrokerErrorKind::Unexpected, "rolled back");
        assert!(last.ended_with::<()>(Err(failed)).is_err());
        let last = tokens.attempt(7, now);
        assert_eq!(last.lost, [token], "a failed call took nothing itself");
        last.ended_with(Ok(())).unwrap();
        assert!(tokens.attempt(7, now).lost.is_empty());
    }
}
