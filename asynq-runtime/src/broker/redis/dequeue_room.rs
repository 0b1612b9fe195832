//! Limits the bytes that a dequeue asks for to those that the connection carries within the time-out. Decides how many
//! tasks its scripts take, and which messages they read.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use super::{
    super::BrokerError,
    connection::WRITE,
    script::{LONGEST_IN_SCRIPT, PER_SCRIPT},
};

/// Fewest bytes to ask for. A script always gives one task, however large.
const LEAST: usize = 1 << 10;
/// Fewest tasks to let a script take, so that it soon gets past the quarantined ones, which it leaves in the queue.
const FEWEST: usize = 8;
/// Most bytes to ask one script for, where the messages are long: they are read beside it.
const MOST: usize = WRITE;
/// Most bytes to ask a script for that reads them itself, while Redis does nothing else.
const MOST_IN_SCRIPT: usize = PER_SCRIPT.1;

/// The bytes that the next call may ask for: all that the connection carries in time, which its scripts share. While the
/// connection carries more, a call asks for [`MOST`], or for [`MOST_IN_SCRIPT`] by each of its scripts where these are more.
#[derive(Debug)]
pub(super) struct DequeueRoom {
    bytes: AtomicUsize,
    /// The average length of the messages of the last call, at least 1.
    average: AtomicUsize,
    /// An answer that takes longer is too large.
    in_time: Duration,
}

impl DequeueRoom {
    /// Begins with [`MOST`] bytes.
    pub(super) fn new(in_time: Duration) -> Self {
        Self { bytes: AtomicUsize::new(MOST), average: AtomicUsize::new(1), in_time }
    }

    /// Returns the bytes to ask each of so many scripts for.
    pub(super) fn of_each(&self, scripts: usize) -> usize {
        let (bytes, most, scripts) = (self.bytes.load(Ordering::Relaxed), self.most(), scripts.max(1));
        if bytes >= most { (most / scripts).max(MOST_IN_SCRIPT) } else { (bytes / scripts).max(1) }
    }

    /// Returns the most bytes to ask one script for.
    fn most(&self) -> usize {
        if self.longest().is_some() { MOST } else { MOST_IN_SCRIPT }
    }

    /// Notes that a call failed. Halves the room that the call had if Redis was unavailable, because the answer may have been too large.
    pub(super) fn unanswered(&self, error: &BrokerError) {
        if error.is_unavailable() {
            self.change(|bytes| bytes.min(self.most()) / 2);
        }
    }

    /// Notes how long a call took, and whether one of its scripts gave as many bytes as it might. The sum of all
    /// scripts says nothing, because one whose queue is empty leaves its share unused.
    pub(super) fn answered(&self, is_used_up: bool, took: Duration) {
        if took > self.in_time {
            self.change(|room| room.min(self.most()) / 2);
        } else if is_used_up && took < self.in_time / 2 {
            self.change(|room| room.saturating_mul(2));
        }
    }

    /// Returns how many of the `wanted` tasks a script is to take for so many bytes, if their messages are as long as
    /// those of the last call; at least [`FEWEST`]. The script requeues tasks that it takes beyond its room.
    pub(super) fn tasks(&self, wanted: usize, bytes: usize) -> usize {
        wanted.min(bytes.div_ceil(self.average.load(Ordering::Relaxed)).max(FEWEST))
    }

    /// Returns the longest message that the next scripts are to read themselves; `None` for any. Only while messages
    /// are long is it worth checking the length of each.
    pub(super) fn longest(&self) -> Option<usize> {
        (self.average.load(Ordering::Relaxed) > LONGEST_IN_SCRIPT).then_some(LONGEST_IN_SCRIPT)
    }

    /// Notes how many tasks a call gave, and the bytes of all their messages.
    pub(super) fn took(&self, tasks: usize, bytes: usize) {
        if let Some(each) = bytes.checked_div(tasks) {
            self.average.store(each.max(1), Ordering::Relaxed);
        }
    }

    fn change(&self, to: impl Fn(usize) -> usize) {
        let change = |bytes| Some(to(bytes).clamp(LEAST, MOST));
        // `fetch_update` never fails, because `change` always returns a value.
        let _ = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::BrokerErrorKind;

    #[test]
    fn the_room_shrinks_with_answers_that_are_late_or_lost_and_grows_with_those_that_fill_it() {
        let (second, soon) = (Duration::from_secs(1), Duration::from_millis(10));
        let room = DequeueRoom::new(second);
        assert_eq!(room.of_each(1), MOST_IN_SCRIPT, "messages that a script reads itself");
        room.took(1, LONGEST_IN_SCRIPT + 1);
        assert_eq!([1, 2, 20].map(|scripts| room.of_each(scripts)), [MOST, MOST / 2, MOST_IN_SCRIPT]);
        let lost = BrokerError::new(BrokerErrorKind::Timeout, "lost");
        room.unanswered(&BrokerError::new(BrokerErrorKind::Denied, "no matter of size"));
        assert_eq!(room.of_each(1), MOST);
        room.unanswered(&lost);
        assert_eq!((room.of_each(1), room.of_each(4)), (MOST / 2, MOST / 8), "shared by all");
        room.answered(true, 2 * second);
        assert_eq!(room.of_each(1), MOST / 4);
        room.answered(true, second);
        assert_eq!(room.of_each(1), MOST / 4, "just in time");
        room.answered(false, soon);
        assert_eq!(room.of_each(1), MOST / 4, "a small answer is no evidence for a large one");
        room.answered(true, soon);
        assert_eq!(room.of_each(1), MOST / 2);
        room.answered(true, soon);
        room.answered(true, soon);
        assert_eq!(room.of_each(1), MOST);
        let short = DequeueRoom::new(second);
        short.unanswered(&lost);
        assert_eq!(short.of_each(1), MOST_IN_SCRIPT / 2, "half of what the call had");
        (0..30).for_each(|_| room.unanswered(&lost));
        assert_eq!((room.of_each(1), room.of_each(5000)), (LEAST, 1));
    }

    #[test]
    fn a_script_takes_as_many_tasks_as_fill_its_room() {
        let room = DequeueRoom::new(Duration::from_secs(1));
        assert_eq!(room.tasks(64, MOST), 64, "the length of the messages is not known yet");
        for (average, bytes, expected) in
            [(100, MOST, 64), (100_000, MOST, 42), (MOST, MOST, 8), (9 * MOST, MOST, 8), (100, 1000, 10), (0, MOST, 64)]
        {
            room.took(3, 3 * average);
            assert_eq!(room.tasks(64, bytes), expected, "{average} bytes each, {bytes} in all");
            assert_eq!(room.tasks(1, bytes), 1);
        }
    }

    #[test]
    fn long_messages_are_read_beside_the_script_while_they_come() {
        let room = DequeueRoom::new(Duration::from_secs(1));
        assert_eq!(room.longest(), None);
        let cases = [(2, 3 * LONGEST_IN_SCRIPT, true), (0, 0, true), (2, LONGEST_IN_SCRIPT, false), (0, 0, false)];
        for (tasks, bytes, expected) in cases {
            room.took(tasks, bytes);
            assert_eq!(room.longest().is_some(), expected, "{tasks} tasks of {bytes} bytes");
        }
    }
}
