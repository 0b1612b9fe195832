//! No example and no page shows how to poll: a program that waits is notified.

use std::str::FromStr as _;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::tree::{files, none, read};

/// Rust code that users read, with the place where it begins.
fn snippets_for_users() -> Vec<(String, String)> {
    let mut snippets_for_users = Vec::new();
    for path in files("examples").into_iter().filter(|path| path.ends_with(".rs")) {
        let text = read(&path);
        snippets_for_users.push((path, text));
    }
    let pages = ["docs", "asynq-runtime/src/docs", "asynq-cron/src/docs"];
    let pages = pages.iter().flat_map(|folder| files(folder)).filter(|path| path.ends_with(".md"));
    let folders =
        ["asynq-grammar", "asynq-macros", "asynq-runtime", "asynq-cron", "asynq-dashboard", "asynq-jobs", "asynq-cli"];
    let fronts = folders.map(|folder| format!("{folder}/README.md"));
    for path in pages.chain(["README.md".to_owned(), "ARCHITECTURE.md".to_owned()]).chain(fronts) {
        let text = read(&path);
        snippets_for_users.extend(snippets(&path, text.lines().map(str::to_owned)));
    }
    for folder in folders {
        for path in files(&format!("{folder}/src")).into_iter().filter(|path| path.ends_with(".rs")) {
            let comment = |line: &str| {
                let line = line.trim_start();
                let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
                text.map_or_else(String::new, |text| text.strip_prefix(' ').unwrap_or(text).to_owned())
            };
            let text = read(&path);
            snippets_for_users.extend(snippets(&path, text.lines().map(comment)));
        }
    }
    snippets_for_users
}

/// The blocks of Rust between fences, with the lines that rustdoc hides.
fn snippets(path: &str, lines: impl Iterator<Item = String>) -> Vec<(String, String)> {
    let (mut found, mut open) = (Vec::new(), None::<(bool, usize, String)>);
    for (number, line) in lines.enumerate() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(language), None) => {
                let words = ["", "rust", "no_run", "standalone_crate", "should_panic"];
                let is_rust = language.split(',').all(|word| words.contains(&word.trim()));
                open = Some((is_rust, number + 1, String::new()));
            }
            (Some(_), Some(_)) => {
                if let Some((true, at, text)) = open.take() {
                    found.push((format!("{path}:{at}"), text));
                }
                open = None;
            }
            (None, Some((_, _, text))) => {
                let code = line.trim_start();
                text.push_str(code.strip_prefix("# ").unwrap_or(if code == "#" { "" } else { &line }));
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    found
}

/// Whether a loop in `code` sleeps; a drawing that is not Rust does not.
fn polls(code: &str) -> bool {
    TokenStream::from_str(code).is_ok_and(has_sleeping_loop)
}

fn has_sleeping_loop(code: TokenStream) -> bool {
    // `impl Job for Nap` is not a loop.
    let (mut is_loop, mut is_impl) = (false, false);
    code.into_iter().any(|tree| match tree {
        TokenTree::Ident(word) => {
            is_impl |= word == "impl";
            is_loop |= word == "loop" || word == "while" || word == "for" && !is_impl;
            false
        }
        TokenTree::Group(group) => {
            let is_body = group.delimiter() == Delimiter::Brace;
            let polls = is_body && is_loop && sleeps(group.stream());
            if is_body {
                (is_loop, is_impl) = (false, false);
            }
            polls || has_sleeping_loop(group.stream())
        }
        TokenTree::Punct(sign) => {
            if sign.as_char() == ';' {
                (is_loop, is_impl) = (false, false);
            }
            false
        }
        TokenTree::Literal(_) => false,
    })
}

fn sleeps(code: TokenStream) -> bool {
    code.into_iter().any(|tree| match tree {
        TokenTree::Ident(word) => word == "sleep" || word == "sleep_until",
        TokenTree::Group(group) => sleeps(group.stream()),
        _ => false,
    })
}

#[test]
fn no_example_and_no_page_polls() {
    let polling = snippets_for_users().into_iter().filter(|(_, code)| polls(code)).map(|(place, _)| place);
    none(
        polling.collect(),
        "a loop that users read sleeps; wait for the task (`task.wait(..)`) or for the queues (`running.drained()`)",
    );
}

#[test]
fn a_loop_that_sleeps_is_recognised_and_work_that_takes_its_time_is_not() {
    for (code, expected) in [
        ("while !done() { tokio::time::sleep(MS).await; }", true),
        ("let x = loop { match y { Some(y) => break y, None => sleep(MS).await } };", true),
        ("for _ in 0..9 { std::thread::sleep(MS) }", true),
        ("async fn work() { sleep(MS).await }", false),
        ("impl Job for Nap { async fn run(self) { sleep(MS).await } }", false),
        ("for name in names { greet(name).await } sleep(MS).await;", false),
    ] {
        assert_eq!(polls(code), expected, "{code}");
    }
    let page = ["text", "```text", "while { sleep() }", "```", "```", "# loop {", "sleep(MS)", "# }", "```"];
    let found = snippets("p", page.iter().map(|line| (*line).to_owned()));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].0 == "p:5" && polls(&found[0].1), "{found:?}");
}
