//! Checks the names that become parts of keys and messages: queues, jobs, groups and task ids.

use std::ops::Range;

use crate::TextError;

/// The longest queue name, in bytes.
const MAX_QUEUE_BYTES: usize = 200;
/// The longest job name (asynq: task type), in bytes.
const MAX_JOB_BYTES: usize = 512;
/// The longest group name, in bytes.
const MAX_GROUP_BYTES: usize = 512;
/// The longest task id, in bytes.
const MAX_TASK_ID_BYTES: usize = 512;

/// The words for the name in which braces are refused.
const QUEUE: &str = "queue name";

/// Checks the name of a queue: not blank, no `{` or `}`, no control characters, at most 200 bytes.
///
/// Braces are refused because asynq writes `asynq:{<queue>}:…`, and a Redis cluster hashes the text between them.
///
/// # Errors
///
/// A [`TextError`] with the offending bytes.
pub fn check_queue(name: &str) -> Result<(), TextError> {
    check(name, QUEUE, "critical", MAX_QUEUE_BYTES)
}

/// Checks the name of a job, which is the task type on the wire: not blank, no control characters, at most 512 bytes.
///
/// # Errors
///
/// A [`TextError`] with the offending bytes.
pub fn check_job(name: &str) -> Result<(), TextError> {
    check(name, "job name", "email:send", MAX_JOB_BYTES)
}

/// Checks the name of a group: not blank, no control characters, at most 512 bytes, and not ending in a colon and a
/// UUID, which is how asynq names a set of tasks that was taken out of a group.
///
/// # Errors
///
/// A [`TextError`] with the offending bytes.
pub fn check_group(name: &str) -> Result<(), TextError> {
    check(name, "group name", "digest", MAX_GROUP_BYTES)?;
    match name.rsplit_once(':') {
        Some((group, set)) if is_uuid(set) => {
            let message = "group name must not end in a colon and a UUID; put something behind it";
            Err(TextError::new(message, group.len()..name.len()))
        }
        _ => Ok(()),
    }
}

/// Whether `text` looks like `f81d4fae-7dec-11d0-a765-00a0c91e6bf6`.
fn is_uuid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    lengths == [8, 4, 4, 4, 12] && parts.iter().all(|part| part.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Checks the id of a task: not blank, no control characters, at most 512 bytes.
///
/// # Errors
///
/// A [`TextError`] with the offending bytes.
pub fn check_task_id(id: &str) -> Result<(), TextError> {
    check(id, "task id", "welcome-42", MAX_TASK_ID_BYTES)
}

fn check(text: &str, named: &str, example: &str, limit: usize) -> Result<(), TextError> {
    let wrong = |problem: String, range: Range<usize>| Err(TextError::new(format!("{named} {problem}"), range));
    if text.trim().is_empty() {
        return wrong(format!("must not be empty; write one such as \"{example}\""), 0..text.len());
    }
    for (at, c) in text.char_indices() {
        let range = at..at + c.len_utf8();
        if named == QUEUE && matches!(c, '{' | '}') {
            return wrong(format!("must not contain `{c}`; leave the braces out"), range);
        }
        if c.is_control() {
            let shown = c.escape_default();
            return wrong(format!("must not contain the control character `{shown}`; leave it out"), range);
        }
    }
    if text.len() > limit {
        // The limit may fall inside a character, and a range that cuts a character is not a valid index.
        let range = floor_char_boundary(text, limit)..text.len();
        return wrong(format!("is {} bytes long; write at most {limit}", text.len()), range);
    }
    Ok(())
}

/// Does the same as `str::floor_char_boundary`, which is newer than the Rust version that this crate supports.
fn floor_char_boundary(text: &str, index: usize) -> usize {
    (0..=index).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_pass() {
        for name in ["default", "critical", "send e-mail", "почта", "a", "a:b.c/d", " x "] {
            assert_eq!(check_queue(name), Ok(()), "{name:?}");
            assert_eq!(check_job(name), Ok(()), "{name:?}");
            assert_eq!(check_task_id(name), Ok(()), "{name:?}");
        }
    }

    #[test]
    fn braces_are_refused_in_queues_only() {
        let error = check_queue("a{b}").expect_err("a brace");
        assert_eq!(error.range(), 1..2);
        assert_eq!(error.to_string(), "queue name must not contain `{`; leave the braces out");
        assert_eq!(check_job("a{b}"), Ok(()));
        assert_eq!(check_task_id("a{b}"), Ok(()));
    }

    #[test]
    fn a_group_is_not_named_like_a_set_of_another() {
        let error = check_group("a:f81d4fae-7dec-11d0-a765-00a0c91e6bf6").expect_err("a set's name");
        assert_eq!(error.range(), 1..38);
        assert_eq!(error.to_string(), "group name must not end in a colon and a UUID; put something behind it");
        for good in ["f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "user:42", "a:f81d4fae", "a{b}"] {
            assert_eq!(check_group(good), Ok(()), "{good}");
        }
        let blank = check_group(" ").expect_err("blank").to_string();
        assert_eq!(blank, "group name must not be empty; write one such as \"digest\"");
    }

    #[test]
    fn blank_names_are_refused() {
        for blank in ["", " ", "\t\n", "\u{3000}"] {
            let error = check_queue(blank).expect_err("blank");
            assert_eq!(error.range(), 0..blank.len());
            assert!(error.to_string().contains("must not be empty"), "{error}");
        }
        let texts = [check_queue(""), check_job(""), check_task_id("")].map(|r| r.expect_err("blank").to_string());
        assert_eq!(
            texts,
            [
                "queue name must not be empty; write one such as \"critical\"",
                "job name must not be empty; write one such as \"email:send\"",
                "task id must not be empty; write one such as \"welcome-42\"",
            ]
        );
    }

    #[test]
    fn control_characters_are_refused_and_shown_escaped() {
        let error = check_task_id("a\nb").expect_err("a line break");
        assert_eq!(error.range(), 1..2);
        assert_eq!(error.to_string(), "task id must not contain the control character `\\n`; leave it out");
        assert_eq!(check_job("a\u{85}b").expect_err("NEL").range(), 1..3);
    }

    #[test]
    fn the_limit_counts_bytes_and_is_inclusive() {
        type Check = fn(&str) -> Result<(), TextError>;
        let checks: [(Check, usize); 4] = [
            (check_queue, MAX_QUEUE_BYTES),
            (check_job, MAX_JOB_BYTES),
            (check_group, MAX_GROUP_BYTES),
            (check_task_id, MAX_TASK_ID_BYTES),
        ];
        for (check, limit) in checks {
            assert_eq!(check(&"x".repeat(limit)), Ok(()));
            let error = check(&"x".repeat(limit + 1)).expect_err("too long");
            assert_eq!(error.range(), limit..limit + 1);
            let message = format!("is {} bytes long; write at most {limit}", limit + 1);
            assert!(error.to_string().ends_with(&message), "{error}");
        }
    }

    #[test]
    fn the_range_of_a_long_name_never_cuts_a_character() {
        let name = format!("x{}", "é".repeat(150));
        let error = check_queue(&name).expect_err("301 bytes");
        assert_eq!(error.range(), 199..301);
        assert!(name.get(error.range()).is_some());
        assert_eq!(error.to_string(), "queue name is 301 bytes long; write at most 200");
    }
}
