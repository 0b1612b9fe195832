//! Removes the rows that periodic entries leave behind, whatever queue they are of: a queue may have entries and no server.

use super::{
    super::{sql, tx::View},
    shown::forget_history,
};

/// Most markers that one sweep takes away.
const MARKERS: i64 = 500;

/// Most histories that one sweep takes away; each has at most 1,000 rows.
const HISTORIES: i64 = 2;

/// Takes away markers, entries, shown entries, leads and histories whose time is over.
pub(in super::super) fn sweep(view: &View<'_>) -> rusqlite::Result<()> {
    view.execute(&sql::schedule::SWEEP_TICKS, [view.now, MARKERS])?;
    for sweep in [&sql::schedule::SWEEP_ENTRIES, &sql::schedule::SWEEP_SHOWN, &sql::schedule::SWEEP_LEADS] {
        view.execute(sweep, [view.now])?;
    }
    for entry in view.list(&sql::schedule::OVER_HISTORIES, [view.now, HISTORIES], |row| row.get::<_, String>(0))? {
        forget_history(view, &entry)?;
    }
    Ok(())
}
