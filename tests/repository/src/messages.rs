//! The length of the compiler's messages for wrong jobs: one error of a few lines for each mistake.

use std::collections::BTreeMap;

use crate::tree::{files, none, read};

/// A reader stops at longer messages.
const MOST_LINES: usize = 15;

/// Messages with more errors or lines, both numbers, and the reason. The list may only become shorter.
const LONGER: [(&str, usize, usize, &str); 9] = [
    ("builder_with_a_deadline_that_is_a_number", 1, 19, BY_A_MACRO),
    ("builder_with_a_number_of_seconds", 1, 19, BY_A_MACRO),
    (
        "call_of_enqueue_many_with_into",
        1,
        19,
        "a type that nothing decides: no trait of ours is asked, and rustc proposes a call in its own words",
    ),
    (
        "call_of_wait_for_a_result_that_is_only_written",
        1,
        20,
        "rustc shows the user's type, and the method and its `where` on lines of their own",
    ),
    ("call_with_a_client_by_value", 1, 17, "rustc shows the call a second time, with the `&` that it lacks"),
    ("call_with_a_struct_that_is_not_a_job", 1, 17, "rustc shows the user's type, and the bound of the method"),
    (
        "module_of_the_same_name",
        4,
        26,
        "the name leads to the module that was there first, and serde's derive uses it as a type and as a struct",
    ),
    ("on_archive_for_another_argument", 1, 16, "rustc shows both signatures, and where the method is defined"),
    (
        "struct_of_the_same_name",
        4,
        32,
        "the name leads to the struct that was there first, and serde's derive uses the fields that it lacks",
    ),
];

/// One macro makes the methods of the three builders.
const BY_A_MACRO: &str =
    "rustc shows where a macro made the method: four lines, for which three types have the same methods";

/// The errors and the lines, blank ones left out, of each golden file of a mistake that the compiler finds. Mistakes that the
/// macros find have one error each by construction.
fn sizes() -> BTreeMap<String, (usize, usize)> {
    let goldens = files("tests/ui/fail").into_iter().filter(|path| path.ends_with(".stderr"));
    let size = |path: String| {
        let text = read(&path);
        let errors = text.lines().filter(|line| line.starts_with("error")).count();
        let lines = text.lines().filter(|line| !line.is_empty()).count();
        (path.rsplit('/').next().unwrap().trim_end_matches(".stderr").to_owned(), (errors, lines))
    };
    goldens.map(size).collect()
}

#[test]
fn one_mistake_is_one_error_of_a_few_lines() {
    let sizes = sizes();
    assert!(sizes.len() > 40, "the cases are gone: {}", sizes.len());
    let mut broken = Vec::new();
    for (name, errors, lines, reason) in LONGER {
        if sizes.get(name) != Some(&(errors, lines)) || reason.is_empty() {
            broken.push(format!("`{name}` is now {:?}; write so, or take it off the list", sizes.get(name)));
        }
        if errors == 1 && lines <= MOST_LINES {
            broken.push(format!("`{name}` is short enough; take it off the list"));
        }
    }
    let is_listed = |name: &str| LONGER.iter().any(|(known, ..)| *known == name);
    for (name, (errors, lines)) in &sizes {
        if (*errors != 1 || *lines > MOST_LINES) && !is_listed(name) {
            broken.push(format!("`{name}`: {errors} errors in {lines} lines"));
        }
    }
    none(broken, "one mistake is reported once, in a few lines");
}
