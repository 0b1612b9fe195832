//! Ends a set and stores the tasks that were made of it, in one transaction.

use std::{collections::HashSet, time::Duration};

use crate::{
    broker::{NewTask, SetError, SetOutcome, TaskSet},
    task::TaskState,
};

use super::{
    super::{produce::Item, row::after, sql, stored_task::StoredTask, tx::Tx},
    find_set,
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
    resend: bool,
}

impl Finish {
    pub(super) fn new(set: &TaskSet, outcome: &SetOutcome) -> Self {
        // The receipt tells that an earlier send has ended the set; a task that has the id without it is not the made one.
        let made = |made: &NewTask| Item::new(NewTask { id_is_ours: false, replaces: None, ..made.clone() });
        Self {
            number: set.number,
            id: set.id.clone(),
            made: outcome.made.iter().map(made).collect(),
            alone: outcome.alone.iter().map(|id| id.as_str().to_owned()).collect(),
            resend: outcome.resend,
        }
    }

    /// Ends the set, or finds that it cannot be ended; then nothing is changed.
    pub(super) fn run(&self, tx: &mut Tx<'_>) -> rusqlite::Result<Result<(), SetError>> {
        match find_set(&tx.view, self.number, &self.id)? {
            Some((q, false)) => tx.whole_or_nothing(|tx| self.end(tx, q)),
            Some((_, true)) if self.resend => Ok(Ok(())),
            Some(_) | None => Ok(Err(SetError::Lost)),
        }
    }

    fn end(&self, tx: &mut Tx<'_>, q: i64) -> rusqlite::Result<Result<(), SetError>> {
        let members = tx.view.list(&sql::groups::MEMBERS, [q, self.number], |row| StoredTask::read(q, row))?;
        for member in &members {
            if self.alone.contains(&member.id) {
                let place = tx.tail(q, true)?;
                tx.view.execute(&sql::task::RUN, [member.seq, place, tx.view.now])?;
                tx.moved(q, TaskState::Aggregating, TaskState::Pending);
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
