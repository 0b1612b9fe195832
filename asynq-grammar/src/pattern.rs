//! Patterns of names with `*`: queues such as `tenant:*`, jobs such as `mail:*`.

use std::fmt;

use crate::TextError;

/// A name, or a pattern in which each `*` stands for any text, also for an empty one. No other character is special.
///
/// ```
/// use asynq_grammar::{Pattern, names::check_queue};
///
/// let tenants = Pattern::new("tenant:*", check_queue)?;
/// assert!(tenants.matches("tenant:7") && !tenants.matches("default"));
/// # Ok::<(), asynq_grammar::TextError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pattern(String);

impl Pattern {
    /// Parses a pattern of names that `check` accepts, such as [`check_queue`](crate::names::check_queue).
    ///
    /// # Errors
    ///
    /// The error of `check`, or two stars follow each other.
    pub fn new(text: &str, check: impl FnOnce(&str) -> Result<(), TextError>) -> Result<Self, TextError> {
        check(text)?;
        match text.find("**") {
            Some(at) => {
                let shown: String = text.chars().take(80).collect();
                let message = format!("{shown:?} cannot be used: one `*` stands for any text already");
                Err(TextError::new(message, at..at + 2))
            }
            None => Ok(Self(text.to_owned())),
        }
    }

    /// Returns the pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the pattern is a plain name.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        !self.0.contains('*')
    }

    /// Returns whether the pattern matches `name`.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        matches(&self.0, name)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns whether `pattern`, which the caller has checked, matches `name`.
#[must_use]
pub fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    // The first match of each part leaves the most text for the parts that follow.
    for part in parts {
        match name.split_once(part) {
            Some((_, behind)) => name = behind,
            None => return false,
        }
    }
    name.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::check_queue;

    #[test]
    fn a_star_stands_for_any_text() {
        let table: [(&str, &[&str], &[&str]); 7] = [
            ("mails", &["mails"], &["mail", "mails2", ""]),
            ("tenant:*", &["tenant:", "tenant:a", "tenant:a:b"], &["tenant", "my-tenant:a"]),
            ("*:low", &[":low", "a:low", "a:low:low"], &["low", "a:lower"]),
            ("*", &["a", "", "*"], &[]),
            ("a*b*c", &["abc", "a-b-c", "abbcc"], &["acb", "ab", "bc"]),
            ("a*a", &["aa", "aba"], &["a"]),
            ("q.[x]?*", &["q.[x]?1"], &["qx1", "q.x?1"]),
        ];
        for (text, fits, fits_not) in table {
            let pattern = Pattern::new(text, check_queue).unwrap();
            assert_eq!(pattern.is_exact(), !text.contains('*'));
            assert_eq!((pattern.as_str(), pattern.to_string().as_str()), (text, text));
            for name in fits {
                assert!(pattern.matches(name) && matches(text, name), "{text} should match {name:?}");
            }
            for name in fits_not {
                assert!(!pattern.matches(name), "{text} should not match {name:?}");
            }
        }
    }

    #[test]
    fn a_pattern_that_matches_no_valid_name_is_refused() {
        for (text, why, range) in [
            ("", "must not be empty", 0..0),
            (" ", "must not be", 0..1),
            ("tenant:{*}", "`{`", 7..8),
            ("a**b", "one `*` stands for any text", 1..3),
            (&"x".repeat(300), "200", 200..300),
        ] {
            let error = Pattern::new(text, check_queue).unwrap_err();
            assert!(error.to_string().contains(why), "{text}: {error}");
            assert_eq!(error.range(), range, "{text}");
        }
    }
}
