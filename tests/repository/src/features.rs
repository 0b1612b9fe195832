//! Each row of docs/features.md is shown by tests that exist and run, and promises no more of the conformance suite than runs.

use std::collections::BTreeSet;

use crate::{
    cases::Cases,
    suites::Parsed,
    tree::{none, read, root},
};

/// A row of a table.
#[derive(Debug, PartialEq)]
struct Row<'a> {
    feature: &'a str,
    /// The text about asynq-rs itself.
    here: &'a str,
    /// The tests that the row names: (file, test).
    tests: Vec<(&'a str, &'a str)>,
}

/// The rows of the tables of a page: feature, asynq, go-workers, here, shown by.
fn rows(page: &str) -> Vec<Row<'_>> {
    let lines = page.lines().filter(|line| line.starts_with('|') && !line.starts_with("|---"));
    let cells = lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
    let rows = cells.filter(|cells| cells[0] != "Feature");
    rows.map(|cells| {
        let [feature, _, _, here, shown] = cells[..] else { panic!("five cells were expected: {cells:?}") };
        Row { feature, here, tests: links(shown) }
    })
    .collect()
}

/// The parts of each [`test`](../file) in `text`, as (file, test).
fn links(text: &str) -> Vec<(&str, &str)> {
    let parts = text.split("[`").skip(1);
    parts
        .filter_map(|part| part.split_once("`](../"))
        .map(|(test, rest)| (rest.split(')').next().unwrap(), test))
        .collect()
}

/// The parts of the repository that a page is checked against.
struct Tree<'a> {
    /// The text of a file, if it exists.
    read: &'a dyn Fn(&str) -> Option<String>,
    /// The text of `scripts/prove`.
    prove: &'a str,
    cases: &'a Cases,
    parsed: Parsed,
}

impl Tree<'_> {
    fn mistakes(&self, page: &str) -> Vec<String> {
        let (mut mistakes, mut features) = (Vec::new(), BTreeSet::new());
        for row in rows(page) {
            let Row { feature, ref tests, .. } = row;
            if !features.insert(feature) {
                mistakes.push(format!("{feature:?} is there twice"));
            }
            if tests.is_empty() {
                mistakes.push(format!("{feature:?} is linked to no test"));
            }
            for (file, test) in tests {
                let mistake = self.mistake_of_test(&row, file, test);
                mistakes.extend(mistake.map(|mistake| format!("{feature:?}: {mistake}")));
            }
            mistakes.extend(self.mistakes_of_words(&row).map(|mistake| format!("{feature:?}: {mistake}")));
        }
        mistakes
    }

    /// The reason why the test does not show the row.
    fn mistake_of_test(&self, row: &Row<'_>, file: &str, test: &str) -> Option<String> {
        let Some(text) = (self.read)(file) else { return Some(format!("there is no {file}")) };
        let tests = self.parsed.functions_of(file, &text);
        let Some(found) = tests.iter().find(|function| function.is_test && function.name == test) else {
            return Some(format!("{file} has no test `{test}`"));
        };
        let is_ignored = found.attributes.iter().any(|attribute| attribute.path().is_ident("ignore"));
        let module = file.rsplit('/').next().unwrap().trim_end_matches(".rs");
        let is_proved = proofs(row.here).any(|proof| {
            let command = self.command(proof).unwrap_or_default();
            command.contains("--ignored") && (command.contains(&format!("{module}::")) || command.contains(test))
        });
        (is_ignored && !is_proved).then(|| format!("`{test}` is ignored, and no `scripts/prove` of the row runs it"))
    }

    /// Promises in the words of the row that the scripts and suites do not keep.
    fn mistakes_of_words(&self, row: &Row<'_>) -> impl Iterator<Item = String> {
        let unknown = proofs(row.here).filter(|proof| self.command(proof).is_none());
        let mut mistakes: Vec<String> = unknown.map(|proof| format!("there is no `scripts/prove {proof}`")).collect();
        if row.here.contains("conformance") {
            let named = row.here.split('`').skip(1).step_by(2).map(|name| name.trim_end_matches("::"));
            let named: Vec<bool> = named.filter_map(|name| self.cases.is_whole(name)).collect();
            if named.is_empty() {
                mistakes.push("it speaks of the conformance suite and names no broker of it".to_owned());
            }
            if row.here.contains("whole conformance suite") && !named.iter().all(|whole| *whole) {
                mistakes.push("not the whole conformance suite runs there".to_owned());
            }
        }
        mistakes.into_iter()
    }

    /// The commands of `scripts/prove <name>`.
    fn command(&self, name: &str) -> Option<&str> {
        let (_, arm) = self.prove.split_once(&format!("\n    {name})\n"))?;
        arm.split("\n        ;;").next()
    }
}

/// The names after each `scripts/prove` of a text.
fn proofs(text: &str) -> impl Iterator<Item = &str> {
    text.split("scripts/prove ").skip(1).map(|rest| rest.split(|c: char| !c.is_alphanumeric()).next().unwrap())
}

#[test]
fn every_feature_is_shown_by_tests_that_run() {
    let page = read("docs/features.md");
    assert!(rows(&page).len() > 60, "the table has lost its rows");
    let read_if_there = |path: &str| root().join(path).exists().then(|| read(path));
    let (prove, cases) = (read("scripts/prove"), Cases::read());
    let tree = Tree { read: &read_if_there, prove: &prove, cases: &cases, parsed: Parsed::default() };
    none(tree.mistakes(&page), "docs/features.md");
}

#[test]
fn a_page_that_promises_too_much_is_caught() {
    let row = |feature: &str, here: &str, shown: &str| format!("| {feature} | – | – | {here} | {shown} |\n");
    let page = [
        "| Feature | asynq | go-workers | here | shown by |\n|---|---|---|---|---|\n".to_owned(),
        row("flies", "yes", "[`it_flies`](../a.rs)"),
        row("swims", "yes", "[`it_swims`](../b.rs)"),
        row("runs", "yes", "trust me"),
        row("flies", "yes", "[`helper`](../a.rs)"),
        row("dives", "yes", "[`it_dives`](../a.rs)"),
        row("dives far", "`scripts/prove depth`", "[`it_dives`](../a.rs)"),
        row("dives as said", "`scripts/prove depths`", "[`it_dives`](../a.rs)"),
        row("hops", "the whole conformance suite", "[`it_flies`](../a.rs)"),
        row("leaps", "the whole conformance suite: `some::`", "[`it_flies`](../a.rs)"),
        row("jumps", "the whole conformance suite: `all::`; conformance", "[`it_flies`](../a.rs)"),
    ];
    let source = "#[test]\nfn it_flies() {}\nfn helper() {}\n#[test]\n#[ignore = \"deep\"]\nfn it_dives() {}";
    let cases = syn::parse_str("[x, y] all: AllFixture; some: SomeFixture only [x]: \"why\";").unwrap();
    let prove = "case $1 in\n    depths)\n        cargo test -- --ignored a::\n        ;;\nesac";
    let read = |file: &str| (file == "a.rs").then(|| source.to_owned());
    let tree = Tree { read: &read, prove, cases: &cases, parsed: Parsed::default() };
    let expected = [
        "\"swims\": there is no b.rs",
        "\"runs\" is linked to no test",
        "\"flies\" is there twice",
        "\"flies\": a.rs has no test `helper`",
        "\"dives\": `it_dives` is ignored, and no `scripts/prove` of the row runs it",
        "\"dives far\": `it_dives` is ignored, and no `scripts/prove` of the row runs it",
        "\"dives far\": there is no `scripts/prove depth`",
        "\"hops\": it speaks of the conformance suite and names no broker of it",
        "\"leaps\": not the whole conformance suite runs there",
    ];
    assert_eq!(tree.mistakes(&page.concat()), expected);
}
