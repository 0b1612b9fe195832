//! An assertion that the deploy of a program strands no waiting task.

use std::path::Path;

use crate::job::{JobsLock, Registry};

/// Asserts that the linked jobs read tasks of every shape in `file`, a `jobs.lock` that `jobs --lock` wrote, and that the
/// file has all of their shapes.
///
/// ```no_run
/// // In a program of `main!`: #[test]
/// fn a_deploy_strands_no_waiting_task() {
///     asynq_runtime::testing::assert_jobs_locked("jobs.lock");
/// }
/// # a_deploy_strands_no_waiting_task();
/// ```
///
/// The jobs are those of the test's own binary. A job that only tests have, or a feature, is not in the file that the program
/// wrote: put this assertion into a test binary without such jobs, and lock and test with the same features.
///
/// # Panics
///
/// If a shape cannot be read or is not in the file: the message has a line for each such shape that says what to write. Also
/// if the file cannot be read. A relative path begins in the package's folder, where cargo runs tests.
#[track_caller]
pub fn assert_jobs_locked(file: impl AsRef<Path>) {
    let file = file.as_ref();
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| {
        panic!("{} cannot be read ({error}); write it by the command `jobs --lock` of the program", file.display())
    });
    let lock = JobsLock::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let registry = Registry::linked().unwrap_or_else(|error| panic!("{error}"));
    registry.check_upgrades().unwrap_or_else(|error| panic!("{error}"));
    let findings: Vec<String> =
        lock.check(&registry).iter().filter(|found| !found.is_safe()).map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{}:\n{}", file.display(), findings.join("\n"));
}
