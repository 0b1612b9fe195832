//! Facts about one subject, a line per fact.

use super::clean;

/// Labels with their values, aligned. Values are cleaned, line by line.
#[derive(Debug, Default)]
pub(crate) struct Facts(Vec<(String, String)>);

impl Facts {
    /// Adds a fact.
    pub(crate) fn add(&mut self, label: impl Into<String>, value: impl Into<String>) {
        self.0.push((label.into(), value.into()));
    }

    /// Adds a fact if there is a value.
    pub(crate) fn add_if(&mut self, label: &str, value: Option<impl Into<String>>) {
        if let Some(value) = value {
            self.add(label, value);
        }
    }

    /// Returns the facts as text.
    pub(crate) fn into_text(self) -> String {
        let width = self.0.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        for (label, value) in &self.0 {
            let mut label = clean(label);
            for line in value.split('\n') {
                text.push_str(format!("{label:<width$}  {}", clean(line)).trim_end());
                text.push('\n');
                label.clear();
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_below_each_other() {
        let mut facts = Facts::default();
        facts.add("Queue", "default");
        facts.add_if("Nothing", None::<String>);
        facts.add("Last error", "boom\n  at \u{1b}[1mline 2");
        assert_eq!(
            facts.into_text(),
            "Queue       default\n\
             Last error  boom\n              at \u{fffd}[1mline 2\n"
        );
    }
}
