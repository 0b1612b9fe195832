//! Each reference to a page, a heading, a file or a test leads somewhere, and none leads to pages that a clone does not have.

use std::collections::BTreeSet;

use crate::{
    suites::functions_of,
    tree::{files, none, read, root},
};

/// The folder of the pages that code and tests refer to.
const DESIGN: &str = "docs/design/";
/// This file, which spells what it forbids.
const HERE: &str = "tests/repository/src/references.rs";
/// Most lines of a page of design.
const LONGEST_PAGE: usize = 250;

/// Pages that were read while this was built and are not part of it.
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
/// Where paths in prose begin, which need not say what the page is about.
const BASES: [&str; 7] = [
    "",
    "asynq-runtime/src/",
    "asynq-runtime/src/broker/",
    "asynq-runtime/src/broker/redis/",
    "asynq-runtime/src/broker/sqlite/",
    "asynq-dashboard/src/",
    "asynq-cli/src/",
];

/// The paths of all files that people write: no golden data, no lock files, no pictures.
fn written() -> impl Iterator<Item = String> {
    let ends = [".rs", ".lua", ".sql", ".md", ".toml", ".txt", ".go", ".js", ".css", ".html", ".py", ".yml"];
    files("").into_iter().filter(move |path| {
        let is_named =
            ends.iter().any(|end| path.ends_with(end)) || path.starts_with("scripts/") || path.starts_with(".ci/");
        is_named && !path.contains("/vectors/")
    })
}

/// The anchors of the headings of a page, as GitHub makes them.
fn anchors(page: &str) -> Vec<String> {
    let mut is_code = false;
    let headings = page.lines().filter(|line| {
        is_code ^= line.starts_with("```");
        !is_code && line.starts_with('#')
    });
    let kept = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
        _ => None,
    };
    headings.map(|line| line.trim_start_matches('#').trim().chars().filter_map(kept).collect()).collect()
}

/// Why nothing is at `target`, a path from the root with or without an anchor. `text_of` is what is in a file.
fn missing(target: &str, text_of: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let Some(text) = text_of(path) else { return Some(format!("there is no {path}")) };
    let anchor = anchor?;
    (!anchors(&text).iter().any(|known| known == anchor)).then(|| format!("{path} has no heading #{anchor}"))
}

/// What is wrong with the references to pages of design in a text.
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

/// Where a text names pages or codes that only those had who built this, or their folder.
fn strangers(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut tell = |what: &str| found.push(format!("{path}:{}: {what}", number + 1));
        let is_word = |begin: usize, end: usize| {
            let is_apart = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && c != '_');
            is_apart(line[..begin].chars().next_back()) && is_apart(line[end..].chars().next())
        };
        for absent in ABSENT {
            for (begin, _) in line.match_indices(absent) {
                if absent == "§" || is_word(begin, begin + absent.len()) {
                    tell(absent);
                }
            }
        }
        for folder in ["../shared", "work/shared"] {
            if line.contains(folder) {
                tell(folder);
            }
        }
        for (begin, _) in line.match_indices(['D', 'F', 'H', 'W']) {
            let digits = line[begin + 1..].chars().take_while(char::is_ascii_digit).count();
            let mut end = begin + 1 + digits;
            end += usize::from(digits > 0 && line[end..].starts_with(|c: char| ('a'..='e').contains(&c)));
            // Hosts of a URL are called so, too.
            let is_host = line[..begin].ends_with(['/', ',']);
            if (1..=2).contains(&digits) && is_word(begin, end) && !is_host {
                tell(&line[begin..end]);
            }
        }
    }
    found
}

/// The tests that a page names, [`test`](path), as (path from the page's folder, test).
fn tests_of(page: &str) -> impl Iterator<Item = (&str, &str)> {
    let links = page.split("[`").skip(1).filter_map(|part| part.split_once("`]("));
    links
        .map(|(name, rest)| (rest.split(')').next().unwrap_or_default(), name))
        .filter(|(path, _)| path.ends_with(".rs"))
}

/// The functions of a file that its `every_outcome!` makes tests of.
fn attacks(text: &str) -> impl Iterator<Item = &str> {
    let call = text.split_once("\nevery_outcome! {").and_then(|(_, rest)| rest.split('}').next());
    call.unwrap_or_default().split_whitespace()
}

/// The targets of all links of a page that lead to files.
fn links_of(page: &str) -> impl Iterator<Item = &str> {
    let targets = page.split("](").skip(1).map(|rest| rest.split(')').next().unwrap_or_default());
    targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
}

/// A link of a page in `folder`, from the root.
fn resolved(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Paths and names of files in prose: whatever has an ending of ours, or a slash at its end.
fn paths_of(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "/._-*".contains(c)));
    let words = words.map(|word| word.trim_end_matches('.')).filter(|word| !word.starts_with('.'));
    words.filter(|word| {
        let is_folder = word.ends_with('/') && word.len() > 1;
        is_folder || [".rs", ".lua", ".sql"].iter().any(|end| word.len() > end.len() && word.ends_with(end))
    })
}

/// Whether a path in prose names one of the files, or a folder of some.
fn is_there(path: &str, all: &[String]) -> bool {
    let matches = |file: &str, wanted: &str| match wanted.split_once('*') {
        Some((before, after)) => file.starts_with(before) && file.ends_with(after),
        None if wanted.ends_with('/') => file.starts_with(wanted),
        None => file == wanted || !path.contains('/') && file.ends_with(&format!("/{path}")),
    };
    BASES.iter().any(|base| all.iter().any(|file| matches(file, &format!("{base}{path}"))))
}

fn text_of(path: &str) -> Option<String> {
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
    let broken = ours.flat_map(|path| strangers(&path, &read(&path))).collect();
    none(broken, "say it in a sentence, or name a heading of docs/design");
}

#[test]
fn every_link_of_a_page_leads_somewhere_and_every_test_that_it_names_runs() {
    let (mut broken, mut tests) = (Vec::new(), 0);
    let pages = files("").into_iter().filter(|path| path.ends_with(".md"));
    for path in pages.filter(|path| path.starts_with("docs/") || !path.contains('/')) {
        let (folder, page) = (path.rsplit_once('/').map_or("", |(folder, _)| folder), read(&path));
        for link in links_of(&page) {
            let target = if link.starts_with('#') { format!("{path}{link}") } else { resolved(folder, link) };
            let is_page = target.contains(".md");
            let why = if is_page {
                missing(&target, &text_of)
            } else {
                (!root().join(&target).exists()).then(|| format!("there is no {target}"))
            };
            broken.extend(why.map(|why| format!("{path}: {why}")));
        }
        for (link, test) in tests_of(&page).filter(|_| path.starts_with(DESIGN)) {
            let file = resolved(folder, link);
            let text = text_of(&file).unwrap_or_default();
            let is_run = |name: &str| functions_of(&file, &text).iter().any(|one| one.is_test && one.name == name);
            let runs = is_run(test) || attacks(&text).any(|attack| attack == test);
            tests += 1;
            if !runs {
                broken.push(format!("{path}: {file} has no test `{test}`"));
            }
        }
    }
    assert!(tests > 40, "the tests were not found");
    none(broken, "a link leads to a file or a heading, and a test that a page names is one");
}

#[test]
fn every_path_that_a_page_names_exists() {
    let (all, mut broken) = (files(""), Vec::new());
    let pages = all.iter().filter(|path| path.starts_with(DESIGN) || *path == "ARCHITECTURE.md");
    for path in pages {
        let text = read(path);
        broken.extend(paths_of(&text).filter(|named| !is_there(named, &all)).map(|named| format!("{path}: {named}")));
    }
    none(broken, "the pages say where things are");
}

#[test]
fn the_pages_of_design_are_short_and_in_the_index_and_each_heading_is_one() {
    let (index, mut broken) = (read("docs/design/README.md"), Vec::new());
    for path in files("docs/design") {
        let (page, name) = (read(&path), path.trim_start_matches(DESIGN));
        let anchors = anchors(&page);
        if page.lines().count() > LONGEST_PAGE {
            broken.push(format!("{path} has more than {LONGEST_PAGE} lines"));
        }
        if anchors.iter().collect::<BTreeSet<_>>().len() < anchors.len() {
            broken.push(format!("{path} has two headings of one name"));
        }
        if name != "README.md" && !index.contains(&format!("]({name})")) {
            broken.push(format!("docs/design/README.md does not list {name}"));
        }
    }
    none(broken, "whoever looks for a page finds it, and reads it to its end");
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
fn a_reference_to_what_is_not_here_is_caught() {
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
    assert_eq!(strangers("a", text), expected.map(|line| format!("a:{line}")));
}

#[test]
fn a_path_that_is_not_there_is_caught() {
    let all = ["asynq-runtime/src/broker/redis/lua/settle/done.lua", "asynq-runtime/src/thread.rs", "tests/it.rs"];
    let all = all.map(str::to_owned);
    let text = "`thread.rs` and lua/settle/*.lua, `tests/`: but no `threads.rs`, sql/settle/*.sql, `test/` or asynq-runtime/src/it.rs.";
    let missing: Vec<&str> = paths_of(text).filter(|path| !is_there(path, &all)).collect();
    assert_eq!(missing, ["threads.rs", "sql/settle/*.sql", "test/", "asynq-runtime/src/it.rs"]);
}
