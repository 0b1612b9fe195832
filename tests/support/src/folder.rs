//! Folders for files that need not outlive the machine.

use std::path::Path;

use tempfile::TempDir;

/// The bytes that must be free in memory: the tests that run at a time need hundreds of megabytes, and Docker gives `/dev/shm` 64 MB.
const ROOM: u64 = 1 << 30;

/// Returns a folder for one test alone: in the memory-backed `/dev/shm` where that has room, so that commits cost no disk.
pub fn fast_folder() -> TempDir {
    folder_with_room(Path::new("/dev/shm"), ROOM)
        .unwrap_or_else(|| TempDir::new().expect("a folder for temporary files can be made"))
}

/// Returns a new folder in `parent`, or `None` if `parent` is missing, has fewer than `room` bytes free or cannot be written to.
fn folder_with_room(parent: &Path, room: u64) -> Option<TempDir> {
    let found = rustix::fs::statvfs(parent).ok()?;
    if found.f_bavail.saturating_mul(found.f_frsize) < room {
        return None;
    }
    TempDir::new_in(parent).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_room_is_not_used() {
        let parent = TempDir::new().expect("a folder for temporary files can be made");
        let folder = folder_with_room(parent.path(), 0).expect("there is room for nothing");
        assert_eq!(folder.path().parent(), Some(parent.path()));
        assert!(folder_with_room(parent.path(), u64::MAX).is_none());
        assert!(folder_with_room(&parent.path().join("missing"), 0).is_none());
    }
}
