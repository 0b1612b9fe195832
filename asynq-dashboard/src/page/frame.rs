//! The document around a page: navigation, the list of keys, and the places where scripts speak.

use maud::{DOCTYPE, Markup, html};

use super::{Page, Tab};
use crate::{asset, path::with_query, state::AppState};

/// The keys that `keys.js` knows.
const KEYS: [(&str, &str); 11] = [
    ("g q", "Queues; g s search, g v servers, g p periodic, g b broker"),
    ("/", "To the search field; Esc leaves it"),
    ("j k", "Down and up in a table"),
    ("Enter", "Open the row"),
    ("x", "Pick the row; with the mouse, Shift picks a range"),
    ("a", "Pick the whole page"),
    ("1 – 7", "The tabs of a queue"),
    ("[ ]", "Previous and next page"),
    ("d", "Dark or light"),
    ("Esc", "Close what is open"),
    ("?", "This list"),
];

/// Renders the whole document around a page.
pub(crate) fn layout(app: &AppState, page: &Page) -> Markup {
    let asset = |name: &str| asset::href(app, name);
    let bare = page.kind.bare;
    html! {
        (DOCTYPE)
        html lang="en" data-events=[(!bare).then(|| with_query(&app.href(&["events"]), &[("brief", "1")]))] {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                title { (page.title) " · " (app.config.title) }
                link rel="icon" href=(asset("icon.svg")) type="image/svg+xml";
                link rel="stylesheet" href=(asset("style.css"));
                script src=(asset("js/theme.js")) {}
                @if page.kind.charts {
                    link rel="stylesheet" href=(asset("uplot/uplot.css"));
                    script src=(asset("uplot/uplot.js")) defer {}
                }
                script src=(asset("js/app.js")) type="module" {}
            }
            body {
                a.skip href="#main" { "To the content" }
                @if !bare { (top(app, page.active)) }
                div #down role="status" aria-live="polite" {}
                main #main tabindex="-1" data-live=[page.kind.still.then_some("off")] data-failed[page.kind.failed] data-again[page.kind.waits] { (page.body) }
                footer {
                    @if !bare {
                        "Times are shown from now; hold the pointer over one for the exact time. Press " kbd { "?" } " for the keys."
                        noscript { " Charts, live numbers and changes need JavaScript; every page can be read without it." }
                    }
                }
                (dialogs())
                div #said role="status" aria-live="polite" {}
            }
        }
    }
}

fn top(app: &AppState, active: Tab) -> Markup {
    let tabs = [
        (Tab::Queues, "queues", "Queues", vec![]),
        (Tab::Search, "search", "Search", vec!["search"]),
        (Tab::Periodic, "periodic", "Periodic", vec!["periodic"]),
        (Tab::Servers, "servers", "Servers", vec!["servers"]),
        (Tab::Broker, "broker", "Broker", vec!["broker"]),
    ];
    let location = app.client.broker().location();
    html! {
        header.top {
            a.brand href=(app.href(&[])) {
                svg viewBox="0 0 18 18" aria-hidden="true" { path d="M1 2h10l6 7-6 7H1l6-7z" {} }
                (app.config.title)
            }
            nav aria-label="Main" {
                ul {
                    @for (tab, go, name, path) in tabs {
                        li { a href=(app.href(&path)) data-go=(go) aria-current=[(tab == active).then_some("page")] { (name) } }
                    }
                }
            }
            div.tools {
                @if app.config.read_only { span.tag { "read-only" } }
                div.where title=(location) { i.light {} span { (location) } }
                button.bare type="button" data-theme-switch aria-label="Dark or light" title="Dark or light (d)" { "◐" }
                button.bare type="button" data-keys aria-label="Keys" title="Keys (?)" { "?" }
                @if app.login.has_password() {
                    button.bare type="button" data-post=(app.href(&["logout"])) data-then=(app.href(&[])) { "Log out" }
                }
            }
        }
    }
}

fn dialogs() -> Markup {
    html! {
        dialog #ask aria-labelledby="ask-title" {
            form method="dialog" {
                h2 #ask-title { "Are you sure?" }
                p {}
                label hidden { span { "Type " code {} " to go on" } input type="text" autocomplete="off" spellcheck="false"; }
                div.row {
                    // Enter in the field presses the first button that submits.
                    button type="button" value="no" data-close { "Go back" }
                    button.danger value="ok" { "Go on" }
                }
            }
        }
        dialog #keys aria-labelledby="keys-title" {
            h2 #keys-title { "Keys" }
            dl.facts { @for (key, effect) in KEYS { dt { kbd { (key) } } dd { (effect) } } }
            div.row { button type="button" data-close { "Close" } }
        }
    }
}
