//! How many archived tasks each queue keeps, and for how long.

use std::time::Duration;

use asynq_grammar::Pattern;

use crate::task::ArchiveLimit;

/// The limits of one archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ArchiveLimits {
    /// How many tasks are kept at most.
    pub(crate) size: usize,
    /// How long a task is kept at most.
    pub(crate) age: Duration,
}

impl ArchiveLimits {
    /// asynq's numbers: 10,000 tasks, 90 days.
    pub(crate) const DEFAULT: Self = Self { size: 10_000, age: Duration::from_secs(90 * 24 * 3600) };
}

/// The limits by queue or pattern.
#[derive(Debug, Clone, Default)]
pub(crate) struct Archives(Vec<(Pattern, ArchiveLimits)>);

impl Archives {
    /// Sets limits, which replace those that were set for the same name or pattern before.
    pub(crate) fn set(&mut self, pattern: Pattern, limits: ArchiveLimits) {
        match self.0.iter_mut().find(|(known, _)| *known == pattern) {
            Some(entry) => entry.1 = limits,
            None => self.0.push((pattern, limits)),
        }
    }

    /// Returns the sizes as beats show them: names before patterns, so that the first match of a queue holds.
    pub(crate) fn to_wire(&self) -> Vec<ArchiveLimit> {
        let (names, patterns): (Vec<_>, Vec<_>) = self.0.iter().partition(|(pattern, _)| pattern.is_exact());
        let limit = |(pattern, limits): &(Pattern, ArchiveLimits)| ArchiveLimit {
            queue: pattern.as_str().to_owned(),
            tasks: u64::try_from(limits.size).unwrap_or(u64::MAX),
        };
        names.into_iter().chain(patterns).map(limit).collect()
    }

    /// Returns whether any queue has limits of its own.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a queue keeps more, or for longer, than asynq would.
    pub(crate) fn exceed_gos(&self, queue: &str) -> bool {
        let (limits, gos) = (self.limits(queue), ArchiveLimits::DEFAULT);
        limits.size > gos.size || limits.age > gos.age
    }

    /// Returns the limits of a queue: by its name, or else by the first pattern that matches, or else asynq's.
    pub(crate) fn limits(&self, queue: &str) -> ArchiveLimits {
        let named = self.0.iter().find(|(pattern, _)| pattern.is_exact() && pattern.matches(queue));
        let found = named.or_else(|| self.0.iter().find(|(pattern, _)| pattern.matches(queue)));
        found.map_or(ArchiveLimits::DEFAULT, |(_, limits)| *limits)
    }
}

#[cfg(test)]
mod tests {
    use asynq_grammar::names::check_queue;

    use super::*;
    use crate::task::{QueueName, ServerInfo};

    #[test]
    fn a_name_counts_more_than_a_pattern_and_the_first_pattern_more_than_others() {
        let mut archives = Archives::default();
        let limits = |size| ArchiveLimits { size, ..ArchiveLimits::DEFAULT };
        for (pattern, size) in [("tenant:*", 1), ("*", 2), ("tenant:vip", 3), ("*", 4)] {
            archives.set(Pattern::new(pattern, check_queue).unwrap(), limits(size));
        }
        for (queue, size) in [("tenant:a", 1), ("tenant:vip", 3), ("mails", 4)] {
            assert_eq!(archives.limits(queue).size, size, "{queue}");
            // The shown limits mean the same to other programs.
            let info = ServerInfo { archives: archives.to_wire(), ..ServerInfo::default() };
            assert_eq!(info.archive_limit(&QueueName::from_wire(queue)), size as u64, "{queue}");
        }
        assert_eq!(
            ServerInfo::default().archive_limit(&QueueName::from_wire("mails")),
            ArchiveLimits::DEFAULT.size as u64
        );
        assert_eq!(Archives::default().limits("mails"), ArchiveLimits::DEFAULT);
    }
}
