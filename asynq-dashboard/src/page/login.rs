//! `/login`: the form for the password; `actions.js` sends it.

use axum::extract::State;
use maud::{Markup, html};
use serde::Deserialize;

use super::{Page, Tab};
use crate::{failure::Failure, path::UrlQuery, state::AppState};

/// The query of the page.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Params {
    /// The path that was asked for before.
    next: String,
}

/// Answers `/login`.
pub(crate) async fn get(State(app): State<AppState>, UrlQuery(params): UrlQuery<Params>) -> Result<Page, Failure> {
    if !app.login.has_password() {
        return Err(Failure::not_found("no password is configured: there is nothing to log in to"));
    }
    let next = if is_ours(&params.next, &app.config.mount) { params.next } else { app.href(&[]) };
    Ok(Page::new("Log in", Tab::None, render(&app.href(&["login"]), &app.config.title, &next)).bare())
}

/// Returns whether `path` is below the mount, and not a path that a browser reads as another host.
fn is_ours(path: &str, mount: &str) -> bool {
    let below = path.strip_prefix(mount).unwrap_or_default();
    below.starts_with('/') && !path.starts_with("//") && !path.contains(['\\', '\t', '\n', '\r'])
}

fn render(post: &str, title: &str, next: &str) -> Markup {
    html! {
        // A browser that has not run the script sends the password in the body and is refused; a GET has it in the URL.
        form.login.panel.stack method="post" action=(post) data-post=(post) data-then=(next) {
            h1 { (title) }
            // For password managers, which keep a name with each password.
            input type="text" autocomplete="username" value=(title) hidden;
            label { "Password" input type="password" name="password" required autofocus autocomplete="current-password"; }
            button.go { "Log in" }
            noscript { p.notice { "The login needs JavaScript." } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_leads_back_but_never_to_another_host() {
        for (path, mount, expected) in [
            ("/queues/a?state=retry", "", true),
            ("/jobs/queues", "/jobs", true),
            ("/other", "/jobs", false),
            ("//evil.example", "", false),
            ("/\\evil.example", "", false),
            ("/\t/evil.example", "", false),
            ("https://evil.example/", "", false),
            ("javascript:alert(1)", "", false),
            ("", "", false),
        ] {
            assert_eq!(is_ours(path, mount), expected, "{path}");
        }
        assert!(render("/login", "<i>", "/").into_string().contains("&lt;i&gt;"));
    }

    #[test]
    fn the_password_is_in_no_url_before_the_script_has_run() {
        let form = render("/jobs/login", "Jobs", "/jobs/").into_string();
        assert!(form.contains(r#" method="post" action="/jobs/login""#), "{form}");
    }
}
