//! Gives out tokens (contract: `broker/semaphore.rs`).

use std::time::Duration;

use chrono::{DateTime, Utc};
use rusqlite::params;

use crate::{
    broker::{BrokerError, SAME_CLOCK, Semaphores},
    task::TaskId,
};

use super::{
    SqliteBroker,
    command::{Priority, WriteCommand},
    row::{after, instant},
    sql,
    tx::View,
};

#[async_trait::async_trait]
impl Semaphores for SqliteBroker {
    async fn acquire_token(
        &self,
        scope: &str,
        max: usize,
        task: &TaskId,
        until: DateTime<Utc>,
        remaining: Duration,
        has_one: bool,
    ) -> Result<Option<DateTime<Utc>>, BrokerError> {
        let (scope, task, until_ms) = (scope.to_owned(), task.clone(), until.timestamp_millis());
        let (same_scope, same_task) = (scope.clone(), task.clone());
        let command = WriteCommand::new(Priority::Settle, 1, move |tx| {
            tx.view.execute(&sql::semaphore::FORGET, params![scope, tx.view.now])?;
            if !is_left(&tx.view, &scope, max, &task, has_one)? {
                return Ok(None);
            }
            let end = after(tx.view.now, remaining);
            let end = if end > until_ms.saturating_add(SAME_CLOCK.num_milliseconds()) { end } else { until_ms };
            tx.view.execute(&sql::semaphore::ACQUIRE, params![scope, task.as_str(), end])?;
            Ok(Some(end))
        });
        let command =
            command.unless(move |view| Ok((!is_left(view, &same_scope, max, &same_task, has_one)?).then_some(None)));
        let end = self.store.write(command).await?;
        Ok(end.map(|end| if end == until_ms { until } else { instant(end) }))
    }

    async fn release_token(&self, scope: &str, task: &TaskId, until: DateTime<Utc>) -> Result<bool, BrokerError> {
        let (scope, task, until) = (scope.to_owned(), task.clone(), until.timestamp_millis());
        self.change(move |tx| Ok(tx.view.execute(&sql::semaphore::RELEASE, params![scope, task.as_str(), until])? == 1))
            .await
    }
}

/// Whether fewer than `max` tokens are out for an attempt at `task`, which may have one of them itself (`has_one`).
fn is_left(view: &View<'_>, scope: &str, max: usize, task: &TaskId, has_one: bool) -> rusqlite::Result<bool> {
    let params = params![scope, view.now, task.as_str(), has_one];
    let out: Option<i64> = view.find(&sql::semaphore::OUT, params, |row| row.get(0))?;
    Ok(out.is_none_or(|out| usize::try_from(out).is_ok_and(|out| out < max)))
}
