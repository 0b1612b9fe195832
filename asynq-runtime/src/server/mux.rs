//! The rule of Go's mux, for everything that has patterns: task types and groups.

/// Returns the value of the longest pattern that `name` starts with. A pattern that equals `name` is the longest possible one.
/// There is no rule about separators.
pub(super) fn find<'p, T>(patterns: impl IntoIterator<Item = (&'p String, T)>, name: &str) -> Option<T> {
    let fitting = patterns.into_iter().filter(|(pattern, _)| name.starts_with(pattern.as_str()));
    fitting.max_by_key(|(pattern, _)| pattern.len()).map(|(_, found)| found)
}
