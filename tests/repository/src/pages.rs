//! The pages describe the real tree: their links, the paths and tests that they name, and the keys that they list.

use std::collections::BTreeSet;

use crate::{
    references::{DESIGN, anchors, missing, text_of},
    suites::Parsed,
    tree::{files, none, read, root},
};

/// The most lines of a page of design.
const LONGEST_PAGE: usize = 250;
/// The most lines of the changelog about the release to come.
const LONGEST_UNRELEASED: usize = 300;

/// Folders where a path in prose may begin, besides the folder of the page's subject.
const BASES: [&str; 8] = [
    "",
    "asynq-runtime/src/",
    "asynq-runtime/src/broker/",
    "asynq-runtime/src/broker/redis/",
    "asynq-runtime/src/broker/redis/lua/",
    "asynq-runtime/src/broker/sqlite/",
    "asynq-dashboard/src/",
    "asynq-cli/src/",
];

/// The tests that a page names, [`test`](path), as (path from the page's folder, test).
fn tests_of(page: &str) -> impl Iterator<Item = (&str, &str)> {
    let links = page.split("[`").skip(1).filter_map(|part| part.split_once("`]("));
    links
        .map(|(name, rest)| (rest.split(')').next().unwrap_or_default(), name))
        .filter(|(path, _)| path.ends_with(".rs"))
}

/// The functions of a file that its `every_outcome!` turns into tests.
fn attacks(text: &str) -> impl Iterator<Item = &str> {
    let call = text.split_once("\nevery_outcome! {").and_then(|(_, rest)| rest.split('}').next());
    call.unwrap_or_default().split_whitespace()
}

/// The targets of all links of a page that lead to files.
fn links_of(page: &str) -> impl Iterator<Item = &str> {
    let targets = page.split("](").skip(1).map(|rest| rest.split(')').next().unwrap_or_default());
    targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
}

/// The number of lines that a changelog has about the release to come.
fn unreleased(changelog: &str) -> usize {
    let lines = changelog.lines().skip_while(|line| *line != "## [Unreleased]").skip(1);
    lines.take_while(|line| !line.starts_with("## ")).count()
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

/// Paths and names of files in prose: words with a known file extension, or a slash at the end.
fn paths_of(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "/._-*".contains(c)));
    let words = words.map(|word| word.trim_end_matches('.')).filter(|word| !word.starts_with('.'));
    words.filter(|word| {
        let is_folder = word.ends_with('/') && word.len() > 1;
        is_folder || [".rs", ".lua", ".sql"].iter().any(|end| word.len() > end.len() && word.ends_with(end))
    })
}

/// Whether a path in prose names one of the files, or a folder of files.
fn is_there(path: &str, all: &[String]) -> bool {
    let matches = |file: &str, wanted: &str| match wanted.split_once('*') {
        Some((before, after)) => file.starts_with(before) && file.ends_with(after),
        None if wanted.ends_with('/') => file.starts_with(wanted),
        None => file == wanted || !path.contains('/') && file.ends_with(&format!("/{path}")),
    };
    BASES.iter().any(|base| all.iter().any(|file| matches(file, &format!("{base}{path}"))))
}

#[test]
fn every_link_of_a_page_leads_somewhere_and_every_test_that_it_names_runs() {
    let (mut broken, mut tests, parsed) = (Vec::new(), 0, Parsed::default());
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
            let functions = parsed.functions_of(&file, &text);
            let is_run = |name: &str| functions.iter().any(|one| one.is_test && one.name == name);
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
    none(broken, "a reader finds each page, and reads it to its end");
}

#[test]
fn the_readme_is_short_and_every_page_of_the_book_is_in_its_contents_and_compiled() {
    let readme = read("README.md");
    assert!(readme.lines().count() <= 200, "the README has more than 200 lines: the rest belongs into docs/");
    for registry in ["crates.io", "docs.rs"] {
        assert!(!readme.contains(registry), "the README names {registry}");
    }
    let (contents, compiled) = (read("docs/SUMMARY.md"), read("examples/src/lib.rs"));
    let mut broken: Vec<String> = Vec::new();
    let pages = files("docs").into_iter().filter(|path| path.ends_with(".md") && path != "docs/SUMMARY.md");
    for path in pages {
        let name = path.trim_start_matches("docs/");
        if contents.matches(&format!("]({name})")).count() != 1 {
            broken.push(format!("docs/SUMMARY.md lists {name} not once"));
        }
        if read(&path).contains("```rust\n") && !compiled.contains(&format!("\"../../{path}\"")) {
            broken.push(format!("examples/src/lib.rs does not compile the blocks of {path}"));
        }
    }
    none(broken, "a page is found, and its programs compile");
}

#[test]
fn the_changelog_of_the_release_to_come_is_short_enough_to_be_read() {
    assert_eq!(unreleased("# Changelog\n\n## [Unreleased]\n\n### Added\n- a\n\n## [0.1.0]\n- b\n"), 4);
    let lines = unreleased(&read("CHANGELOG.md"));
    assert!(lines > 0, "CHANGELOG.md has no section [Unreleased]");
    assert!(
        lines <= LONGEST_UNRELEASED,
        "CHANGELOG.md has {lines} lines about the release to come: merge a change with the line of its area"
    );
}

#[test]
fn every_key_of_ours_is_on_the_pages_about_the_wire() {
    let source = read("asynq-runtime/src/broker/redis/keys.rs");
    let product = source.split("#[cfg(test)]").next().unwrap_or_default();
    let is_part = |c: char| c.is_ascii_lowercase() || c == ':' || c == '-';
    let words = product.split(|c: char| !is_part(c)).map(|word| word.trim_end_matches(':'));
    let keys: BTreeSet<&str> = words.filter_map(|word| word.find("x:").map(|begin| &word[begin..])).collect();
    assert!(keys.contains("x:due") && keys.len() > 6, "the keys were not found: {keys:?}");
    let page = read("docs/design/wire.md");
    let missing = keys.iter().filter(|key| !page.contains(**key));
    none(
        missing.map(|key| format!("docs/design/wire.md lacks {key}")).collect(),
        "a key that is written is documented",
    );
}

#[test]
fn every_script_is_on_the_page_about_scripts() {
    const SCRIPTS: &str = "asynq-runtime/src/broker/redis/lua/";
    let page = read("docs/design/scripts.md");
    let scripts = files(SCRIPTS.trim_end_matches('/')).into_iter().filter(|path| !path.contains("/prelude/"));
    let names: Vec<String> = scripts.map(|path| path.trim_start_matches(SCRIPTS).to_owned()).collect();
    assert!(names.len() > 40, "the scripts were not found: {names:?}");
    let missing = names.iter().filter(|name| page.matches(&format!("`{name}`")).count() != 1);
    none(
        missing.map(|name| format!("docs/design/scripts.md lists {name} not once")).collect(),
        "a script that runs inside of Redis is documented",
    );
}

#[test]
fn a_path_that_is_not_there_is_caught() {
    let all = ["asynq-runtime/src/broker/redis/lua/settle/done.lua", "asynq-runtime/src/thread.rs", "tests/it.rs"];
    let all = all.map(str::to_owned);
    let text = "`thread.rs` and lua/settle/*.lua, `tests/`: but no `threads.rs`, sql/settle/*.sql, `test/` or asynq-runtime/src/it.rs.";
    let missing: Vec<&str> = paths_of(text).filter(|path| !is_there(path, &all)).collect();
    assert_eq!(missing, ["threads.rs", "sql/settle/*.sql", "test/", "asynq-runtime/src/it.rs"]);
}
