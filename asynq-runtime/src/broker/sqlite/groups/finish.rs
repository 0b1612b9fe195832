//! Ends a set and stores the tasks that were made of it, in one transaction.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use rusqlite::params;

use crate::{
    broker::{NewTask, SetError, SetOutcome, TaskSet, settle::shortened},
    task::{TaskMessage, TaskState},
};

use super::{
    super::{produce::Item, row::after, sql, stored_task::StoredTask, tx::Tx},
    SetRow,
};

/// How long a finished set is remembered, for a caller that never got the answer.
const RECEIPT: Duration = Duration::from_secs(600);

/// The end of a set with everything encoded once, however often the transaction is repeated.
#[derive(Debug)]
pub(super) struct Finish {
    number: i64,
    id: String,
    made: Vec<Item>,
    alone: HashSet<String>,
    /// By id.
    rejected: HashMap<String, Rejection>,
    resend: bool,
}

#[derive(Debug)]
struct Rejection {
    error: String,
    /// Replaces the message of the task.
    message: Option<Vec<u8>>,
}

impl Finish {
    pub(super) fn new(set: &TaskSet, outcome: &SetOutcome) -> Self {
        let bad = set.members.iter().filter_map(|member| Some((&member.id, member.message.as_ref().err()?)));
        let bad: HashMap<_, _> = bad.collect();
        let rejected = outcome.rejected.iter().map(|task| {
            let message =
                bad.get(&task.id).map(|bad| TaskMessage::in_place_of(bad.raw.clone(), &task.id, &set.queue).encode());
            (task.id.as_str().to_owned(), Rejection { error: shortened(&task.error).to_owned(), message })
        });
        // The receipt tells that an earlier send has ended the set; a task that has the id without it is not the made one.
        let made = |made: &NewTask| Item::new(NewTask { id_is_ours: false, replaces: None, ..made.clone() });
        Self {
            number: set.number,
            id: set.id.clone(),
            made: outcome.made.iter().map(made).collect(),
            alone: outcome.alone.iter().map(|id| id.as_str().to_owned()).collect(),
            rejected: rejected.collect(),
            resend: outcome.resend,
        }
    }

    /// Ends the set, or finds that it cannot be ended; then nothing is changed.
    pub(super) fn run(&self, tx: &mut Tx<'_>) -> rusqlite::Result<Result<(), SetError>> {
        let Some(set) = SetRow::of(&tx.view, self.number, &self.id)? else { return Ok(Err(SetError::Lost)) };
        if set.ended {
            return Ok(if self.resend { Ok(()) } else { Err(SetError::Lost) });
        }
        tx.whole_or_nothing(|tx| self.end(tx, set.q))
    }

    fn end(&self, tx: &mut Tx<'_>, q: i64) -> rusqlite::Result<Result<(), SetError>> {
        let members = tx.view.list(&sql::groups::MEMBERS, [q, self.number], |row| StoredTask::read(q, row))?;
        for member in &members {
            if let Some(rejection) = self.rejected.get(&member.id) {
                reject(tx, q, member, rejection)?;
            } else if self.alone.contains(&member.id) {
                let place = tx.tail(q, true)?;
                tx.view.execute(&sql::groups::RUN_ALONE, [member.seq, place, tx.view.now])?;
                tx.left(q, TaskState::Aggregating);
                tx.came(q, TaskState::Pending);
            } else {
                tx.delete(&member.to_delete())?;
            }
        }
        // New tasks come after the members, whose locks they may need.
        for item in &self.made {
            if let Err(refused) = item.insert(tx)? {
                return Ok(Err(SetError::Refused(refused)));
            }
        }
        tx.view.execute(&sql::groups::END_SET, [self.number, after(tx.view.now, RECEIPT)])?;
        Ok(Ok(()))
    }
}

fn reject(tx: &mut Tx<'_>, q: i64, member: &StoredTask, rejection: &Rejection) -> rusqlite::Result<()> {
    tx.view.execute(&sql::groups::REJECT, params![member.seq, tx.view.now, rejection.error])?;
    if let Some(message) = &rejection.message {
        tx.view.execute(&sql::body::SET_MESSAGE, params![member.seq, message])?;
    }
    tx.free_lock_of_archived(q, member.lock.as_deref(), &member.id, &member.extra)?;
    tx.left(q, TaskState::Aggregating);
    tx.came(q, TaskState::Archived);
    Ok(())
}
