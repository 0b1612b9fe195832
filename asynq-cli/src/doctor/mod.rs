//! `asynq doctor`: looks a system over and says what is wrong, what that means, and how to repair it.

mod broker;
mod evidence;
mod finding;
mod queues;
mod schedule;
mod servers;
#[cfg(test)]
mod tests;

pub(crate) use self::{
    evidence::{Evidence, gather},
    finding::{Finding, Severity},
};

/// Everything that is wrong, the worst first.
pub(crate) fn diagnose(evidence: &Evidence) -> Vec<Finding> {
    let mut findings = broker::check(evidence);
    findings.extend(queues::check(evidence));
    findings.extend(schedule::check(evidence));
    findings.extend(servers::check(evidence));
    findings.sort_by_key(|finding| finding.severity);
    findings
}
