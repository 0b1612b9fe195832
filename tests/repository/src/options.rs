//! Every option of `#[job]` and `#[periodic]` is in the macro's own tables, and explained in the book.

use crate::tree::read;

/// The options in asynq-macros/src/job/options.rs, in its order.
fn options() -> Vec<String> {
    let source = read("asynq-macros/src/job/options.rs");
    let names = source.split("Known { name: ").skip(1).filter_map(|rest| {
        let name = rest.split(',').next()?;
        Some(if name == "DERIVE" { "derive".to_owned() } else { name.trim_matches('"').to_owned() })
    });
    names.collect()
}

#[test]
fn each_option_is_in_a_table_of_the_macro_and_in_the_book() {
    let attribute = read("asynq-macros/src/lib.rs");
    let rows: String = attribute.lines().filter(|line| line.starts_with("/// | ")).collect();
    let book = read("docs/jobs.md") + &read("docs/schedules.md");
    let options = options();
    assert!(options.iter().any(|name| name == "queue") && options.iter().any(|name| name == "jitter"), "{options:?}");
    for name in options {
        for (text, place) in
            [(&rows, "a table in asynq-macros/src/lib.rs"), (&book, "docs/jobs.md or docs/schedules.md")]
        {
            let is_there = ["`", " = ", "(", "…"].iter().any(|end| text.contains(&format!("`{name}{end}")));
            assert!(is_there, "{place} has to tell what the option `{name}` does");
        }
    }
}
