//! Names with `*` in them, which stand for many: queues such as `tenant:*`, jobs such as `mail:*`.

use std::fmt;

/// A name, or a pattern in which each `*` stands for any text, also for none. Nothing else is special.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern(String);

impl Pattern {
    /// Reads a pattern of names that `check` accepts.
    ///
    /// # Errors
    ///
    /// What `check` says, or that stars follow each other.
    pub(crate) fn new<E: fmt::Display>(text: &str, check: impl FnOnce(&str) -> Result<(), E>) -> Result<Self, String> {
        check(text).map_err(|error| error.to_string())?;
        if text.contains("**") {
            return Err(format!("{text:?} cannot be used: one `*` stands for any text already"));
        }
        Ok(Self(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is a plain name.
    pub(crate) fn is_exact(&self) -> bool {
        !self.0.contains('*')
    }

    /// Whether `name` is meant.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let Some((start, rest)) = self.0.split_once('*') else { return self.0 == name };
        let Some(mut name) = name.strip_prefix(start) else { return false };
        let mut parts: Vec<&str> = rest.split('*').collect();
        let end = parts.pop().unwrap_or_default();
        // The first place of each part leaves the most room for those that follow.
        for part in parts {
            match name.split_once(part) {
                Some((_, behind)) => name = behind,
                None => return false,
            }
        }
        name.ends_with(end)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The one of `known` that somebody who wrote `name` may have meant: the nearest, if it is near at all.
pub(crate) fn meant<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let far = (name.chars().count() / 3).clamp(1, 3);
    let near = known.into_iter().map(|candidate| (distance(name, candidate), candidate));
    near.filter(|&(distance, _)| distance <= far).min_by_key(|&(distance, _)| distance).map(|(_, candidate)| candidate)
}

/// How many letters have to be added, taken away or replaced (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use asynq_grammar::names::check_queue;

    use super::*;

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
            for name in fits {
                assert!(pattern.matches(name), "{text} should match {name:?}");
            }
            for name in fits_not {
                assert!(!pattern.matches(name), "{text} should not match {name:?}");
            }
        }
    }

    #[test]
    fn what_no_name_could_be_is_no_pattern() {
        for (text, why) in [
            ("", "must not be empty"),
            (" ", "must not be"),
            ("tenant:{*}", "`{`"),
            ("a**b", "one `*` stands for any text"),
            (&"x".repeat(300), "200"),
        ] {
            let error = Pattern::new(text, check_queue).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_slip_of_the_keyboard_is_understood_and_a_guess_is_not() {
        let known = ["send_email", "resize", "mail:welcome"];
        for (name, expected) in [
            ("send_mail", Some("send_email")),
            ("sendemail", Some("send_email")),
            ("resise", Some("resize")),
            ("mail:welcom", Some("mail:welcome")),
            ("cleanup", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(meant(name, known), expected, "{name}");
        }
    }
}
