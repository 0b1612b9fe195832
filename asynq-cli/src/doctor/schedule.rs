//! Checks of periodic entries: whether their ticks are fired, and whether they are paused.

use asynq_cron::{CronSpec, Schedule};
use asynq_grammar::shell;
use chrono::{DateTime, TimeDelta, Utc};

use super::{Evidence, Finding, Severity};
use crate::entries::Entry;

/// A tick that is not fired after this time is late: another scheduler takes over from a dead leader within the lease.
const LATE: TimeDelta = TimeDelta::minutes(2);
/// A last tick this far in the future is not a difference between two clocks: the broker's clock was set back.
const AHEAD: TimeDelta = TimeDelta::seconds(5);
/// More ticks than this are not counted.
const MOST: usize = 1_000;

pub(super) fn check(evidence: &Evidence) -> Vec<Finding> {
    evidence.entries.iter().filter_map(|entry| paused(entry).or_else(|| late(entry, evidence.now))).collect()
}

/// Returns a finding for an entry that is paused: its ticks count as decided, so that no metric shows that they enqueue nothing.
fn paused(entry: &Entry) -> Option<Finding> {
    entry.paused.then(|| Finding {
        severity: Severity::Warning,
        check: "paused",
        subject: entry.listed.task_type.clone(),
        found: format!("the entry is paused, by `{}`", entry.listed.spec),
        means: "its ticks enqueue nothing until it is resumed, through restarts",
        // The id may be listed in another queue, too, where it need not be paused.
        repair: format!(
            "where the pause is not meant: asynq cron resume --queue={} -- {}",
            shell::quote(Schedule::queue_of(&entry.listed).as_str()),
            shell::quote(&entry.listed.id)
        ),
    })
}

/// Returns a finding for an entry that is listed and has times that passed without a tick, or a last tick in the
/// future, until which no time of it is fired.
fn late(entry: &Entry, now: DateTime<Utc>) -> Option<Finding> {
    let last = entry.last?;
    let listed = &entry.listed;
    if last - now > AHEAD {
        return Some(Finding {
            severity: Severity::Error,
            check: "late-schedule",
            subject: listed.task_type.clone(),
            found: format!("its last tick is {} s ahead of the broker's clock", (last - now).num_seconds()),
            means: "the broker's clock was set back, and the entry is not fired before that clock has come to the tick again",
            repair: "restart the scheduler that lists the entry: it corrects the last tick as it starts".to_owned(),
        });
    }
    // A leader lists the next tick that it will fire: it has left out those before, as `missed` says, and a leader that cannot fire
    // a tick goes on listing it, with `skip` from the second one in a row on.
    if entry.next().is_some_and(|next| next > now - LATE) {
        return None;
    }
    let spec = Schedule::spec_of(listed).ok()?;
    let ticks = match passed(&spec, last, now) {
        0 => return None,
        1 => "1 of its times has".to_owned(),
        MOST => format!("{MOST} of its times or more have"),
        n => format!("{n} of its times have"),
    };
    Some(Finding {
        severity: Severity::Error,
        check: "late-schedule",
        subject: listed.task_type.clone(),
        found: format!("{ticks} passed without a tick since {}, by `{}`", last.format("%F %T UTC"), listed.spec),
        means: "a scheduler lists the entry and does not fire it",
        repair: "read the log of the leader: it says why a tick cannot be sent; restart it if it says nothing"
            .to_owned(),
    })
}

/// Returns how many times of a schedule have passed since `last`, without those of the last minutes.
fn passed(spec: &CronSpec, last: DateTime<Utc>, now: DateTime<Utc>) -> usize {
    let times = std::iter::successors(spec.next_after(last), |&at| spec.next_after(at));
    times.take_while(|&at| at < now - LATE).take(MOST).count()
}
