//! `jobs --lock` and `jobs --check`: the file of all shapes that were shipped.

use std::{fs, io, path::Path};

use super::{AppError, print};
use crate::job::{JobsLock, Registry};

/// Adds the current shapes to the file.
pub(in super::super) fn lock(file: &Path) -> Result<(), AppError> {
    let known = match fs::read_to_string(file) {
        Ok(text) => JobsLock::parse(&text)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => JobsLock::default(),
        Err(source) => return Err(AppError::System { what: "cannot read the file of --lock", source }),
    };
    let lock = known.with(&Registry::linked()?);
    let written = fs::write(file, lock.to_string());
    written.map_err(|source| AppError::System { what: "cannot write the file of --lock", source })?;
    let new = lock.shapes().len() - known.shapes().len();
    print(format_args!("{}: {} shapes, {new} of them new\n", file.display(), lock.shapes().len()))
}

/// Reports for each shape in the file whether this program can run waiting tasks of that shape.
pub(in super::super) fn check(file: &Path) -> Result<(), AppError> {
    let text = fs::read_to_string(file);
    let text = text.map_err(|source| AppError::System { what: "cannot read the file of --check", source })?;
    let findings = JobsLock::parse(&text)?.check(&Registry::linked()?);
    let found = findings.iter().filter(|finding| !finding.is_safe()).count();
    print(findings.iter().map(|finding| format!("{finding}\n")).collect::<String>())?;
    match found {
        0 => Ok(()),
        found => Err(AppError::UnsafeDeploy { found, file: file.display().to_string() }),
    }
}
