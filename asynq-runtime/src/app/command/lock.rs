//! `jobs --lock` and `jobs --check`: the file of all shapes that were shipped.

use std::{fs, io, path::Path};

use super::{AppError, print};
use crate::job::{JobsLock, Registry};

/// Adds the current shapes to the file.
pub(in super::super) fn lock(file: &Path) -> Result<(), AppError> {
    let name = file.display();
    let known = match fs::read_to_string(file) {
        Ok(text) => parse(file, &without_conflicts(&text))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => JobsLock::default(),
        Err(source) => return Err(AppError::System { what: format!("cannot read {name}"), source }),
    };
    let registry = Registry::linked()?;
    registry.check_not_empty()?;
    let lock = known.with(&registry);
    let written = fs::write(file, lock.to_string());
    written.map_err(|source| AppError::System { what: format!("cannot write {name}"), source })?;
    // A shape may be known twice, from both sides of a conflict.
    let new = lock.shapes().iter().filter(|shape| !known.shapes().contains(shape)).count();
    let all = match lock.shapes().len() {
        1 => "1 shape".to_owned(),
        all => format!("{all} shapes"),
    };
    print(format_args!("{name}: {all}, {new} new\n"))
}

fn parse(file: &Path, text: &str) -> Result<JobsLock, AppError> {
    JobsLock::parse(text).map_err(|source| AppError::Lock { file: file.display().to_string(), source })
}

/// Returns the text without the marks of a conflict in version control. The file is a set: the lines of both sides belong to it.
fn without_conflicts(text: &str) -> String {
    let is_mark = |line: &&str| ["<<<<<<<", "|||||||", "=======", ">>>>>>>"].iter().any(|mark| line.starts_with(mark));
    text.lines().filter(|line| !is_mark(line)).flat_map(|line| [line, "\n"]).collect()
}

/// Reports for each shape in the file whether this program can run waiting tasks of that shape.
pub(in super::super) fn check(file: &Path) -> Result<(), AppError> {
    let what = || format!("cannot read {0}, which `jobs --lock={0}` writes", file.display());
    let text = fs::read_to_string(file).map_err(|source| AppError::System { what: what(), source })?;
    let registry = Registry::linked()?;
    registry.check_not_empty()?;
    registry.check_upgrades()?;
    let findings = parse(file, &text)?.check(&registry);
    let found = findings.iter().filter(|finding| !finding.is_safe()).count();
    print(findings.iter().map(|finding| format!("{finding}\n")).collect::<String>())?;
    match found {
        0 => Ok(()),
        found => Err(AppError::UnsafeDeploy { found, file: file.display().to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_in_version_control_leaves_the_lines_of_both_sides() {
        let conflict = "a\n<<<<<<< ours\nb\n=======\nc\n>>>>>>> theirs\nd";
        assert_eq!(without_conflicts(conflict), "a\nb\nc\nd\n");
    }
}
