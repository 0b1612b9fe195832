//! The rustdoc can be searched by the words of other frameworks.

use crate::tree::{none, read};

/// The pairs of a table in the macros: a word of another framework, and asynq's word.
fn pairs(source: &str, table: &str) -> Vec<(String, String)> {
    let rows = source.split(&format!("const {table}: ")).nth(1).unwrap().split("\n];").next().unwrap();
    let pairs = rows.lines().skip(1).flat_map(|row| {
        let mut quoted = row.split('"').skip(1).step_by(2);
        let ours = quoted.next().unwrap();
        quoted.map(move |word| (word.to_owned(), ours.to_owned()))
    });
    pairs.collect()
}

#[test]
fn each_word_that_the_macro_knows_finds_the_method_of_the_builder() {
    let pairs = pairs(&read("asynq-macros/src/job/options.rs"), "SYNONYMS");
    assert!(pairs.len() > 30, "the table is gone: {pairs:?}");
    let builder = read("asynq-runtime/src/job/builder.rs");
    let has_alias = |word: &str, method: &str| {
        let before = builder.split(&format!("pub fn {method}(mut self")).next().unwrap();
        let attribute = before.rsplit("#[doc(alias(").next().unwrap_or_default();
        attribute.lines().count() <= 3 && attribute.contains(&format!("\"{word}\""))
    };
    let methods = pairs.iter().filter(|(_, method)| builder.contains(&format!("pub fn {method}(mut self")));
    let lost = methods.filter(|(word, method)| !has_alias(word, method));
    none(lost.map(|(word, method)| format!("`{word}` does not find `{method}`")).collect(), "write #[doc(alias(..))]");
}
