//! Patterns by the rule of Go's mux: of task types, and of groups.

use std::{collections::BTreeMap, fmt};

use super::error::ServerError;

/// Values by patterns, each of which stands for the names that begin with it. There is no rule about separators.
pub(crate) struct Patterns<T>(BTreeMap<String, T>);

impl<T> Patterns<T> {
    /// Adds a pattern that was given as `option`.
    ///
    /// # Errors
    ///
    /// The pattern is there already, or ends in a `*`.
    pub(super) fn add(&mut self, option: &'static str, pattern: String, value: T) -> Result<(), ServerError> {
        let reason = match pattern.strip_suffix('*') {
            Some("") => "a pattern is a name or its start, without `*`: write what the names begin with".to_owned(),
            Some(start) => format!("a pattern is a name or its start: write `{start}` in place of `{pattern}`"),
            None if self.0.contains_key(&pattern) => format!("the pattern `{pattern}` is there twice"),
            None => {
                self.0.insert(pattern, value);
                return Ok(());
            }
        };
        Err(ServerError::option(option, reason))
    }

    /// Returns the longest pattern that `name` begins with, and its value. A pattern that equals `name` is the longest possible one.
    pub(super) fn find(&self, name: &str) -> Option<(&str, &T)> {
        let fitting = self.0.iter().filter(|(pattern, _)| name.starts_with(pattern.as_str()));
        fitting.max_by_key(|(pattern, _)| pattern.len()).map(|(pattern, value)| (pattern.as_str(), value))
    }

    pub(super) fn patterns(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keeps only the patterns that `keeps` accepts.
    pub(super) fn retain(&mut self, keeps: impl Fn(&str) -> bool) {
        self.0.retain(|pattern, _| keeps(pattern));
    }
}

impl<T> Default for Patterns<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> fmt::Debug for Patterns<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
