//! Each view of a task shows every field of `TaskInfo`, or a reason is given.

use crate::tree::{none, read};

/// A view: the files that make it, and the fields that it leaves out, each with the reason.
struct View {
    files: &'static [&'static str],
    left_out: &'static [(&'static str, &'static str)],
}

/// The reason of `replaced`.
const OF_AN_ENQUEUE: &str = "only the answer of an enqueue has it";

const VIEWS: [View; 4] = [
    View {
        files: &[
            "asynq-runtime/src/inspector/statistics.rs",
            "asynq-cli/src/show/task.rs",
            "asynq-dashboard/src/api/json.rs",
        ],
        left_out: &[("replaced", OF_AN_ENQUEUE)],
    },
    View { files: &["asynq-cli/src/command/task/inspect.rs"], left_out: &[("replaced", OF_AN_ENQUEUE)] },
    View {
        files: &["asynq-cli/src/dash/view/task.rs"],
        left_out: &[("id", "the title has it"), ("queue", "the title has it"), ("replaced", OF_AN_ENQUEUE)],
    },
    View {
        files: &[
            "asynq-dashboard/src/page/task.rs",
            "asynq-dashboard/src/page/task/timeline.rs",
            "asynq-dashboard/src/page/part/tasks.rs",
        ],
        left_out: &[("replaced", OF_AN_ENQUEUE)],
    },
];

/// Returns the names of the public fields of `TaskInfo`.
fn fields() -> Vec<String> {
    let source = read("asynq-runtime/src/task/info.rs");
    let body = source.split("pub struct TaskInfo {").nth(1).unwrap().split("\n}").next().unwrap().to_owned();
    let names = body.lines().filter_map(|line| line.strip_prefix("    pub ")?.split(':').next().map(str::to_owned));
    names.collect()
}

/// Returns whether the text reads this field of a `task`.
fn reads(text: &str, field: &str) -> bool {
    let read = format!("task.{field}");
    let is_whole = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    text.match_indices(&read).any(|(at, _)| is_whole(&text[at + read.len()..]))
}

#[test]
fn each_view_of_a_task_shows_every_field_or_says_why_not() {
    let fields = fields();
    assert!(fields.len() > 20 && fields.iter().any(|field| field == "r#type"), "{fields:?}");
    let mut broken = Vec::new();
    for View { files, left_out } in VIEWS {
        let text: String =
            files.iter().map(|file| read(file).split("#[cfg(test)]\nmod ").next().unwrap().to_owned()).collect();
        for field in &fields {
            let reason = left_out.iter().find(|(name, _)| name == field);
            match (reads(&text, field), reason) {
                (false, None) => broken.push(format!("{}: `{field}` is not shown", files[0])),
                (true, Some((_, reason))) => {
                    broken.push(format!("{}: `{field}` is shown, although {reason}", files[0]));
                }
                _ => {}
            }
        }
        let unknown = left_out.iter().filter(|(name, _)| !fields.iter().any(|field| field == name));
        broken.extend(unknown.map(|(name, _)| format!("{}: there is no field `{name}`", files[0])));
    }
    none(broken, "a view of a task shows each field of TaskInfo, or tests/repository/src/task_views.rs says why not");
}
