//! Keeps the shapes of arguments (contract: `broker/shapes.rs`).

use bytes::Bytes;
use rusqlite::params;

use super::{
    SqliteBroker,
    command::{Priority, WriteCommand},
    row::after,
    sql,
    tx::View,
};
use crate::broker::{BrokerError, JoinShapes, LARGEST_SHAPE, NewShape, SHAPE_TTL, Shapes, StoredShapes};

#[async_trait::async_trait]
impl Shapes for SqliteBroker {
    async fn keep_shapes(&self, shapes: &[NewShape], join: JoinShapes) -> Result<(), BrokerError> {
        let shapes = shapes.to_vec();
        let command = WriteCommand::new(Priority::Settle, shapes.len(), move |tx| {
            tx.view.execute(&sql::shapes::FORGET, [tx.view.now])?;
            keep(&tx.view, &shapes, join)
        });
        self.store.write(command).await
    }

    async fn shape(&self, job: &str, fingerprint: Option<u32>) -> Result<Option<Bytes>, BrokerError> {
        let job = job.to_owned();
        self.change(move |tx| {
            let found = find(&tx.view, &job, fingerprint)?;
            if found.is_some() {
                extend(&tx.view, &job, fingerprint)?;
            }
            Ok(found.map(Bytes::from))
        })
        .await
    }

    fn stored_shapes(&self) -> &StoredShapes {
        &self.stored_shapes
    }
}

/// Keeps these shapes, joined with those that are there, in the transaction of `view`.
pub(super) fn keep(view: &View<'_>, shapes: &[NewShape], join: JoinShapes) -> rusqlite::Result<()> {
    for shape in shapes {
        let NewShape { job, fingerprint, body } = shape;
        let new = match find(view, job, *fingerprint)? {
            Some(kept) => join(shape, &kept),
            None => Some(body.clone()),
        };
        match new {
            Some(new) => {
                view.execute(
                    &sql::shapes::KEEP,
                    params![job, column(*fingerprint), &new[..], after(view.now, SHAPE_TTL)],
                )?;
            }
            None => extend(view, job, *fingerprint)?,
        }
    }
    Ok(())
}

fn find(view: &View<'_>, job: &str, fingerprint: Option<u32>) -> rusqlite::Result<Option<Vec<u8>>> {
    view.find(&sql::shapes::FIND, params![job, column(fingerprint), view.now, MOST_READ], |row| row.get(0))
}

fn extend(view: &View<'_>, job: &str, fingerprint: Option<u32>) -> rusqlite::Result<()> {
    view.execute(&sql::shapes::EXTEND, params![job, column(fingerprint), after(view.now, SHAPE_TTL)]).map(|_| ())
}

/// Most bytes that are read: one more than the longest shape has.
const MOST_READ: i64 = LARGEST_SHAPE as i64 + 1;

/// Returns the column for a fingerprint: -1 for none, since a column of this primary key is never NULL.
fn column(fingerprint: Option<u32>) -> i64 {
    fingerprint.map_or(-1, i64::from)
}
