//! The table of the comparison.

use super::{
    Extent, Found, OURS, Table,
    plan::{ROWS, Row},
    program::{ASYNQ, Program},
};
use crate::{median::Median, suite, workload::CYCLE};

/// Returns the section of RESULTS.md without its heading.
pub(super) fn section(extent: &Extent, facts: &str, programs: &[Program], skipped: &[String], table: &Table) -> String {
    let mut text = facts.to_owned();
    text += &format!("- load of the machine at the end: {}\n", suite::load());
    text += &format!(
        "- medians of {} runs in turns on one redis-server (the backlog of {} tasks and the idle workers, which are watched for {CYCLE} s: one run); ± is half of the range\n",
        extent.runs, extent.waiting
    );
    text += "- the profile `plain` is that of `cargo build --release` in a new program\n";
    for line in skipped {
        text += &format!("- {line}\n");
    }
    if extent.quick {
        text += "- **quick: a fraction of the tasks; these figures only show that everything works**\n";
    }
    text += "\nThe same JSON of 100 bytes, read by a job that does nothing else. Concurrency and queues are set, and where a default would stand in the way one thing more: \
             ours archives as many failed tasks as there are and serves the one job, BullMQ deletes jobs that succeeded as the others do, rusty-sidekiq has a connection for each worker, and \
             apalis spawns each task. All else is the library's default. The time of a drain has the connections of the worker in it, and that of an enqueue ends before the tasks that wait are counted. *×* says how many times as good ours is. A run fails unless each of its tasks has run once, before a large backlog \
             100,000 of them and none twice, or after an enqueue unless each task waits. asynq has no call for many tasks: its programs \
             enqueue them from a goroutine each. For *1 ms away* a proxy on this machine holds each byte back for half a millisecond in either \
             direction.\n\n";

    let mut head = vec!["figure".to_owned(), OURS.to_owned()];
    for program in programs {
        head.extend([format!("{} {}", program.name, program.version), "×".to_owned()]);
    }
    head.extend(["× asynq to reach", "reach for", "reached"].map(str::to_owned));
    let mut notes = Vec::new();
    text += &suite::table(&head, ROWS.iter().map(|row| cells(row, programs, table, &mut notes)));
    for (number, note) in notes.iter().enumerate() {
        text += &format!("\n{}. {note}", number + 1);
    }
    text + "\n"
}

fn cells(row: &Row, programs: &[Program], table: &Table, notes: &mut Vec<String>) -> Vec<String> {
    let found = table.get(&(OURS, row.key));
    let ours = found.and_then(|found| row.figure.median(&found.runs));
    let mut cells = vec![row.title.to_owned(), cell(OURS, found, ours, notes)];
    let mut beside_asynq = None;
    for program in programs {
        let found = table.get(&(program.name, row.key));
        let theirs = found.and_then(|found| row.figure.median(&found.runs));
        let times = ours.zip(theirs).map(|(ours, theirs)| row.figure.times(ours.figure, theirs.figure));
        // A quotient of zeros is left out.
        let times = times.filter(|times| times.is_finite());
        if program.name == ASYNQ {
            beside_asynq = times;
        }
        cells.extend([
            cell(program.name, found, theirs, notes),
            times.map(|times| format!("{times:.1}")).unwrap_or_default(),
        ]);
    }
    let goal = |figure: fn((f64, f64)) -> f64| row.goal.map(|goal| format!("≥ {}", figure(goal))).unwrap_or_default();
    let has_failed = ours.is_none() && found.is_some_and(|found| found.missing.is_some());
    let reached = row.goal.and_then(|(reach, _)| match beside_asynq {
        Some(times) if times >= reach => Some("yes"),
        None if !has_failed => None,
        _ => Some("**no**"),
    });
    cells.extend([goal(|goal| goal.0), goal(|goal| goal.1), reached.unwrap_or_default().to_owned()]);
    cells
}

/// Returns the figure of a library, with the number of the note that says why there is none, or not one of every round.
fn cell(library: &str, found: Option<&Found>, median: Option<Median>, notes: &mut Vec<String>) -> String {
    let cell = median.map_or_else(|| "–".to_owned(), Median::formatted);
    let Some(reason) = found.and_then(|found| found.missing.as_ref()) else { return cell };
    let note = format!("{library}: {reason}");
    let number = notes.iter().position(|known| *known == note).unwrap_or_else(|| {
        notes.push(note);
        notes.len() - 1
    });
    format!("{cell} ({})", number + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_missed_where_ours_failed_and_open_where_nothing_was_compared() {
        let row = ROWS.iter().find(|row| row.goal.is_some()).unwrap();
        let failed = Found { runs: Vec::new(), missing: Some("failed: no memory".to_owned()) };
        for (table, reached) in [(Table::from([((OURS, row.key), failed)]), "**no**"), (Table::new(), "")] {
            assert_eq!(cells(row, &[], &table, &mut Vec::new()).last().map(String::as_str), Some(reached));
        }
    }
}
