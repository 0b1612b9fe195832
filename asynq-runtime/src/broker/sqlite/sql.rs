//! Gives each statement below `sql/` its Rust name, and the table prefix of a shared file. A file holds the statements of one
//! contract or of one table.
//!
//! In a file, a line `-- name: take` begins a statement, which is `sql::consume::TAKE` in Rust if the file is `sql/consume.sql`.
//!
//! Tables are always written `main.<table>`, which lets the same text serve a file of our own and one that belongs to another
//! program, where our tables are called `asynq_<table>`.

use std::sync::LazyLock;

/// How our tables are called in this file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// The file is ours: `task`.
    Plain,
    /// The file is another program's (`?shared=1`): `asynq_task`.
    Prefixed,
}

/// One statement.
#[derive(Debug)]
pub(super) struct Sql {
    plain: LazyLock<&'static str>,
    prefixed: LazyLock<String>,
}

impl Sql {
    /// Returns the text to prepare.
    pub(super) fn text(&self, names: Names) -> &str {
        match names {
            Names::Plain => &self.plain,
            Names::Prefixed => &self.prefixed,
        }
    }
}

/// Returns `sql` with every table and index of ours called `asynq_…`. Where SQLite allows no `main.`, in the table of an index
/// and in triggers, a table is written `[task]`.
pub(super) fn prefix(sql: &str) -> String {
    sql.replace("main.", "main.asynq_")
        .replace("INDEXED BY ", "INDEXED BY asynq_")
        .replace(" ON task(", " ON asynq_task(")
        .replace('[', "[asynq_")
}

/// The beginning of the line that begins a statement.
const NAME: &str = "-- name: ";

/// Returns the statement called `name`, in upper case or lower case, of a file: without its comment lines, because the statement
/// cache hashes the whole text at every use, and without the semicolon at its end. Where the file lacks it, returns the name, which
/// SQLite refuses; a test compares the names of the files with those here.
fn statement<'a>(file: &'a str, name: &'a str) -> &'a str {
    let mut parts = file.split(NAME).filter_map(|part| part.split_once('\n'));
    let Some((_, mut text)) = parts.find(|(first, _)| first.trim_end().eq_ignore_ascii_case(name)) else { return name };
    while text.starts_with("--") {
        text = text.split_once('\n').map_or("", |(_, rest)| rest);
    }
    text.split_once(';').map_or(text, |(statement, _)| statement)
}

macro_rules! statements {
    ($($contract:ident { $($name:ident),* })*) => {
        $(pub(super) mod $contract {
            use super::{LazyLock, Sql, prefix, statement};

            const STATEMENTS: &str = include_str!(concat!("sql/", stringify!($contract), ".sql"));
            $(pub(in super::super) static $name: Sql = Sql {
                plain: LazyLock::new(|| statement(STATEMENTS, stringify!($name))),
                prefixed: LazyLock::new(|| prefix(&$name.plain)),
            };)*
        })*

        #[cfg(test)]
        pub(super) static ALL: &[(&str, &Sql)] =
            &[$($((concat!(stringify!($contract), "::", stringify!($name)), &$contract::$name)),*),*];
    };
}

statements! {
    queue { FIND, ADD, WITH_TASKS, WITH_SETS }
    task { FIND, RUN, DELETE, SET_EXTRA }
    body { DELETE, MESSAGE, SHOWN, SET_MESSAGE, STORE, SET_RESULT, CHECKPOINT, SET_CHECKPOINT, FORGET_CHECKPOINT }
    lock { TAKE, TRANSFER, PAGE, HOLDER, HELD, RELEASE, RELEASE_OF, EXTEND }
    failure { LAST, ADD, LONG, CUT, FORGET }
    count { TALLY, STAT, FORGET_DAYS, WITH_OLD_DAYS }
    queue_ends { HEAD, TAIL }
    produce { REPLACE, INSERT, TAKEN_BY }
    in_transaction { ENQUEUE }
    consume { READY, READY_ANYWHERE, NEXT, TAKE, AGAIN, SET_ASIDE, RENAME }
    settle { DONE, HELD, RECEIPT, COMPLETE, RETRY, ARCHIVE, REQUEUE, PROGRESS }
    maintain {
        DUE, NEXT_DUE, FORWARD, JOIN_GROUP, EXTEND, LAPSED, NEXT_LAPSE, LAPSES, LEFT_BY, LEFT_IN, REQUEUE, ENDLESS,
        END_LEASE, GHOSTS, EXPIRED, OLDEST_ARCHIVED
    }
    groups {
        STATS, NEXT, SPAN, REACHES, WAITING, OPEN_SET, JOIN_SET, SET, MEMBERS, END_SET, NOTE_CRASH, RELEASE, FORGET_SET,
        SHORTEN, OVER
    }
    semaphore { FORGET, OUT, ACQUIRE, RELEASE, SWEEP }
    shapes { KEEP, FIND, EXTEND, FORGET }
    presence {
        SHOW, FORGET_NAME, LEAVE, ALIVE, EVERYONE, RUNS_SOMETHING, ASK_CANCEL, FORGET_SIGNALS, LAST_SIGNAL, NEW_CANCELS
    }
    inspect {
        QUEUES, KNOWN, QUEUE, COUNTS, UNENDED, STAT, FIRST, PAGE, PAGE_START, PAGE_START_BACK, PAGE_ACTIVE, PAGE_GROUP,
        PAGE_GROUP_START, TASK, STATE, QUEUES_OF, FAILURES, LAST_ERROR, HISTORY, WEIGHT, PAUSE, RESUME
    }
    diagnose { FILE, SOUND, LOCKS, NUMBER }
    repair {
        IN_STATE, IN_GROUP, ARCHIVE, MOVE, SET_LOCK, LOCK_UNTIL, UNLOCK, ORPHAN_RETRY, ORPHAN_ARCHIVE,
        HAS_TASKS, FORGET_ULOCK, FORGET_STAT, FORGET_TALLY, FORGET_BATCH, FORGET_QUEUE
    }
    schedule {
        ENTRY, KEEP, PAUSE, FORGET, MARKED, MARK, LEADER, SET_LEADER, RESIGN, SHOW, WITHDRAW,
        SHOWN, RECORD, COUNT, TRIM, HISTORY_UNTIL, HISTORY, FORGET_ENQUEUED, FORGET_HISTORY, OVER_HISTORIES, SWEEP_TICKS,
        SWEEP_ENTRIES, SWEEP_SHOWN, SWEEP_LEADS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::TaskState;

    #[test]
    fn a_statement_is_found_by_its_name_and_gains_the_prefix_of_a_shared_file() {
        let file = "-- a\n\n-- name: one\n-- b\n-- c\nSELECT 1 -- d\n;\n\n-- name: one_more\nSELECT 2;";
        assert_eq!([statement(file, "ONE"), statement(file, "ONE_MORE")], ["SELECT 1 -- d\n", "SELECT 2"]);
        assert_eq!(
            prefix("SELECT seq FROM main.task AS t INDEXED BY task_lease"),
            "SELECT seq FROM main.asynq_task AS t INDEXED BY asynq_task_lease"
        );
        assert_eq!(
            prefix("CREATE INDEX main.task_at ON task(q, state, at);"),
            "CREATE INDEX main.asynq_task_at ON asynq_task(q, state, at);"
        );
        assert_eq!(
            prefix("DELETE FROM [failure] WHERE seq = old.seq"),
            "DELETE FROM [asynq_failure] WHERE seq = old.seq"
        );
    }

    #[test]
    fn every_statement_of_the_files_has_one_name_here_and_one_semicolon() {
        // The package is that of the runtime, or the one of its tests.
        let above = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
        let mut folders = above.map(|above| above.join("asynq-runtime/src/broker/sqlite/sql"));
        let folder = folders.find(|folder| folder.is_dir()).unwrap();
        let mut written = Vec::new();
        for file in std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).filter(|path| path.is_file()) {
            let (contract, text) =
                (file.file_stem().unwrap().to_str().unwrap(), std::fs::read_to_string(&file).unwrap());
            for part in text.split(NAME).skip(1) {
                let (name, rest) = part.split_once('\n').unwrap();
                let statement: Vec<&str> = rest.lines().skip_while(|line| line.starts_with("--")).collect();
                let statement = statement.join("\n");
                let after = statement.split_once(';').map(|(_, after)| after.trim());
                assert_eq!(after, Some(""), "the statement {contract}::{name} has no semicolon at its end, or two");
                written.push(format!("{contract}::{}", name.to_uppercase()));
            }
        }
        let mut here: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
        written.sort_unstable();
        here.sort_unstable();
        assert_eq!(here, written);
    }

    #[test]
    fn each_number_of_a_state_has_its_name_beside_it() {
        let mut named = 0;
        for (file, sql) in ALL {
            let text = sql.text(Names::Plain);
            for (at, _) in text.match_indices("state = ") {
                let value = &text[at + "state = ".len()..];
                let Some(number) = value.chars().next().and_then(|first| first.to_digit(10)) else { continue };
                let state = TaskState::from_number(i64::from(number)).unwrap();
                assert!(value.starts_with(&format!("{number} /* {state} */")), "{file}: {text}");
                named += 1;
            }
        }
        assert!(named > 40, "{named}");
    }
}
