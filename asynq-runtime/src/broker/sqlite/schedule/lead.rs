//! The lead of the schedulers of a program: one row of the file, which names the leader.

use std::time::Duration;

use rusqlite::params;

use crate::broker::{Candidate, Lead};

use super::{
    super::{sql, tx::View},
    CLOCK_WENT_BACK_MS, after,
};

/// A row of `lead`; times are Unix milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Leader {
    /// Empty after a resignation.
    token: String,
    revision: u64,
    pub(super) until: i64,
    /// The newest revision that wants the lead, until `wanted_until`.
    wanted: u64,
    wanted_until: i64,
    /// When the row was last written. A time in the future says that the clock was set back since.
    written_at: i64,
}

impl Leader {
    /// Reads the row of `program`. A row from the future counts as none: it was written before the clock was set back.
    pub(super) fn find(view: &View<'_>, program: &str) -> rusqlite::Result<Option<Self>> {
        let found = view.find(&sql::schedule::LEADER, [program], |row| {
            Ok(Self {
                token: row.get(0)?,
                revision: row.get::<_, i64>(1)?.cast_unsigned(),
                until: row.get(2)?,
                wanted: row.get::<_, i64>(3)?.cast_unsigned(),
                wanted_until: row.get(4)?,
                written_at: row.get(5)?,
            })
        })?;
        Ok(found.filter(|leader| leader.written_at <= view.now.saturating_add(CLOCK_WENT_BACK_MS)))
    }

    /// Writes the row.
    pub(super) fn write(&self, view: &View<'_>, program: &str) -> rusqlite::Result<()> {
        view.execute(
            &sql::schedule::SET_LEADER,
            params![
                program,
                self.token,
                self.revision.cast_signed(),
                self.until,
                self.wanted.cast_signed(),
                self.wanted_until,
                self.written_at
            ],
        )?;
        Ok(())
    }
}

/// Returns the new row, if it changes, and the answer to the candidate.
pub(super) fn decide(found: Option<&Leader>, candidate: &Candidate, now: i64, ttl: Duration) -> (Option<Leader>, Lead) {
    let end = after(now, ttl);
    let left = |until: i64| Lead::Another(Duration::from_millis(until.saturating_sub(now).unsigned_abs()));
    let request = found.filter(|leader| leader.wanted_until > now).map(|leader| (leader.wanted, leader.wanted_until));
    let newer = request.filter(|(wanted, _)| *wanted > candidate.revision);
    match found.filter(|leader| leader.until > now) {
        Some(leader) if leader.token == candidate.token => {
            let renewed = Leader { revision: candidate.revision, until: end, written_at: now, ..leader.clone() };
            (Some(renewed), Lead::Ours { wanted: newer.is_some() })
        }
        Some(leader) => {
            let wants = candidate.revision > leader.revision && newer.is_none();
            let requested = Leader { wanted: candidate.revision, wanted_until: end, written_at: now, ..leader.clone() };
            (wants.then_some(requested), left(leader.until))
        }
        None => {
            let (wanted, wanted_until) = newer.unwrap_or((0, 0));
            let (token, revision) = (candidate.token.clone(), candidate.revision);
            let taken = Leader { token, revision, until: end, wanted, wanted_until, written_at: now };
            (Some(taken), Lead::Ours { wanted: newer.is_some() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_millis(100);

    fn candidate(token: &str, revision: u64) -> Candidate {
        Candidate { program: "p".into(), token: token.into(), revision }
    }

    #[test]
    fn a_leader_leads_until_its_lease_ends_and_is_notified_of_a_newer_candidate() {
        let (old, peer, new) = (candidate("old", 1), candidate("peer", 1), candidate("new", 2));
        let another = |ms| Lead::Another(Duration::from_millis(ms));
        let ours = |wanted| Lead::Ours { wanted };
        let mut row: Option<Leader> = None;
        for (step, (candidate, now, expected)) in [
            (&old, 0, ours(false)),
            (&old, 50, ours(false)),
            (&peer, 60, another(90)),
            (&new, 60, another(90)),
            (&peer, 70, another(80)),
            (&old, 80, ours(true)),
            // The leader's time is over at 180, and the request is over since 160.
            (&peer, 180, ours(false)),
            (&new, 200, another(80)),
            (&peer, 279, ours(true)),
            (&new, 290, another(89)),
            // The new leader learns at once of a newer version that waits.
            (&old, 379, ours(true)),
            (&new, 380, another(99)),
            (&new, 479, ours(false)),
            (&old, 480, another(99)),
            (&new, 481, ours(false)),
        ]
        .into_iter()
        .enumerate()
        {
            let (change, lead) = decide(row.as_ref(), candidate, now, TTL);
            assert_eq!(lead, expected, "step {step}");
            row = change.or(row);
        }
    }
}
