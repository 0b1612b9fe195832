//! The README tells the figures of bench/RESULTS.md, and that page has the rows that are measured.
//!
//! `BLESS=1 cargo test -p asynq-repository-tests measured` writes the README's figures anew; read the difference.

use std::{collections::BTreeSet, fs};

use crate::tree::{none, read, root};

/// The marks around the figures in the README.
const BEGIN: &str = "<!-- From bench/RESULTS.md, by `BLESS=1 cargo test -p asynq-repository-tests measured`. -->\n";
const END: &str = "<!-- The end of these figures. -->\n";
/// Most characters of a line of prose among them.
const WIDTH: usize = 140;

/// The rows of the README's table, each with those of the page. Every row of the page has its place.
const ROWS: [(&str, &[&str]); 11] = [
    (
        "a worker at concurrency 10 / 100 / 1,000",
        &["drain, concurrency 10, tasks/s", "drain, concurrency 100, tasks/s", "drain, concurrency 1,000, tasks/s"],
    ),
    ("the same at 100 before five million waiting tasks", &["large backlog, drain, concurrency 100, tasks/s"]),
    ("the same at 100 over 1,000 queues", &["drain over 1,000 queues, concurrency 100, tasks/s"]),
    (
        "CPU of the worker / of Redis for a task, at 100",
        &[
            "drain, concurrency 100, CPU of the worker, µs per task",
            "drain, concurrency 100, CPU of Redis, µs per task",
        ],
    ),
    (
        "payloads of 100 kB: a worker / 64 callers that enqueue",
        &["payload of 100 kB, drain, concurrency 100, tasks/s", "payload of 100 kB, enqueue, 64 callers, tasks/s"],
    ),
    ("64 producers and a worker, end to end", &["end to end, 64 producers, concurrency 100, tasks/s"]),
    ("64 callers that enqueue", &["enqueue, 64 callers, tasks/s"]),
    ("1,000 tasks per call", &["enqueue, 1,000 per call, tasks/s"]),
    (
        "one producer that awaits each call: tasks / p50 of a call",
        &["enqueue, one awaiting producer, tasks/s", "enqueue, one awaiting producer, p50, ms"],
    ),
    (
        "start of a task on an idle system, p50 / p99",
        &["start on an idle system, p50, ms", "start on an idle system, p99, ms"],
    ),
    (
        "commands of an idle worker of one queue / of 1,000",
        &[
            "idle worker, one queue, commands of Redis per second",
            "idle worker, 1,000 queues, commands of Redis per second",
        ],
    ),
];

/// A table of the page.
struct Table<'t> {
    head: Vec<&'t str>,
    rows: Vec<Vec<&'t str>>,
}

impl<'t> Table<'t> {
    /// Reads the only table of a section.
    fn read(section: &'t str) -> Self {
        let cells = |line: &'t str| -> Vec<&'t str> { line.trim_matches('|').split('|').map(str::trim).collect() };
        let mut lines = section.lines().filter(|line| line.starts_with('|')).map(cells);
        let head = lines.next().expect("the section has a table");
        // Dashes stand below the head.
        Self { head, rows: lines.skip(1).collect() }
    }

    /// Returns the row of the figure that begins so.
    fn row(&self, figure: &str) -> &[&'t str] {
        let row = self.rows.iter().find(|row| row[0].starts_with(figure));
        row.unwrap_or_else(|| panic!("bench/RESULTS.md lacks {figure:?}"))
    }

    /// Returns the cell of a row in the first column whose head ends so.
    fn cell(&self, row: &[&'t str], head: &str) -> &'t str {
        let column = self.head.iter().position(|cell| cell.ends_with(head));
        row[column.unwrap_or_else(|| panic!("bench/RESULTS.md lacks the column {head:?}"))]
    }

    /// Returns the rows that have not reached their goal, each with its `figure` and the goal.
    fn missed(&self, figure: impl Fn(&[&'t str], &str) -> String) -> Vec<String> {
        let missed = self.rows.iter().filter(|row| self.cell(row, "reached") == "**no**");
        let missed = missed.map(|row| (row, self.cell(row, "to reach")));
        missed.map(|(row, goal)| format!("- {}: {}, goal {goal}\n", row[0], figure(row, goal))).collect()
    }
}

/// Writes the list of the figures that have not reached their goals; nothing where all have.
fn short_of_goals(goals: &Table<'_>, peers: &Table<'_>) -> String {
    let mut missed =
        goals.missed(|row, goal| goals.cell(row, if goal.ends_with('%') { "share" } else { "measured" }).to_owned());
    let go = peers.head.iter().position(|head| head.starts_with("asynq (Go)")).map_or(0, |column| column + 1);
    missed.extend(peers.missed(|row, _| match row[go] {
        "" => "failed".to_owned(),
        times => format!("{times} times asynq (Go)"),
    }));
    if missed.is_empty() {
        return String::new();
    }
    format!(
        "\nShort of our goals (a drain is a worker that works off waiting tasks; % is of the figure that bench/RESULTS.md has beside it):\n\n{}",
        missed.concat()
    )
}

/// Returns the least and the greatest figure of a cell such as `31020 ±10 %`.
fn range(cell: &str) -> Option<(f64, f64)> {
    let mut words = cell.split(' ');
    let median: f64 = words.next()?.parse().ok()?;
    let spread = words.next().and_then(|word| word.strip_prefix('±')?.parse::<f64>().ok()).unwrap_or(0.0) / 100.0;
    Some((median * (1.0 - spread), median * (1.0 + spread)))
}

/// Writes how many times as good ours is as the library of this column. The notes of the page say why a cell is empty.
fn times(row: &[&str], column: usize, notes: &str) -> String {
    let Ok(times) = row[column + 1].parse::<f64>() else {
        // Beside a failed run of ours, no library has a quotient.
        let number = between(if row[1].starts_with('–') { row[1] } else { row[column] }, "(", ")");
        let note = number.and_then(|number| notes.lines().find(|line| line.starts_with(&format!("{number}. "))));
        let missing = if note.is_some_and(|note| note.contains(": failed: ")) { "failed" } else { "–" };
        return missing.to_owned();
    };
    let text = if times < 10.0 { format!("{times:.1}") } else { format!("{times:.0}") };
    let ranges = range(row[1]).zip(range(row[column]));
    if ranges.is_some_and(|(ours, theirs)| ours.0 <= theirs.1 && theirs.0 <= ours.1) {
        format!("({text})")
    } else if times < 1.0 {
        format!("**{text}**")
    } else {
        text
    }
}

/// Breaks a paragraph into lines.
fn wrapped(text: &str) -> String {
    let (mut lines, mut width) = (String::new(), 0);
    for word in text.split_whitespace() {
        let length = word.chars().count();
        let is_first = width == 0 || width + 1 + length > WIDTH;
        if !lines.is_empty() {
            lines.push(if is_first { '\n' } else { ' ' });
        }
        width = if is_first { length } else { width + 1 + length };
        lines += word;
    }
    lines + "\n"
}

/// Writes the README's figures.
fn figures(page: &str) -> String {
    let section = section_of(page, "Beside other libraries");
    let (goals, peers) = (Table::read(section_of(page, "Figures to reach")), Table::read(section));
    let number = |figure: &str| goals.cell(goals.row(figure), "measured").parse::<f64>().expect("the row has a figure");
    let ms = |figure: &str| format!("{:.1} ms", number(figure));
    let machine = between(page, "- machine: ", "\n").and_then(|machine| machine.split(", ").nth(1));
    let speed = format!(
        "No promise, but measured: on an idle system of {} a job starts {} after another process called `enqueue` on SQLite (p50; p99, \
         the second longest of 100: {}) and {} after it on Redis (p99 {}); on Redis a worker settles {:.0},000 tasks a second at \
         concurrency 100, which is {} of the rate of bare scripts for the same tasks{}.",
        machine.expect("the page names the machine"),
        ms("latency, SQLite, two processes, p50"),
        ms("latency, SQLite, two processes, p99"),
        ms("latency, Redis, enqueued by another process, p50"),
        ms("latency, Redis, enqueued by another process, p99"),
        number("drain, Redis, concurrency 100,") / 1_000.0,
        goals.cell(goals.row("drain, Redis, concurrency 100,"), "share"),
        at_commit(page),
    );

    let comparison = format!(
        "The same tasks in turns on one Redis{}, each library built as its users build it:",
        at_commit(section)
    );
    let told: BTreeSet<&str> = ROWS.iter().flat_map(|(_, titles)| titles.iter().copied()).collect();
    let shown: BTreeSet<&str> = peers.rows.iter().map(|row| row[0]).collect();
    assert_eq!(told, shown, "each row of the comparison is in the README's table");
    let libraries: Vec<usize> = (0..peers.head.len() - 1).filter(|&column| peers.head[column + 1] == "×").collect();
    let names: Vec<&str> = libraries.iter().map(|&column| peers.head[column]).collect();
    let mut table = format!("| ours is so many times as good as | {} |\n", names.join(" | "));
    table += &format!("|{}\n", "---|".repeat(names.len() + 1));
    for (label, titles) in ROWS {
        let cell = |&column: &usize| {
            let times = titles.iter().map(|title| times(peers.row(title), column, section));
            times.collect::<Vec<_>>().join(" / ")
        };
        table += &format!("| {label} | {} |\n", libraries.iter().map(cell).collect::<Vec<_>>().join(" | "));
    }
    let failed: BTreeSet<&str> = section.lines().filter_map(|line| between(line, ". ", ": failed: ")).collect();
    let failed: Vec<&str> = failed.into_iter().collect();
    let failed = match failed.join(", ") {
        names if names.is_empty() => String::new(),
        names => format!(" Failed: runs of {names} ended with an error, which bench/RESULTS.md quotes."),
    };

    let legend = format!(
        "2.0 is twice as fast, or half of the cost. Bold: ours is worse. In brackets: median and spread of both overlap; rows of one run, \
         which are the five million tasks and the idle workers, have no spread. A dash: the library has no such thing. An idle worker of \
         asynq (Go) looks for tasks once a second.{failed}"
    );
    [wrapped(&speed), wrapped(&comparison), table, wrapped(&legend)].join("\n") + &short_of_goals(&goals, &peers)
}

/// Returns the words for the commit that was measured.
fn at_commit(section: &str) -> String {
    between(section, "- commit: ", "\n").map(|commit| format!(" at commit {commit}")).unwrap_or_default()
}

#[test]
fn the_readme_tells_the_figures_that_were_measured_last() {
    let (readme, figures) = (read("README.md"), figures(&read("bench/RESULTS.md")));
    let told = between(&readme, BEGIN, END).expect("marks stand around the figures in README.md");
    if std::env::var_os("BLESS").is_some() {
        let [old, new] = [told, figures.as_str()].map(|text| format!("{BEGIN}{text}{END}"));
        fs::write(root().join("README.md"), readme.replace(&old, &new)).unwrap();
    } else {
        assert!(
            told == figures,
            "README.md tells other figures than bench/RESULTS.md; BLESS=1 writes them anew:\n{figures}"
        );
    }
}

#[test]
fn times_are_told_as_surely_as_they_were_measured() {
    let notes = "\n1. b: a b worker serves one queue\n2. b: failed: exit status: 1\n3. asynq-rs: failed: no memory\n";
    for (ours, theirs, quotient, told) in [
        ("31020 ±10 %", "9433 ±10 %", "3.3", "3.3"),
        ("92661 ±2 %", "8692 ±6 %", "10.7", "11"),
        ("77305", "10285 (2)", "7.5", "7.5"),
        ("80 ±1 %", "120 ±10 %", "0.7", "**0.7**"),
        ("100 ±50 %", "120 ±10 %", "0.8", "(0.8)"),
        ("7299 ±114 %", "4231 ±112 %", "1.7", "(1.7)"),
        ("1 ±1 %", "– (1)", "", "–"),
        ("1 ±1 %", "– (2)", "", "failed"),
        ("1 ±1 %", "–", "", "–"),
        ("1 (3)", "– (1)", "", "–"),
        ("– (3)", "9433 ±10 %", "", "failed"),
    ] {
        assert_eq!(times(&["a row", ours, theirs, quotient], 2, notes), told, "{ours} beside {theirs}");
    }
}

#[test]
fn figures_short_of_their_goals_are_a_list_and_a_page_without_any_has_none() {
    let goals = "| figure | measured | beside | share | to reach | reach for | reached |\n|---|\n";
    let peers = "| figure | asynq-rs | asynq (Go) 1 | × | × asynq to reach | reach for | reached |\n|---|\n";
    let list = |of_goals: &str, of_peers: &str| {
        let (goals, peers) = (format!("{goals}{of_goals}"), format!("{peers}{of_peers}"));
        short_of_goals(&Table::read(&goals), &Table::read(&peers))
    };
    assert_eq!(list("| a | 1 | 2 | 50 % | ≥ 50 % |  | yes |\n", "| b | 9 | 3 | 3.0 | ≥ 2 |  | yes |\n"), "");
    let listed = list(
        "| a | 1 | 9 | 11 % | ≥ 50 % |  | **no** |\n| b | 8 |  |  | ≥ 9 |  | **no** |\n",
        "| c | 8 | 4 | 2.0 | ≥ 3 | ≥ 4 | **no** |\n| d | – (1) | 4 |  | ≥ 3 | ≥ 4 | **no** |\n",
    );
    let list = "- a: 11 %, goal ≥ 50 %\n- b: 8, goal ≥ 9\n- c: 2.0 times asynq (Go), goal ≥ 3\n- d: failed, goal ≥ 3\n";
    assert!(listed.ends_with(&format!(":\n\n{list}")), "{listed}");
}

/// The text between two marks, if both are there.
fn between<'t>(text: &'t str, before: &str, after: &str) -> Option<&'t str> {
    Some(text.split_once(before)?.1.split_once(after)?.0)
}

/// The text below the heading of a section.
fn section_of<'p>(page: &'p str, heading: &str) -> &'p str {
    let text = page.split_once(format!("\n## {heading}\n").as_str()).unwrap_or_default().1;
    text.split_once("\n## ").map_or(text, |(section, _)| section)
}

/// The figure of a line of a table.
fn first_cell(line: &str) -> Option<String> {
    between(line, "| ", " |").filter(|cell| line.starts_with("| ") && *cell != "figure").map(str::to_owned)
}

/// The heading of a table that a row of `cost` becomes.
fn table(row: &str) -> Option<String> {
    Some(format!("{}, per {}", between(row, "Row { name: \"", "\"")?, between(row, "per: \"", "\"")?))
}

/// Compares the rows that a program declares with those that a section of the page shows.
fn stale(
    section: &str,
    program: &str,
    declared: impl Fn(&str) -> Option<String>,
    shown: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let page = read("bench/RESULTS.md");
    let shown: BTreeSet<String> = section_of(&page, section).lines().filter_map(shown).collect();
    let declared: BTreeSet<String> = read(program).lines().filter_map(declared).collect();
    assert!(declared.len() > 10, "{program}: {declared:?}");
    let lacks = declared.difference(&shown).map(|row| format!("{section}: the page lacks {row:?}"));
    let has = shown.difference(&declared).map(|row| format!("{section}: {program} does not have {row:?}"));
    lacks.chain(has).collect()
}

/// The lines in which sections say how they were measured, each with its program and its first words.
const EXPLAINED: [(&str, &str, &str); 6] = [
    ("Figures to reach", "bench/src/suite/report.rs", "*Beside* is"),
    ("How cost grows", "bench/src/suite/report.rs", "Drain at concurrency"),
    ("Every run", "bench/src/suite/report.rs", "`broker us`"),
    ("Beside other libraries", "bench/src/peers/report.rs", "- medians of"),
    ("Beside other libraries", "bench/src/peers/report.rs", "The same JSON"),
    ("What a call costs", "bench/src/cost/mod.rs", "Milliseconds, "),
];

/// Known differences between the page and the programs, in the order in which they are found: each is deleted when its section is
/// measured anew.
const UNTIL_MEASURED: [&str; 5] = [
    "Beside other libraries: the page lacks \"Redis 1 ms away, drain, concurrency 10, tasks/s\"",
    "Beside other libraries: the page lacks \"Redis 1 ms away, drain, concurrency 100, tasks/s\"",
    "Beside other libraries: the page lacks \"Redis 1 ms away, enqueue, 64 callers, tasks/s\"",
    "Beside other libraries: the page lacks \"Redis 1 ms away, enqueue, one awaiting producer, tasks/s\"",
    "Beside other libraries: the page lacks the line of bench/src/peers/report.rs that begins with \"The same JSON\"",
];

/// Returns the line of a literal that begins with these words, as its parts between figures.
fn explaining(source: &str, first: &str, cycle: &str) -> Vec<String> {
    let rest = between(source, first, "\"").unwrap_or_else(|| panic!("no literal has {first:?}"));
    // A backslash at the end of a line joins it with the next.
    let text: String = format!("{first}{rest}").split("\\\n").map(str::trim_start).collect();
    let line = text.split("\\n").next().unwrap_or_default().replace("{CYCLE}", cycle);
    line.split(['{', '}']).step_by(2).map(str::to_owned).collect()
}

/// Returns the lines of [`EXPLAINED`] that the page has from an older program, so that its figures are from there, too.
fn explained_otherwise() -> Vec<String> {
    let (page, idle) = (read("bench/RESULTS.md"), read("bench/src/workload/idle.rs"));
    let cycle = between(&idle, "CYCLE: u64 = ", ";").expect("idle workers are watched for so many seconds");
    let is_missing = |(section, program, first): &(&str, &str, &str)| {
        let parts = explaining(&read(program), first, cycle);
        let is_it = |line: &str| {
            let rest = parts.iter().try_fold(line, |rest, part| Some(rest.split_once(part.as_str())?.1));
            rest == Some("")
        };
        let is_there = section_of(&page, section).lines().any(is_it);
        (!is_there).then(|| format!("{section}: the page lacks the line of {program} that begins with {first:?}"))
    };
    EXPLAINED.iter().filter_map(is_missing).collect()
}

#[test]
fn the_page_of_the_benchmarks_has_the_rows_that_are_measured_and_no_others() {
    let goal = |line: &str| between(line.strip_prefix("    goal(")?, "\"", "\"").map(str::to_owned);
    let row = |line: &str| between(line.strip_prefix("    row(")?, "\"", "\"").map(str::to_owned);
    let heading = |line: &str| line.strip_prefix("### ").map(str::to_owned);
    let mut broken = stale("Figures to reach", "bench/src/suite/goals.rs", goal, first_cell);
    broken.extend(stale("Beside other libraries", "bench/src/peers/plan.rs", row, first_cell));
    broken.extend(stale("What a call costs", "bench/src/cost/mod.rs", table, heading));
    broken.extend(explained_otherwise());
    let (known, new): (Vec<_>, Vec<_>) = broken.into_iter().partition(|line| UNTIL_MEASURED.contains(&line.as_str()));
    none(new, "bench/RESULTS.md is stale: run `scripts/bench`, `scripts/bench peers` or `scripts/bench cost`");
    assert_eq!(known, UNTIL_MEASURED, "the page was measured anew: delete all others from UNTIL_MEASURED");
}
