//! Who leads the schedulers: one row of the file, and who may write it.

use std::time::Duration;

use rusqlite::params;

use crate::broker::{Candidate, Lead};

use super::{
    super::{sql, tx::View},
    CLOCK_WENT_BACK_MS, after,
};

/// How long a waiter leaves a lead alone that is free but kept for a newer program. The waiter may be that program.
const HESITATION: Duration = Duration::from_millis(100);

/// The row; times in Unix milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Leader {
    /// Empty after a resignation.
    token: String,
    revision: u64,
    until: i64,
    /// The newest revision that wants the lead until then.
    wanted: u64,
    wanted_until: i64,
    touched: i64,
}

impl Leader {
    /// Reads the row. One from the future is none: it was written before the clock was set back.
    pub(super) fn find(view: &View<'_>) -> rusqlite::Result<Option<Self>> {
        let found = view.find(&sql::SCHEDULE_LEADER, [], |row| {
            Ok(Self {
                token: row.get(0)?,
                revision: u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0),
                until: row.get(2)?,
                wanted: u64::try_from(row.get::<_, i64>(3)?).unwrap_or(0),
                wanted_until: row.get(4)?,
                touched: row.get(5)?,
            })
        })?;
        Ok(found.filter(|leader| leader.touched <= view.now.saturating_add(CLOCK_WENT_BACK_MS)))
    }

    /// Writes the row.
    pub(super) fn write(&self, view: &View<'_>) -> rusqlite::Result<()> {
        let number = |revision| i64::try_from(revision).unwrap_or(i64::MAX);
        view.execute(
            &sql::SCHEDULE_SET_LEADER,
            params![
                self.token,
                number(self.revision),
                self.until,
                number(self.wanted),
                self.wanted_until,
                self.touched
            ],
        )?;
        Ok(())
    }

    /// From when on the lead may be had, and how soon to look again even so.
    pub(super) fn free(&self, now: i64) -> (i64, Option<Duration>) {
        if self.until > now {
            (self.until, None)
        } else if self.wanted_until > now {
            (self.wanted_until, Some(HESITATION))
        } else {
            (now, None)
        }
    }
}

/// What a candidate gets, and what the row becomes if it changes.
pub(super) fn decide(found: Option<&Leader>, candidate: &Candidate, now: i64, ttl: Duration) -> (Option<Leader>, Lead) {
    let end = after(now, ttl);
    let left = |until: i64| Lead::Another(Duration::from_millis(until.saturating_sub(now).unsigned_abs()));
    let wish = found.filter(|leader| leader.wanted_until > now).map(|leader| (leader.wanted, leader.wanted_until));
    let newer = wish.filter(|(wanted, _)| *wanted > candidate.revision);
    match found.filter(|leader| leader.until > now) {
        Some(leader) if leader.token == candidate.token => {
            let renewed = Leader { revision: candidate.revision, until: end, touched: now, ..leader.clone() };
            (Some(renewed), Lead::Ours { wanted: newer.is_some() })
        }
        Some(leader) => {
            let wants = candidate.revision > leader.revision && newer.is_none();
            let wished = Leader { wanted: candidate.revision, wanted_until: end, touched: now, ..leader.clone() };
            (wants.then_some(wished), left(leader.until))
        }
        None => match newer {
            // Somebody resigned for a newer program, which is on its way.
            Some((_, until)) => (None, left(until)),
            None => {
                let taken = Leader {
                    token: candidate.token.clone(),
                    revision: candidate.revision,
                    until: end,
                    wanted: 0,
                    wanted_until: 0,
                    touched: now,
                };
                (Some(taken), Lead::Ours { wanted: false })
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_millis(100);

    fn candidate(token: &str, revision: u64) -> Candidate {
        Candidate { token: token.into(), revision }
    }

    #[test]
    fn one_leads_until_its_time_is_over_and_a_newer_one_is_waited_for() {
        let (old, peer, new) = (candidate("old", 1), candidate("peer", 1), candidate("new", 2));
        let another = |ms| Lead::Another(Duration::from_millis(ms));
        let ours = |wanted| Lead::Ours { wanted };
        let mut row: Option<Leader> = None;
        for (step, (who, now, expected)) in [
            (&old, 0, ours(false)),
            (&old, 50, ours(false)),
            (&peer, 60, another(90)),
            (&new, 60, another(90)),
            (&peer, 70, another(80)),
            (&old, 80, ours(true)),
            // Its time is over at 180, and the wish is over since 160.
            (&peer, 180, ours(false)),
            (&new, 200, another(80)),
            (&peer, 279, ours(true)),
            (&new, 290, another(89)),
            (&old, 379, another(11)),
            (&peer, 379, another(11)),
            (&new, 379, ours(false)),
            (&old, 380, another(99)),
            (&new, 381, ours(false)),
        ]
        .into_iter()
        .enumerate()
        {
            let (change, lead) = decide(row.as_ref(), who, now, TTL);
            assert_eq!(lead, expected, "step {step}");
            row = change.or(row);
        }
    }

    #[test]
    fn a_waiter_comes_when_the_lead_is_free_and_soon_if_it_is_kept_for_somebody() {
        let (leader, _) = decide(None, &candidate("a", 1), 0, TTL);
        let leader = leader.unwrap();
        assert_eq!(leader.free(99), (100, None));
        assert_eq!(leader.free(100), (100, None));
        let wished = Leader { wanted: 2, wanted_until: 150, ..leader };
        assert_eq!(wished.free(99), (100, None));
        assert_eq!(wished.free(100), (150, Some(HESITATION)));
        assert_eq!(wished.free(150), (150, None));
    }
}
