//! `/login`: the form for the password.

use maud::{Markup, html};

use super::{Page, Tab};
use crate::{path::href, state::AppState};

/// The form; `said` is what was wrong with the last try.
pub(crate) fn page(app: &AppState, said: Option<&str>) -> Page {
    Page::new("Log in", Tab::None, render(&app.config().mount, &app.config().title, said)).bare()
}

fn render(mount: &str, title: &str, said: Option<&str>) -> Markup {
    html! {
        form.login.panel.stack method="post" action=(href(mount, &["login"])) {
            h1 { (title) }
            @if let Some(said) = said { p.notice.bad role="alert" { (said) } }
            label { "Password" input type="password" name="password" required autofocus autocomplete="current-password"; }
            button.go { "Log in" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_wrong_is_said_and_escaped() {
        let html = render("/m", "asynq", Some("<no>")).into_string();
        assert!(html.contains(r#"action="/m/login""#) && html.contains("&lt;no&gt;") && html.contains(r#"role="alert""#));
        assert!(!render("", "asynq", None).into_string().contains("alert"));
    }
}
