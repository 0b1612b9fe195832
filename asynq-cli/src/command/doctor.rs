//! `doctor`: finds faults of a system, and reports their effects and repairs.

use asynq_grammar::{counted, shell};
use asynq_runtime::broker::{Node, OddityKind};
use clap::Args;
use serde::Serialize;

use super::progress;
use crate::{
    doctor::{Evidence, Finding, diagnose, gather},
    error::CliError,
    session::Session,
    show::{Style, clean},
};

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Looks at so many tasks of each state in each queue, and at about as many keys of Redis
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    limit: usize,
}

impl Doctor {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        let client = session.client_for_doctor().await?;
        let bar = progress::counting(session, 0, "queues");
        let gathered = gather(&client, self.limit, session.allows_eviction(), |done, of| {
            bar.set_length(of as u64);
            bar.set_position(done as u64);
        })
        .await;
        bar.finish_and_clear();
        let evidence = gathered?;
        let findings = diagnose(&evidence);
        let broker = client.broker().location();
        let report = Report { broker, complete: is_complete(&evidence), findings: &findings };
        let written = session.answer(&report, |style| text(&report, &evidence, style));
        let outcome = if findings.is_empty() { Ok(()) } else { Err(CliError::Reported(CliError::FAILED)) };
        CliError::unless_reader_left(written, outcome)
    }
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    broker: String,
    /// Whether everything was examined; `false` if the limit ended the examination early, a part could not be read, or a file
    /// was not checked for damage.
    complete: bool,
    findings: &'a [Finding],
}

/// Returns whether everything was read, and nothing was left out for its size.
fn is_complete(evidence: &Evidence) -> bool {
    evidence.unread.is_empty()
        && evidence.unanswered.is_empty()
        && evidence.queues.iter().all(|queue| queue.examination.complete)
        && !evidence.nodes.iter().any(is_unchecked)
}

/// Returns whether the file was not checked for damage.
fn is_unchecked(node: &Node) -> bool {
    node.fact("quick_check").is_some_and(|check| check.starts_with("unknown"))
}

fn text(report: &Report<'_>, evidence: &Evidence, style: Style) -> String {
    let mut text = format!("{}\n", clean(&report.broker));
    let versions: Vec<&str> = evidence.nodes.iter().map(|node| node.version.as_str()).collect();
    let unanswered: usize = evidence.unanswered.values().map(|unanswered| unanswered.queues.len()).sum();
    text.push_str(&format!(
        "version {}, {}, {}\n\n",
        clean(&versions.join(", ")),
        counted((evidence.queues.len() + unanswered) as u64, "queue"),
        match evidence.has_all_servers() {
            true => counted(evidence.servers.len() as u64, "server"),
            false => "servers not known".to_owned(),
        }
    ));
    if report.findings.is_empty() {
        let part = if report.complete { "" } else { " in what was looked at" };
        text.push_str(&format!("Nothing is wrong{part}.\n"));
    }
    for finding in report.findings {
        let Finding { severity, check, subject, found, means, repair } = finding;
        text.push_str(&format!("{severity}: {check}: {}\n", clean(subject)));
        for (label, value) in [("found", found.as_str()), ("means", means)] {
            text.push_str(&wrapped(label, &clean(value), style));
        }
        // With another name a command would act on another queue or task.
        let shown = clean(repair);
        let shown =
            if shown == *repair { shown } else { "it has a name that cannot be shown here: see --json".to_owned() };
        // A line break inside a command would end it where the text is pasted into a shell, and its first part may do more than the
        // whole.
        text.push_str(&wrapped("repair", &shown, Style { width: None, ..style }));
        text.push('\n');
    }
    for node in evidence.nodes.iter().filter(|node| is_unchecked(node)) {
        let file = shell::quote(&clean(&node.address));
        let reason = clean(node.fact("quick_check").unwrap_or_default().trim_start_matches("unknown: "));
        text.push_str(&format!("The file was not checked for damage ({reason})"));
        if node.fact("shell_can_check").is_some() {
            text.push_str("; in a shared file a row that fails a CHECK of another table is not damage");
            text.push_str(&format!(": sqlite3 {file} 'PRAGMA quick_check'"));
        }
        text.push('\n');
    }
    let mut unseen = evidence.queues.iter().map(|queue| &queue.examination).filter(|found| !found.complete).peekable();
    if unseen.peek().is_some() {
        let has_foreign = unseen.any(|found| found.count(OddityKind::ForeignKey) > 0);
        let and = if has_foreign { " a foreign key in place of a list ends the look at its queue, and" } else { "" };
        text.push_str(&format!("Not every task was looked at:{and} --limit says how many are.\n"));
    }
    text
}

/// Returns `value` behind a label, wrapped to the width of the terminal; later lines are indented.
fn wrapped(label: &str, value: &str, style: Style) -> String {
    const INDENT: usize = 9;
    let width = style.width.map_or(usize::MAX, usize::from).saturating_sub(INDENT).max(20);
    let (mut text, mut column) = (format!("  {label:<7}"), 0);
    for word in value.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            text.push_str(&format!("\n{:INDENT$}", ""));
            column = 0;
        }
        if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += length;
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use asynq_runtime::broker::Fact;

    use super::*;
    use crate::doctor::Severity;

    /// Returns what a terminal of this width shows of a finding with this repair.
    fn shown(repair: &str, width: u16) -> String {
        let findings = [Finding {
            severity: Severity::Warning,
            check: "group-waits",
            subject: "default".to_owned(),
            found: "a task waits".to_owned(),
            means: "no server aggregates the group",
            repair: repair.to_owned(),
        }];
        let report = Report { broker: "redis://h:6379".to_owned(), complete: true, findings: &findings };
        text(&report, &Evidence::default(), Style { colours: false, width: Some(width) })
    }

    /// Returns what is shown of a file that was not checked for this reason.
    fn shown_of_unchecked(reason: &str, shell_can_check: bool) -> String {
        let mut node = Node::new("/a b.db", "3.50.2");
        let mut add = |name: &str, value| {
            node.facts.push(Fact { section: "integrity".into(), name: name.into(), value });
        };
        add("quick_check", format!("unknown: {reason}"));
        if shell_can_check {
            add("shell_can_check", "yes".to_owned());
        }
        let evidence = Evidence { nodes: vec![node], ..Evidence::default() };
        assert!(!is_complete(&evidence));
        let report = Report { broker: "sqlite:///a b.db".to_owned(), complete: false, findings: &[] };
        text(&report, &evidence, Style { colours: false, width: None })
    }

    #[test]
    fn a_file_that_is_too_large_to_be_checked_was_not_examined_completely() {
        let text = shown_of_unchecked("the file is too large to be read in a second", true);
        assert!(text.contains("Nothing is wrong in what was looked at.\n"), "{text}");
        assert!(text.contains("read in a second); in a shared file"), "{text}");
        assert!(text.ends_with("is not damage: sqlite3 '/a b.db' 'PRAGMA quick_check'\n"), "{text}");
    }

    #[test]
    fn no_shell_is_named_for_a_file_with_a_function_that_only_its_program_has() {
        let text = shown_of_unchecked("unknown function: theirs()", false);
        assert!(text.ends_with("not checked for damage (unknown function: theirs())\n"), "{text}");
    }

    #[test]
    fn a_repair_is_one_line_at_every_width() {
        let repair = format!("asynq task run-all --queue=default --state aggregating --group={}", "g".repeat(150));
        for width in 20..250 {
            let text = shown(&repair, width);
            assert!(text.contains(&repair), "{width} columns:\n{text}");
        }
    }

    #[test]
    fn a_command_with_a_name_that_cannot_be_shown_is_not_shown() {
        let text = shown("asynq task run --queue=default -- 'a\u{1b}b'", 80);
        assert!(text.contains("see --json") && !text.contains("asynq task run"), "{text}");
    }

    #[test]
    fn long_lines_go_on_below_their_label() {
        let style = |width| Style { colours: false, width };
        assert_eq!(wrapped("means", "one two", style(None)), "  means  one two\n");
        assert_eq!(
            wrapped("means", "a text of words that is long", style(Some(30))),
            "  means  a text of words that\n         is long\n"
        );
    }
}
