//! Keeps the last of the disk for writes that free it: new tasks are refused while there is still room to settle the old ones.
//!
//! Everything that SQLite writes goes to the write-ahead log first, an outcome that deletes a task as well. If new tasks had
//! filled the disk to the last byte, no task could be settled before a person made room.

use std::path::Path;

use rusqlite::Connection;

use super::connection::{number, page_size};

/// Bytes kept free on the disk: the log grows to about 4 MiB before it is copied into the file, which may grow by as much.
const RESERVE: u64 = 8 << 20;

/// Tells whether new tasks may be stored.
pub(super) struct DiskRoom {
    disk_of: Box<Gauge>,
}

/// Reads how full the disk is that holds a file; `None` where the system does not say.
type Gauge = dyn Fn(&Path) -> Option<Disk> + Send;

impl DiskRoom {
    /// Asks the system how full the disk is.
    pub(super) fn of_disk() -> Self {
        Self { disk_of: Box::new(Disk::of) }
    }

    /// Whether new tasks may be stored in `file`: the disk, or pages that the file no longer uses, have room for them.
    pub(super) fn is_left(&self, file: &Path, connection: &Connection) -> bool {
        let Some(disk) = (self.disk_of)(file) else { return true };
        let free_pages = || number(connection, "PRAGMA freelist_count").unwrap_or(0);
        let unused = || free_pages().saturating_mul(page_size(connection).unwrap_or(0));
        !disk.is_short(0) || !disk.is_short(u64::try_from(unused()).unwrap_or(0))
    }
}

partial_debug!(DiskRoom { .. });

/// The disk that holds a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Disk {
    /// Bytes that a program may still write.
    free: u64,
    /// Bytes in all.
    pub(super) size: u64,
}

impl Disk {
    /// Asks the system; `None` where it does not say.
    pub(super) fn of(file: &Path) -> Option<Self> {
        let found = rustix::fs::statvfs(file).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Some(Self { free: bytes(found.f_bavail), size: bytes(found.f_blocks) })
    }

    /// Bytes that are kept for writes which free room: the reserve, or half of a small disk.
    pub(super) fn reserve(self) -> u64 {
        RESERVE.min(self.size / 2)
    }

    /// Bytes that the file can still take: what is free, and its own `unused` bytes.
    pub(super) fn room(self, unused: u64) -> u64 {
        self.free.saturating_add(unused)
    }

    /// Whether less than the reserve is left.
    fn is_short(self, unused: u64) -> bool {
        self.room(unused) < self.reserve()
    }
}

#[cfg(test)]
mod tests;
