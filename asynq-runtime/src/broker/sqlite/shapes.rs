//! Keeps the shapes of arguments (contract: `broker/shapes.rs`).

use bytes::Bytes;
use rusqlite::params;

use super::{
    SqliteBroker,
    command::{Priority, WriteCommand},
    sql,
    tx::View,
};
use crate::broker::{BrokerError, LARGEST_SHAPE, NewShape, SHAPE_TTL, Shapes, StoredShapes};

#[async_trait::async_trait]
impl Shapes for SqliteBroker {
    async fn keep_shapes(&self, shapes: &[NewShape]) -> Result<(), BrokerError> {
        let shapes = shapes.to_vec();
        let command = WriteCommand::new(Priority::Settle, shapes.len(), move |tx| {
            tx.view.execute(&sql::shapes::FORGET, [tx.view.now])?;
            keep(&tx.view, &sql::shapes::KEEP, &shapes)
        });
        self.store.write(command).await
    }

    async fn shape(&self, job: &str, fingerprint: Option<u32>) -> Result<Option<Bytes>, BrokerError> {
        let job = job.to_owned();
        let command = WriteCommand::new(Priority::Settle, 1, move |tx| {
            let which = params![job, column(fingerprint), tx.view.now, MOST_READ];
            let found = tx.view.find(&sql::shapes::FIND, which, |row| row.get::<_, Vec<u8>>(0))?;
            if found.is_some() {
                tx.view.execute(&sql::shapes::EXTEND, params![job, column(fingerprint), until(tx.view.now)])?;
            }
            Ok(found.map(Bytes::from))
        });
        self.store.write(command).await
    }

    fn stored_shapes(&self) -> &StoredShapes {
        &self.stored_shapes
    }
}

/// Keeps those of the `shapes` that are not there: within a caller's transaction they are not joined with those that are.
pub(super) fn keep_if_new(view: &View<'_>, shapes: &[NewShape]) -> rusqlite::Result<()> {
    keep(view, &sql::shapes::KEEP_IF_NEW, shapes)
}

fn keep(view: &View<'_>, statement: &sql::Sql, shapes: &[NewShape]) -> rusqlite::Result<()> {
    for NewShape { job, fingerprint, body } in shapes {
        view.execute(statement, params![job, column(*fingerprint), &body[..], until(view.now)])?;
    }
    Ok(())
}

/// Most bytes that are read: one more than the longest shape has.
const MOST_READ: i64 = LARGEST_SHAPE as i64 + 1;

/// Returns the column for a fingerprint: -1 for none, since a column of this primary key is never NULL.
fn column(fingerprint: Option<u32>) -> i64 {
    fingerprint.map_or(-1, i64::from)
}

fn until(now: i64) -> i64 {
    now.saturating_add(i64::try_from(SHAPE_TTL.as_millis()).unwrap_or(i64::MAX))
}
