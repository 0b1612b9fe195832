//! Runs the tests of `cargo test --workspace`, several test binaries at a time: most tests wait for a lease, a server or a
//! browser, and one binary after another leaves the processors idle.
//!
//! Tests in a module named `timing` measure real time. They are left out of that and run at the end, one at a time in each
//! binary, two binaries side by side where there are two processors. A test that hangs is named and its binary killed; a test
//! that skips itself is counted and its reason printed. The last line is `N passed, N failed, N skipped`.

mod collect;
mod monitor;
mod plan;
mod report;
mod suite;
mod temporary;

use std::{
    collections::VecDeque,
    env,
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::{Mutex, PoisonError, mpsc},
    thread,
};

use crate::{
    report::Report,
    suite::{Ended, Part, Suite},
};

fn main() -> ExitCode {
    if let Some(folder) = env::var_os(collect::FOLDER) {
        collect::write_down(&PathBuf::from(folder), env::args_os().skip(1).collect());
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<String> = env::args().skip(1).collect();
    if wanted.iter().any(|word| word.starts_with('-')) {
        eprintln!(
            "usage: scripts/lanes [part of a binary's name]…\n\nWithout a name all test binaries and doc tests run."
        );
        return ExitCode::from(2);
    }
    let processors = thread::available_parallelism().map_or(2, usize::from);
    let Some(_lock) = lock(&target()) else {
        eprintln!(
            "scripts/lanes: another run is under way in this target folder; wait for its end, or set CARGO_TARGET_DIR to another folder"
        );
        return ExitCode::FAILURE;
    };
    let logs = target().join("lanes");
    let _ = fs::remove_dir_all(&logs);
    fs::create_dir_all(&logs).expect("a folder in the target folder can be made");

    let mut suites = match collect::suites(&logs) {
        Ok(suites) => suites,
        Err(message) => {
            eprintln!("{message}\nscripts/lanes: cargo does not build the tests");
            return ExitCode::FAILURE;
        }
    };
    if let Some(word) = unmatched(&wanted, &suites) {
        let names: Vec<&str> = suites.iter().map(|suite| suite.name.as_str()).collect();
        eprintln!("scripts/lanes: no name of a test binary contains {word:?}; the names are {}", names.join(", "));
        return ExitCode::from(2);
    }
    if let Err(message) = temporary::give(&mut suites) {
        eprintln!("scripts/lanes: {message}");
        return ExitCode::FAILURE;
    }
    suites.retain(|suite| wanted.is_empty() || wanted.iter().any(|word| suite.name.contains(word.as_str())));
    suites.sort_by_key(|suite| plan::of(&suite.name).place);
    let mut report = Report::new(logs);
    let at_a_time: usize = env::var("LANES").ok().and_then(|lanes| lanes.parse().ok()).unwrap_or(processors * 3);
    let mut timed = thread::scope(|scope| {
        // Every binary is asked for its timing tests, beside the tests of the parallel part rather than after them.
        let timed = scope.spawn(|| suites.iter().filter(|suite| suite.has_timing()).collect::<Vec<_>>());
        run(suites.iter().collect(), Part::Parallel { processors }, at_a_time, &mut report);
        timed.join().expect("the listing of the timing tests does not panic")
    });
    timed.sort_by_key(|suite| plan::timing_place(&suite.name));
    run(timed, Part::Timing, at_a_time.min(plan::timing_at_a_time(processors)), &mut report);
    if report.close() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs `part` of each suite, `at_a_time` of them side by side, in their order.
fn run(suites: Vec<&Suite>, part: Part, at_a_time: usize, report: &mut Report) {
    let queue: Mutex<VecDeque<&Suite>> = Mutex::new(suites.into());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let (ended, results) = mpsc::channel::<Ended>();
    thread::scope(|scope| {
        for _ in 0..at_a_time {
            let ended = ended.clone();
            scope.spawn(move || {
                while let Some(suite) = next() {
                    let _ = ended.send(suite.run(part));
                }
            });
        }
        drop(ended);
        for result in results {
            report.add(result);
        }
    });
}

/// Returns a word that no suite's name contains, such as a misspelt one: nothing would run for it, and nothing would fail.
fn unmatched<'a>(wanted: &'a [String], suites: &[Suite]) -> Option<&'a str> {
    wanted.iter().map(String::as_str).find(|word| !suites.iter().any(|suite| suite.name.contains(*word)))
}

/// Locks the target folder for as long as the file is open; `None` while another run has it locked. A file system without locks lets
/// every run begin.
fn lock(target: &Path) -> Option<File> {
    fs::create_dir_all(target).expect("a target folder can be made");
    let file = File::create(target.join("lanes.lock")).expect("a file in the target folder can be made");
    let is_taken = matches!(file.try_lock(), Err(TryLockError::WouldBlock));
    (!is_taken).then_some(file)
}

/// Cargo's target folder.
fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from)
}

/// Cargo, by the name from the environment.
fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_in_the_same_target_folder_is_refused() {
        let target = env::temp_dir().join(format!("lanes-test-lock-{}", std::process::id()));
        let first = lock(&target);
        assert!(first.is_some());
        assert!(lock(&target).is_none());
        fs::remove_dir_all(&target).expect("the folder is removed");
    }

    #[test]
    fn a_word_that_no_name_contains_is_found() {
        let suite = |name: &str| Suite {
            name: name.to_owned(),
            folder: PathBuf::new(),
            command: Vec::new(),
            variables: Vec::new(),
        };
        let suites = [suite("asynq-tests::conformance"), suite("asynq-tests::it")];
        let unmatched = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            super::unmatched(&words, &suites).map(str::to_owned)
        };
        assert_eq!(unmatched(&[]), None);
        assert_eq!(unmatched(&["conf", "::it"]), None);
        assert_eq!(unmatched(&["conf", "conformence"]).as_deref(), Some("conformence"));
    }
}
