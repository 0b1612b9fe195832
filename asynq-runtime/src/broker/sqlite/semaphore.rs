//! Gives out tokens (contract: `broker/semaphore.rs`).

use chrono::{DateTime, Utc};
use rusqlite::params;

use crate::{
    broker::{BrokerError, Semaphores},
    task::TaskId,
};

use super::{
    SqliteBroker,
    order::{Order, Stage},
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
    ) -> Result<bool, BrokerError> {
        let (scope, task, until) = (scope.to_owned(), task.clone(), until.timestamp_millis());
        let (same_scope, same_task) = (scope.clone(), task.clone());
        let order = Order::new(Stage::Settle, 1, move |tx| {
            tx.view.execute(&sql::SEMAPHORE_FORGET, params![scope, tx.view.now])?;
            let free = is_free(&tx.view, &scope, max, &task)?;
            if free {
                tx.view.execute(&sql::SEMAPHORE_ACQUIRE, params![scope, task.as_str(), until])?;
            }
            Ok(free)
        });
        let order = order.unless(move |view| Ok((!is_free(view, &same_scope, max, &same_task)?).then_some(false)));
        self.store.write(order).await
    }

    async fn release_token(&self, scope: &str, task: &TaskId) -> Result<bool, BrokerError> {
        let (scope, task) = (scope.to_owned(), task.clone());
        let order = Order::new(Stage::Settle, 1, move |tx| {
            Ok(tx.view.execute(&sql::SEMAPHORE_RELEASE, params![scope, task.as_str()])? == 1)
        });
        self.store.write(order).await
    }
}

/// Whether the task may have a token.
fn is_free(view: &View<'_>, scope: &str, max: usize, task: &TaskId) -> rusqlite::Result<bool> {
    let out = view.find(&sql::SEMAPHORE_OUT, params![scope, view.now, task.as_str()], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, bool>(1)?))
    })?;
    Ok(out.is_none_or(|(out, has_one)| !has_one && usize::try_from(out).unwrap_or(usize::MAX) < max))
}
