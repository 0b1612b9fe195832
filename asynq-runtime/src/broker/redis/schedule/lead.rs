//! Elects the scheduler that plans the ticks of a program: one key with a time to live names the leader, and in another
//! a newer version asks for the lead.
//!
//! Each key is changed by a command of its own, because the two lie on different nodes of a Cluster. Nothing depends on
//! changing both together.

use std::time::{Duration, Instant};

use crate::broker::{
    BrokerError, Candidate, Lead,
    redis::{
        RedisBroker,
        keys::{leader, leader_want},
        reply,
        script::{Call, DROP_SEEN, LEAD},
        seen::{Kind, Question, Topic},
        span::milliseconds,
        waits::{end, left},
    },
};

impl RedisBroker {
    pub(super) async fn take_or_keep_lead(&self, candidate: &Candidate, ttl: Duration) -> Result<Lead, BrokerError> {
        let ttl = milliseconds(ttl).max(1);
        let (program, want) = (&candidate.program, leader_want(&candidate.program));
        let lead = LEAD.on(&[leader(program)]).arg(value(candidate)).arg(ttl);
        let [lead, wanted] = self.router.send_together([lead, Call::plain("GET").arg(&want)]).await?;
        let mut parts = reply::array(lead?)?.into_iter();
        let holder = parts.next().and_then(reply::text).ok_or_else(|| reply::unexpected("no leader"))?;
        let left = parts.next().and_then(|left| reply::number(&left)).unwrap_or_default();
        // Without an answer no newer version asks: a leader that cannot read the request leads on, and leaves it to the others.
        let wanted = wanted.ok().and_then(reply::text);
        let by = wanted.as_deref().and_then(|revision| revision.parse::<u64>().ok());

        if holder.is_empty() {
            let mut newer = by.is_some_and(|by| by > candidate.revision);
            if newer {
                // Each request has an end. One without was copied from another Redis, and its program is not here.
                let left = self.router.send_one(Call::plain("PTTL").arg(&want)).await;
                let left = left.ok().and_then(|left| reply::number(&left));
                newer = left != Some(-1);
            }
            if let Some(wanted) = wanted.filter(|_| by.is_some() && !newer) {
                // The request is fulfilled. If deleting it fails, an older program that leads next only resigns once.
                let _ = self.router.send_one(DROP_SEEN.on(&[want]).arg(wanted)).await;
            }
            return Ok(Lead::Ours { wanted: newer });
        }
        if revision_of(&holder) < candidate.revision && by.is_none_or(|by| by <= candidate.revision) {
            let request = Call::plain("SET").arg(want).arg(candidate.revision).arg("PX").arg(ttl);
            // If the wish for the lead cannot be stored, the candidate asks again once the lease can have ended.
            let _ = self.router.send_one(request).await;
        }
        Ok(Lead::Another(Duration::from_millis(u64::try_from(left).unwrap_or_default())))
    }

    /// Waits until the lead may be free, and after its end for [`lateness`], so that not all waiting schedulers ask at once.
    pub(super) async fn wait_for_free_lead(&self, program: &str, limit: Duration) -> Result<(), BrokerError> {
        let (end, late) = (end(limit), lateness());
        let lead = Question::new(Kind::TimeToLive, leader(program));
        let mut reads = self.reads(Topic::Names);
        loop {
            reads.forget([&lead]);
            if let Some(error) = reads.ask([&lead]).await?.failure {
                return Err(error);
            }
            let lasts = match reads.answer(&lead) {
                // -2: there is no leader. -1: the key has no end, so that its leader is not here.
                Some(Some(ms)) => match u64::try_from(ms) {
                    Ok(ms) => Duration::from_millis(ms).saturating_add(late),
                    Err(_) => return Ok(()),
                },
                Some(None) => return Err(reply::unexpected("no time to live")),
                // The lead has changed since it was read.
                None => continue,
            };
            // A renewal of the lead is announced, too: then the wait looks again.
            let until = Instant::now().checked_add(lasts.min(left(end))).unwrap_or(end);
            while reads.answer(&lead).is_some() {
                if !reads.changed(left(until)).await? {
                    return Ok(());
                }
            }
        }
    }
}

/// Returns the value of the key while the candidate leads.
pub(super) fn value(candidate: &Candidate) -> String {
    format!("{}|{}", candidate.token, candidate.revision)
}

/// Reads the revision of the leader. A value in a format that is not ours counts as the newest revision, so that no
/// scheduler asks that leader to resign.
fn revision_of(holder: &str) -> u64 {
    holder.rsplit_once('|').and_then(|(_, revision)| revision.parse().ok()).unwrap_or(u64::MAX)
}

/// Returns how long after the end of a lead to ask for it: 50 to 250 ms, drawn anew each time.
fn lateness() -> Duration {
    Duration::from_millis(fastrand::u64(50..=250))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_revision_of_a_holder_is_read_back() {
        let candidate = Candidate { program: "p".into(), token: "host|7|x".into(), revision: 1_800_000_000 };
        assert_eq!(revision_of(&value(&candidate)), candidate.revision);
        assert_eq!(revision_of(&value(&Candidate { revision: 0, ..candidate })), 0);
        for foreign in ["", "x", "x|", "x|y"] {
            assert_eq!(revision_of(foreign), u64::MAX, "{foreign}");
        }
    }

    #[test]
    fn a_candidate_asks_only_after_the_lead_has_ended_and_soon() {
        for _ in 0..1000 {
            assert!((50..=250).contains(&lateness().as_millis()));
        }
    }
}
