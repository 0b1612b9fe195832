//! Buttons that change something: `actions.js` sends them.

use maud::{Markup, html};

/// A button that changes something.
#[derive(Debug, Clone, Default)]
pub(crate) struct Button<'a> {
    /// The text on the button.
    pub(crate) label: &'a str,
    /// The path to which the button posts.
    pub(crate) post: String,
    /// JSON to send; no body if empty.
    pub(crate) body: &'a str,
    /// The question that is asked first; none if empty.
    pub(crate) ask: String,
    /// A word that the user must type to answer; none if empty.
    pub(crate) word: &'a str,
    /// The path of the page that comes afterwards; the page stays if empty.
    pub(crate) then: String,
    /// The class: `go`, `danger` or none.
    pub(crate) class: &'a str,
}

impl Button<'_> {
    /// Renders the button. With an id of its own it never becomes another button while a user is about to press it; a button that
    /// pauses and the one that resumes the same thing are one, which keeps the focus.
    pub(crate) fn show(&self) -> Markup {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let id = self.post.strip_suffix("/pause").or_else(|| self.post.strip_suffix("/resume")).unwrap_or(&self.post);
        html! {
            button type="button" id={ "b-" (id) } class=[some(self.class)] data-post=(self.post) data-body=[some(self.body)] data-ask=[some(&self.ask)]
                data-type=[some(self.word)] data-then=[some(&self.then)] data-verb=[some(&self.ask).map(|_| self.label)] {
                (self.label)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_button_names_its_action_and_confirms_a_dangerous_one() {
        let plain = Button { label: "Pause", post: "/queues/q/pause".into(), ..Button::default() };
        assert_eq!(
            plain.show().into_string(),
            r#"<button type="button" id="b-/queues/q" data-post="/queues/q/pause">Pause</button>"#
        );
        let dangerous =
            Button { label: "Delete", ask: "Sure?".into(), word: "q", then: "/".into(), class: "danger", ..plain };
        let dangerous = dangerous.show().into_string();
        for part in [
            r#"class="danger""#,
            r#"data-ask="Sure?""#,
            r#"data-type="q""#,
            r#"data-then="/""#,
            r#"data-verb="Delete""#,
        ] {
            assert!(dangerous.contains(part), "{dangerous}");
        }
    }

    #[test]
    fn only_a_button_that_pauses_and_one_that_resumes_share_an_id() {
        let id = |verb: &str| {
            let button = Button { post: format!("/queues/q/{verb}"), ..Button::default() };
            button.show().into_string().split('"').nth(3).map(str::to_owned)
        };
        assert_eq!(id("pause"), id("resume"));
        assert_ne!(id("pause"), id("delete"));
        assert_ne!(id("archive"), id("run"));
    }
}
