//! Each reference to a page of design leads to one of its headings, and none leads to pages that a clone does not have.

use crate::tree::{files, none, read, root};

/// The folder of the pages that code and tests refer to.
pub(crate) const DESIGN: &str = "docs/design/";
/// This file, which spells what it forbids.
const HERE: &str = "tests/repository/src/references.rs";
/// Pages that existed while this was built and are not part of the repository.
const ABSENT: [&str; 14] = [
    "PROTOCOL",
    "RELIABILITY",
    "FENCE",
    "DECISIONS",
    "PERFORMANCE",
    "DEMANDS",
    "VOCABULARY",
    "API.md",
    "CRON.md",
    "SQLITE.md",
    "STYLE.md",
    "GROW.md",
    "FLOW.md",
    "§",
];
/// The paths of all files that people write, without golden data, lock files and pictures.
fn written() -> impl Iterator<Item = String> {
    let ends = [".rs", ".lua", ".sql", ".md", ".toml", ".txt", ".go", ".js", ".css", ".html", ".py", ".yml"];
    files("").into_iter().filter(move |path| {
        let is_named =
            ends.iter().any(|end| path.ends_with(end)) || path.starts_with("scripts/") || path.starts_with(".ci/");
        is_named && !path.contains("/vectors/")
    })
}

/// The anchors of the headings of a page, by GitHub's rules.
pub(crate) fn anchors(page: &str) -> Vec<String> {
    let mut is_code = false;
    let headings = page.lines().filter(|line| {
        is_code ^= line.starts_with("```");
        !is_code && line.starts_with('#')
    });
    let slug_char = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
        _ => None,
    };
    headings.map(|line| line.trim_start_matches('#').trim().chars().filter_map(slug_char).collect()).collect()
}

/// The reason why a path from the root, with or without an anchor, leads nowhere. `text_of` returns the text of a file.
pub(crate) fn missing(target: &str, text_of: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let Some(text) = text_of(path) else { return Some(format!("there is no {path}")) };
    let anchor = anchor?;
    (!anchors(&text).iter().any(|known| known == anchor)).then(|| format!("{path} has no heading #{anchor}"))
}

/// The faults in a text's references to pages of design.
fn mistakes(path: &str, text: &str, text_of: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (begin, _) in line.match_indices(DESIGN) {
            let is_part = |c: char| c.is_ascii_alphanumeric() || "/._-#".contains(c);
            let rest = &line[begin..];
            let target = rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())].trim_end_matches('.');
            if target != DESIGN && target != DESIGN.trim_end_matches('/') {
                found.extend(missing(target, text_of).map(|why| format!("{path}:{}: {why}", number + 1)));
            }
        }
    }
    found
}

/// Places where a text names pages, codes or a folder that only the developers had.
fn broken_references(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut report = |reference: &str| found.push(format!("{path}:{}: {reference}", number + 1));
        let is_word = |begin: usize, end: usize| {
            let is_apart = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && c != '_');
            is_apart(line[..begin].chars().next_back()) && is_apart(line[end..].chars().next())
        };
        for absent in ABSENT {
            for (begin, _) in line.match_indices(absent) {
                if absent == "§" || is_word(begin, begin + absent.len()) {
                    report(absent);
                }
            }
        }
        for folder in ["../shared", "work/shared"] {
            if line.contains(folder) {
                report(folder);
            }
        }
        for (begin, _) in line.match_indices(['D', 'F', 'H', 'W']) {
            let digits = line[begin + 1..].chars().take_while(char::is_ascii_digit).count();
            let mut end = begin + 1 + digits;
            end += usize::from(digits > 0 && line[end..].starts_with(|c: char| ('a'..='e').contains(&c)));
            // Hosts of a URL have such names, too.
            let is_host = line[..begin].ends_with(['/', ',']);
            if (1..=2).contains(&digits) && is_word(begin, end) && !is_host {
                report(&line[begin..end]);
            }
        }
    }
    found
}

/// The text of a file, if the file exists.
pub(crate) fn text_of(path: &str) -> Option<String> {
    root().join(path).is_file().then(|| read(path))
}

#[test]
fn every_reference_to_a_page_of_design_leads_to_a_heading() {
    let (mut broken, mut found) = (Vec::new(), 0);
    for path in written().filter(|path| path != HERE) {
        let text = read(&path);
        found += text.matches(DESIGN).count();
        broken.extend(mistakes(&path, &text, &text_of));
    }
    assert!(found > 40, "the references were not found");
    none(broken, "a reference names a page of docs/design and one of its headings");
}

#[test]
fn nothing_refers_to_pages_that_a_clone_does_not_have() {
    let ours = written().filter(|path| path != HERE);
    let broken = ours.flat_map(|path| broken_references(&path, &read(&path))).collect();
    none(broken, "say it in a sentence, or name a heading of docs/design");
}

#[test]
fn a_reference_that_leads_nowhere_is_caught() {
    let page = "# The fence\n\n## It's `ours` (still)\n```\n# no heading\n```\n";
    assert_eq!(anchors(page), ["the-fence", "its-ours-still"]);
    let text_of = |path: &str| (path == "docs/design/fence.md").then(|| page.to_owned());
    let text = "// see docs/design/fence.md#its-ours-still.\n// (docs/design/fence.md#no-heading), docs/design/fences.md, docs/design\n";
    let expected =
        ["a.rs:2: docs/design/fence.md has no heading #no-heading", "a.rs:2: there is no docs/design/fences.md"];
    assert_eq!(mistakes("a.rs", text, &text_of), expected);
}

#[test]
fn a_reference_to_a_missing_target_is_caught() {
    let text = "// FENCE.md says so (F19b, W2), and so does RELIABILITY.\n// redis-cluster://H1,H2 and x86_F16 and F123 are none\n\
                /// PROTOCOL §5\n// ../shared/vectors\n-- DEFENCE and SQLITE are words, SQLITE.md is none; D8.";
    let expected = [
        "1: RELIABILITY",
        "1: FENCE",
        "1: F19b",
        "1: W2",
        "3: PROTOCOL",
        "3: §",
        "4: ../shared",
        "5: SQLITE.md",
        "5: D8",
    ];
    assert_eq!(broken_references("a", text), expected.map(|line| format!("a:{line}")));
}
