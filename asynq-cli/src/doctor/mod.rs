//! `asynq doctor`: examines a system, and reports its faults with their effects and repairs.

mod broker;
mod clocks;
mod cluster;
mod evidence;
mod finding;
mod queues;
mod schedule;
mod servers;
#[cfg(test)]
mod tests;
mod unanswered;

pub(crate) use self::{
    evidence::{Evidence, gather},
    finding::{Finding, Severity},
};

/// Returns all findings, the worst first.
pub(crate) fn diagnose(evidence: &Evidence) -> Vec<Finding> {
    let mut findings = evidence.unread.clone();
    findings.extend(broker::check(evidence));
    findings.extend(cluster::check(evidence));
    findings.extend(queues::check(evidence));
    findings.extend(schedule::check(evidence));
    findings.extend(servers::check(evidence));
    findings.sort_by_key(|finding| finding.severity);
    findings
}
