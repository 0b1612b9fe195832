//! The page about the command line is complete and true.

use std::collections::BTreeSet;

use asynq_tests::{Build as _, Seeded as _, retry, task};
use serde_json::Value;

use crate::fixture::{self, Setting, on_both_brokers};

const PAGE: &str = include_str!("../../../docs/cli.md");

/// Returns the command lines in the table of the page, without their arguments.
pub(crate) fn documented_commands() -> BTreeSet<String> {
    let rows = PAGE.lines().filter(|line| line.starts_with("| `asynq "));
    let cells = rows.flat_map(|row| row.split(" | ").next().unwrap_or_default().split('`').skip(1).step_by(2));
    let names = cells.map(|line| {
        let words = line.split_whitespace().skip(1);
        words.take_while(|word| word.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !word.starts_with('-'))
    });
    names.map(|words| words.collect::<Vec<_>>().join(" ")).collect()
}

/// Returns the commands that a help lists.
async fn listed(path: &[&str]) -> Vec<String> {
    let answer = fixture::run(None, Setting::default(), &[path, &["--help"]].concat()).await;
    let lines = answer.out.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).filter(|name| name != "help").collect()
}

#[tokio::test]
async fn every_command_is_in_the_table_and_no_other() {
    let mut there = BTreeSet::new();
    for name in listed(&[]).await {
        let below = listed(&[&name]).await;
        match below.is_empty() {
            true => drop(there.insert(name)),
            false => there.extend(below.into_iter().map(|verb| format!("{name} {verb}"))),
        }
    }
    assert!(there.len() > 25, "{there:?}");
    assert_eq!(documented_commands(), there);
}

#[tokio::test]
async fn the_help_of_every_command_that_answers_in_json_names_the_fields() {
    for command in documented_commands().iter().filter(|name| !["dash", "completions"].contains(&name.as_str())) {
        let path: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = fixture::run(None, Setting::default(), &path).await.out;
        // The lines of a help are wrapped.
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains("With --json: "), "{command}: {help}");
        assert!(command != "server ls" || help.contains("`since`, `deadline` and `stuck`"), "{help}");
    }
}

on_both_brokers! {
    async fn a_task_in_json_has_the_fields_of_the_page(cli) {
        let run = cli.t.start_run(task("t1").with_header("trace", "abc")).await;
        cli.t.settle(&run, retry(std::time::Duration::from_secs(60), "boom")).await;
        assert_eq!(run.text().id, "t1");
        let block = PAGE.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
        let documented: Value = serde_json::from_str(block).unwrap();
        let answer = cli.json("task inspect -q default t1").await;
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
        assert_eq!(keys(&answer), keys(&documented));
        for part in ["payload", "headers", "failures"] {
            let first = |value: &Value| value[part].get(0).unwrap_or(&value[part]).clone();
            assert_eq!(keys(&first(&answer)), keys(&first(&documented)), "{part}");
        }
    }
}
