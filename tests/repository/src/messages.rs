//! How long the compiler's messages for wrong jobs are: one error of a few lines for each mistake.

use crate::tree::{files, none, read};

/// As many lines as somebody reads.
const MOST_LINES: usize = 15;

/// Messages with more errors or lines, and how many of both: mistakes in calls and names, which the compiler finds by itself and tells
/// in its own words.
const LONGER: [(&str, usize, usize); 13] = [
    ("aggregates_something_that_is_no_job", 1, 23),
    ("backoff_by_another_function", 1, 16),
    ("call_of_only_without_a_tuple", 1, 18),
    ("call_of_something_that_is_no_job", 3, 45),
    ("call_with_a_delay_that_is_a_number", 3, 44),
    ("call_with_another_type", 1, 16),
    ("call_without_an_argument", 1, 18),
    ("crate_that_does_not_exist", 2, 14),
    ("future_not_send", 1, 22),
    ("module_of_the_same_name", 4, 26),
    ("on_archive_for_another_argument", 1, 16),
    ("on_error_for_another_error", 1, 16),
    ("state_without_a_type", 2, 20),
];

#[test]
fn one_mistake_is_one_error_of_a_few_lines() {
    let mut broken = Vec::new();
    let goldens: Vec<_> = files("tests/ui/fail").into_iter().filter(|path| path.ends_with(".stderr")).collect();
    assert!(goldens.len() > 25, "the cases are gone");
    for path in &goldens {
        let text = read(path);
        let errors = text.lines().filter(|line| line.starts_with("error")).count();
        let lines = text.lines().filter(|line| !line.is_empty()).count();
        let name = path.rsplit('/').next().unwrap().trim_end_matches(".stderr");
        let (most_errors, most_lines) = LONGER
            .iter()
            .find(|(known, ..)| *known == name)
            .map_or((1, MOST_LINES), |&(_, errors, lines)| (errors, lines));
        if errors > most_errors || lines > most_lines {
            broken.push(format!("{path}: {errors} errors in {lines} lines"));
        }
    }
    none(broken, "one mistake is told once, in a few lines");
}
