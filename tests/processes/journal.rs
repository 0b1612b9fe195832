//! The journal itself, which these stories read while other processes write it.

use std::fs;

use asynq_tests::journal::{Event, History, Line};
use chrono::DateTime;

#[test]
fn a_line_counts_when_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let line = "Start a 7 0 1 86400000000000 2026-11-22T03:00:00+00:00\n";
    for (text, lines) in [("", 0), (&line[..20], 0), (line, 1), (&format!("{line}{}", line.trim_end()), 1)] {
        fs::write(&path, text).unwrap();
        assert_eq!(History::read(&path).lines.len(), lines, "{text:?}");
    }
}

#[test]
fn a_run_is_taken_before_it_begins_in_spite_of_its_clock() {
    let at_second = |second: i64| DateTime::from_timestamp(second, 0).unwrap();
    // After a step back of the clock, the fence is in the clock's future.
    for (at, clock, fence, taken_at) in [(10, 10, 5, 5), (10, 50, 45, 5), (10, 10, 45, 10)] {
        let fence = fence * 1_000_000_000;
        let (at, clock) = (at_second(at), at_second(clock));
        let line = Line { event: Event::Start, id: "a".into(), fence, retried: 0, pid: 1, at, clock };
        assert_eq!(line.taken_at(), at_second(taken_at));
    }
}
