//! The files beside a database: their names, owners and modes.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown, lchown},
    path::{Path, PathBuf},
};

/// Returns the path of the database with `suffix` at its end.
pub(super) fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut path = OsString::from(database);
    path.push(suffix);
    path.into()
}

/// Opens a lock file of the database, and creates it if it is missing.
///
/// # Errors
///
/// The folder does not let this program create or open the file, or there is a link in its place: another user of the folder could
/// have put it there to have this program create a file elsewhere, or give one away.
pub(super) fn open_lock_file(database: &Path, suffix: &str) -> io::Result<File> {
    let path = beside(database, suffix);
    // `create_new` does not follow a link.
    match File::options().read(true).write(true).create_new(true).open(&path) {
        Ok(file) => {
            belong_to(database, &file);
            Ok(file)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let file = open_unfollowed(File::options().read(true).write(true), &path);
            // An older version, or another user, may have created the file for its own user alone; locking needs to read only.
            file.or_else(|error| open_unfollowed(File::options().read(true), &path).map_err(|_| error))
        }
        Err(error) => Err(error),
    }
}

/// Opens `path`, unless it is a link, or neither a file nor a folder.
///
/// # Errors
///
/// `path` is something else, or cannot be opened with `options`.
pub(super) fn open_unfollowed(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path).map_err(|error| {
        if is_link(path) {
            return io::Error::other(format!("{} is a link, which is not followed; remove it", path.display()));
        }
        error
    })?;
    let kind = file.metadata()?.file_type();
    if !kind.is_file() && !kind.is_dir() {
        return Err(io::Error::other(format!("{} is not a file; remove it", path.display())));
    }
    Ok(file)
}

/// Whether there is a link at `path`.
pub(super) fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}

/// Gives `file`, which was just created, the mode of the database, and its owner where this program may change owners, as
/// SQLite does with its own files; each user who may read the database may enter a folder. Every program that may write to the
/// database must be able to use every file beside it, whatever the umask of the first program, and even if root ran the first
/// program.
pub(super) fn belong_to(database: &Path, file: &File) {
    let adopt = || -> io::Result<()> {
        let of_database = fs::metadata(database)?;
        let mut mode = of_database.mode() & 0o777;
        if file.metadata()?.is_dir() {
            mode |= (mode & 0o444) >> 2;
        }
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        fchown(file, Some(of_database.uid()), Some(of_database.gid()))
    };
    // A program that is neither root nor the owner may not change `file`, which then keeps the mode that the umask left.
    let _ = adopt();
}

/// Gives `folder`, which was just created, the mode and the owner of the database, as [`belong_to`] does.
pub(super) fn folder_belongs_to(database: &Path, folder: &Path) {
    // An error is ignored as in `belong_to`.
    if let Ok(folder) = open_unfollowed(File::options().read(true), folder) {
        belong_to(database, &folder);
    }
}

/// Gives the socket at `path`, which this program has just bound, the mode and the owner of the database, as [`belong_to`] does. A
/// socket cannot be opened, so its path is used; a link that has taken its place is left as it is.
pub(super) fn socket_belongs_to(database: &Path, path: &Path) {
    let adopt = || -> io::Result<()> {
        let of_database = fs::metadata(database)?;
        if fs::symlink_metadata(path)?.file_type().is_socket() {
            fs::set_permissions(path, fs::Permissions::from_mode(of_database.mode() & 0o777))?;
            lchown(path, Some(of_database.uid()), Some(of_database.gid()))?;
        }
        Ok(())
    };
    // An error is ignored as in `belong_to`.
    let _ = adopt();
}

#[cfg(test)]
mod tests {
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
        belong_to(&database, &File::open(&file).unwrap());
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o660);
        assert_eq!(beside(&database, "-next"), file);
        let beside = folder.path().join("jobs.db-waiters");
        fs::create_dir(&beside).unwrap();
        folder_belongs_to(&database, &beside);
        assert_eq!(fs::metadata(&beside).unwrap().permissions().mode() & 0o777, 0o770);
    }
}
