//! The journal itself, which the stories read while others write it.

use std::fs;

use asynq_tests::journal::History;

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
