//! The list of environment variables, by which a misspelled one is told from a variable of the program.

use std::collections::BTreeSet;

use crate::{
    source::{Kind, sources},
    tree::none,
};

const LIST: &str = "asynq-runtime/src/variables.rs";
const CRATES: [&str; 4] = ["asynq-runtime/src", "asynq-cron/src", "asynq-dashboard/src", "asynq-cli/src"];

fn is_variable(text: &str) -> bool {
    let is_upper = |c: char| c.is_ascii_uppercase() || c == '_';
    text.starts_with("ASYNQ_") && !text.ends_with('_') && text.chars().all(is_upper)
}

#[test]
fn the_list_has_the_variables_that_the_sources_name_and_no_others() {
    let (mut listed, mut named) = (BTreeSet::new(), BTreeSet::new());
    for source in CRATES.into_iter().flat_map(sources) {
        let literals = source.tokens.iter().filter(|token| token.kind == Kind::Literal);
        let texts = literals.map(|token| token.text.trim_matches('"')).filter(|text| is_variable(text));
        let found = if source.path == LIST { &mut listed } else { &mut named };
        found.extend(texts.map(str::to_owned));
    }
    assert!(listed.contains("ASYNQ_URL"), "the list is found");
    let broken = listed.symmetric_difference(&named).cloned().collect();
    none(broken, &format!("a variable that a program reads is in {LIST}"));
}
