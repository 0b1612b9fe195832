//! The one way to leave a test out: a line on the terminal, a column in the table of `scripts/lanes`, and a failure in CI
//! unless `tests/skips.txt` lists the reason.

use std::io::Write as _;

/// The reasons that CI accepts: one per line, `#` begins a comment.
const ACCEPTED: &str = include_str!("../../skips.txt");

/// Ends the test that calls it, with a reason in the words of `format!`. The test must return `()`.
///
/// ```no_run
/// fn as_root_nothing_is_denied() {
///     let is_root = true;
///     if is_root {
///         asynq_test_support::skip!("root may write everywhere");
///     }
/// }
/// ```
#[macro_export]
macro_rules! skip {
    ($($reason:tt)+) => {{
        $crate::note_skip(&::std::format!($($reason)+));
        return;
    }};
}

/// Prints that the current test is skipped for `reason`; [`skip!`] calls it.
///
/// Panics where the variable `CI` is set and `tests/skips.txt` does not list the reason.
pub fn note_skip(reason: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    // `eprintln!` would be swallowed by the test harness. The write is one call, so that lines do not mix.
    let _ = std::io::stderr().write_all(format!("\nskip: {test}: {reason}\n").as_bytes());
    assert!(
        std::env::var_os("CI").is_none() || is_accepted(reason),
        "CI is set and tests/skips.txt does not list the reason of this skip: {reason}"
    );
}

fn is_accepted(reason: &str) -> bool {
    ACCEPTED.lines().map(str::trim).any(|line| !line.is_empty() && !line.starts_with('#') && reason == line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_listed_reason_is_accepted() {
        let listed =
            ACCEPTED.lines().find(|line| !line.is_empty() && !line.starts_with('#')).expect("a reason is listed");
        assert!(is_accepted(listed));
        assert!(!is_accepted("") && !is_accepted("# a comment") && !is_accepted("there is no time"));
    }
}
