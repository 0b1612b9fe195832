//! The flags that a service adds to the command line, and their values.

use std::collections::BTreeMap;

/// A flag on the command line of a program of `main!`, brought by a service ([`ServiceEntry::flags`](super::ServiceEntry)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    /// The placeholder of the value in the help; `None` for a flag without one.
    pub(crate) value_name: Option<&'static str>,
    pub(crate) is_repeated: bool,
    pub(crate) is_hidden: bool,
}

impl Flag {
    /// Returns the flag `--name`, which is given or not.
    pub fn switch(name: &'static str, help: &'static str) -> Self {
        Self { name, help, value_name: None, is_repeated: false, is_hidden: false }
    }

    /// Returns the flag `--name VALUE`; `value_name` stands for the value in the help.
    pub fn value(name: &'static str, value_name: &'static str, help: &'static str) -> Self {
        Self { value_name: Some(value_name), ..Self::switch(name, help) }
    }

    /// Allows the flag several times, each with a value; default once.
    pub fn repeated(mut self) -> Self {
        self.is_repeated = true;
        self
    }

    /// Sets whether the help leaves the flag out; default no.
    pub fn hidden(mut self, is_hidden: bool) -> Self {
        self.is_hidden = is_hidden;
        self
    }
}

/// The values that were given for the flags of services; empty where the program has no command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags(BTreeMap<String, Vec<String>>);

impl Flags {
    /// Adds a flag as if it were given; a switch has no `value`.
    pub fn set(mut self, name: impl Into<String>, value: Option<String>) -> Self {
        self.0.entry(name.into()).or_default().extend(value);
        self
    }

    /// Returns whether the flag was given.
    pub fn is_set(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns the value that was given first.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values(name).next()
    }

    /// Returns every value that was given, in order.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.get(name).into_iter().flatten().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_found_by_its_name() {
        let flags = Flags::default().set("quiet", None).set("host", Some("a".into())).set("host", Some("b".into()));
        assert!(flags.is_set("quiet") && flags.is_set("host") && !flags.is_set("loud"));
        assert_eq!((flags.value("host"), flags.value("quiet"), flags.value("loud")), (Some("a"), None, None));
        assert_eq!(flags.values("host").collect::<Vec<_>>(), ["a", "b"]);
    }
}
