//! An assertion that the deploy of a program strands no waiting task.

use std::path::Path;

use crate::job::{JobsLock, Registry, RegistryError};

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
/// if the file cannot be read, or the binary has no jobs. A relative path begins in the package's folder, where cargo runs tests.
#[track_caller]
pub fn assert_jobs_locked(file: impl AsRef<Path>) {
    if let Err(wrong) = check(file.as_ref(), &Registry::linked()) {
        panic!("{wrong}");
    }
}

fn check(file: &Path, linked: &Result<Registry, RegistryError>) -> Result<(), String> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        let remedy =
            "write it by the command `jobs --lock` of the program, or by `JobsLock::with` where it has no commands";
        format!("{} cannot be read ({error}); {remedy}", file.display())
    })?;
    let lock = JobsLock::parse(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    let registry = linked.as_ref().map_err(RegistryError::to_string)?;
    registry.check_not_empty().and_then(|()| registry.check_upgrades()).map_err(|error| error.to_string())?;
    let findings = lock.check(registry);
    let findings: Vec<String> = findings.iter().filter(|found| !found.is_safe()).map(ToString::to_string).collect();
    if findings.is_empty() { Ok(()) } else { Err(format!("{}:\n{}", file.display(), findings.join("\n"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_without_jobs_is_told_apart_from_a_program_whose_jobs_are_gone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.lock");
        let none = Ok(Registry::default());
        assert!(check(&file, &none).unwrap_err().contains("`JobsLock::with` where it has no commands"));
        std::fs::write(&file, "").unwrap();
        assert!(check(&file, &none).unwrap_err().starts_with("this program has no jobs"));
    }
}
