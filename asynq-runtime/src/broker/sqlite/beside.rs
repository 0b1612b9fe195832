//! The files beside a database: their names, owners and modes.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

/// Returns the path of the database with `suffix` at its end.
pub(super) fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut path = OsString::from(database);
    path.push(suffix);
    path.into()
}

/// Gives `file`, which was just created, the mode of the database, and its owner where this program may change owners, as
/// SQLite does with its own files. Every program that may write to the database must be able to use every file beside it,
/// whatever the umask of the first program, and even if root ran the first program.
pub(super) fn belong_to(database: &Path, file: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
        let adopt = || -> io::Result<()> {
            let (of_database, of_file) = (fs::metadata(database)?, fs::metadata(file)?);
            if of_file.permissions().mode() != of_database.permissions().mode() {
                fs::set_permissions(file, fs::Permissions::from_mode(of_database.permissions().mode() & 0o777))?;
            }
            if (of_file.uid(), of_file.gid()) != (of_database.uid(), of_database.gid()) {
                chown(file, Some(of_database.uid()), Some(of_database.gid()))?;
            }
            Ok(())
        };
        // A program that is neither root nor the owner may not change `file`, which then keeps the mode that the umask left.
        let _ = adopt();
    }
    #[cfg(not(unix))]
    let _ = (database, file);
}

/// Gives `folder` the mode and the owner of the database, as [`belong_to`] does for a file, and lets each user who may read the
/// database enter the folder.
pub(super) fn folder_belongs_to(database: &Path, folder: &Path) {
    belong_to(database, folder);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let enter = || -> io::Result<()> {
            let mode = fs::metadata(database)?.permissions().mode() & 0o777;
            fs::set_permissions(folder, fs::Permissions::from_mode(mode | (mode & 0o444) >> 2))
        };
        // An error is ignored as in `belong_to`.
        let _ = enter();
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_beside_a_database_has_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let (database, file) = (folder.path().join("jobs.db"), folder.path().join("jobs.db-next"));
        for path in [&database, &file] {
            fs::write(path, "").unwrap();
        }
        fs::set_permissions(&database, fs::Permissions::from_mode(0o660)).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        belong_to(&database, &file);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o660);
        assert_eq!(beside(&database, "-next"), file);
        let beside = folder.path().join("jobs.db-waiters");
        fs::create_dir(&beside).unwrap();
        folder_belongs_to(&database, &beside);
        assert_eq!(fs::metadata(&beside).unwrap().permissions().mode() & 0o777, 0o770);
    }
}
