//! Each row of tests/breaks.txt can be applied: its file has the line that it changes, once.

use crate::tree::{none, read, root};

/// Returns the faults of the rows of a list; `text_of` returns the text of a file, if the file exists.
fn mistakes(list: &str, text_of: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let rows = list.split("\n\n").filter(|row| row.starts_with("break "));
    let mistake = |row: &str| {
        let word = |name: &str| {
            let line = row.lines().find_map(|line| line.strip_prefix(name));
            line.map_or("", |line| line.strip_prefix(' ').unwrap_or(line)).trim_start_matches(' ')
        };
        let (name, file, old) = (word("break "), word("file "), word("old "));
        let report = |fault: &str| Some(format!("{name}: {file} {fault}: {old}"));
        if old.is_empty() || word("test ").is_empty() {
            return report("is changed by a row that lacks a line");
        }
        match text_of(file).map(|text| text.matches(old).count()) {
            None => report("is not there"),
            Some(1) => None,
            Some(0) => report("has no such text"),
            Some(_) => report("has this text more than once"),
        }
    };
    rows.filter_map(mistake).collect()
}

#[test]
fn every_break_can_be_applied() {
    let list = read("tests/breaks.txt");
    let rows = |before: &str| list.matches(&format!("{before}break ")).count();
    assert!(rows("\n") > 40, "the list has lost its rows");
    assert_eq!(rows("\n\n"), rows("\n"), "a row has no empty line before it");
    let text_of = |file: &str| root().join(file).exists().then(|| read(file));
    none(mistakes(&list, text_of), "tests/breaks.txt");
}

#[test]
fn a_row_that_matches_nothing_or_too_much_is_reported() {
    let list = "# breaks\n\nbreak  one\nfile   a\nold    x\nnew    y\ntest   t\n\nbreak  two\nfile   a\nold    z\nnew\ntest   t\n\n\
                break  three\nfile   b\nold    x\nnew\ntest   t\n\nbreak  four\nfile   a\nold    w\nnew\ntest   t";
    let text_of = |file: &str| (file == "a").then(|| "z z x".to_owned());
    let found = mistakes(list, text_of);
    let expected =
        ["two: a has this text more than once: z", "three: b is not there: x", "four: a has no such text: w"];
    assert_eq!(found, expected);
}
