//! Checks the path of a database before tasks are put there: a wrong file is reported and left as it is
//! (docs/design/sqlite.md#opening).

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use crate::broker::{BrokerError, config};

use super::{beside::open_lock_file, error::translate_io, url::Location};

/// Checks `file` without changing it and returns its absolute path, links resolved: every program must find the same lock files
/// beside it.
///
/// # Errors
///
/// The file or its folder cannot be used; the message says why, and what to do about it.
pub(super) fn look(file: &Path, location: &Location) -> Result<PathBuf, BrokerError> {
    look_with(file, location, shared_file_system)
}

/// Does what [`look`] does; `kind_of` names the file system of a folder if several kernels write to it.
fn look_with(
    file: &Path,
    location: &Location,
    kind_of: fn(&Path) -> Option<&'static str>,
) -> Result<PathBuf, BrokerError> {
    let file = std::path::absolute(file).map_err(|error| translate_io(error, file))?;
    let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else {
        return Err(config(format!("{}: this is not a path of a file", file.display())));
    };
    match fs::metadata(folder) {
        Ok(found) if !found.is_dir() => return Err(config(format!("{} is not a folder", folder.display()))),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(config(format!("{}: the folder does not exist; create it first", folder.display())));
        }
        Err(error) => return Err(translate_io(error, folder)),
    }
    // The log lies beside the file to which links lead, so the folder of the links says nothing about the file system.
    let check_place = |file: PathBuf| match file.parent().and_then(kind_of) {
        Some(kind) if !location.network_fs => Err(config(format!(
            "{}: this is on {kind}, where SQLite's shared memory does not work between hosts and tasks would be lost; \
             use a local disk, or Redis, or add ?network_fs=i-know if only one host ever opens it",
            file.display()
        ))),
        _ => Ok(file),
    };
    match fs::metadata(&file) {
        Ok(found) if found.is_dir() => Err(config(format!("{} is a folder; name a file in it", file.display()))),
        // Opening a pipe would wait for ever.
        Ok(found) if !found.is_file() => {
            Err(config(format!("{} is not a regular file; choose another path", file.display())))
        }
        // SQLite itself finds out whether the content is valid: a program that closes a file releases the locks of
        // every connection to it in this process, also those of another broker.
        Ok(found) => {
            let file = fs::canonicalize(&file).map_err(|error| translate_io(error, &file)).and_then(check_place)?;
            check_name(&file, &found)?;
            Ok(file)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::read_link(&file) {
            // SQLite makes the file where the link leads.
            Ok(target) => look_with(&folder.join(target), location, kind_of),
            Err(_) => {
                let folder = fs::canonicalize(folder).map_err(|error| translate_io(error, folder))?;
                check_place(folder.join(name))
            }
        },
        Err(error) => Err(translate_io(error, &file)),
    }
}

/// Refuses a file that others may know by another name: each name would have a log of its own, and two programs that write
/// by two names corrupt the file.
fn check_name(file: &Path, found: &fs::Metadata) -> Result<(), BrokerError> {
    if found.nlink() > 1 {
        return Err(config(format!(
            "{} has {} hard links; programs that open it by different names would corrupt it: keep one of them",
            file.display(),
            found.nlink()
        )));
    }
    if is_mounted(file) {
        return Err(config(format!(
            "{} is mounted by itself, so that its log would lie elsewhere for every container and the file be corrupted: \
             mount the folder that it is in",
            file.display()
        )));
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn is_mounted(file: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    file.to_str().is_some_and(|file| is_mount_point(&mounts, file))
}

#[cfg(not(target_os = "linux"))]
fn is_mounted(_: &Path) -> bool {
    false
}

/// Whether something is mounted at exactly `path`, by the lines of /proc/self/mountinfo.
#[cfg(any(target_os = "linux", test))]
fn is_mount_point(mounts: &str, path: &str) -> bool {
    mounts.lines().filter_map(mount_point).any(|point| point == path)
}

/// Returns the mount point of a line of /proc/self/mountinfo, where the kernel writes four characters in octal.
#[cfg(any(target_os = "linux", test))]
fn mount_point(line: &str) -> Option<String> {
    let written = line.split(' ').nth(4)?.to_owned();
    let codes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    Some(codes.iter().fold(written, |point, (code, character)| point.replace(code, character)))
}

/// Refuses a file system that grants one lock to two programs at a time: SQLite would not keep them apart, and both would
/// corrupt the file. Where `file` has no lock files, the locks are not looked at.
///
/// # Errors
///
/// [`Config`](crate::broker::BrokerErrorKind::Config) for such a file system.
pub(super) fn check_locks(file: &Path) -> Result<(), BrokerError> {
    let (Ok(one), Ok(other)) = (open_lock_file(file, "-next"), open_lock_file(file, "-next")) else { return Ok(()) };
    if !is_granted_twice(&one, &other) {
        return Ok(());
    }
    Err(config(format!(
        "{}: the locks of its file system do not work, so that two programs would corrupt the file: use a local disk, or Redis",
        file.display()
    )))
}

/// Whether a lock on `one` leaves `other`, the same file opened once more, free.
fn is_granted_twice(one: &File, other: &File) -> bool {
    // A lock that another program has at this moment works.
    if one.try_lock().is_err() {
        return false;
    }
    let is_free = other.try_lock().is_ok();
    // A child that a job forked in this moment keeps the files open.
    let _ = (one.unlock(), other.unlock());
    is_free
}

/// Refuses versions of SQLite that lose data: a WAL reset bug before 3.51.3, and 3.52.0, which was withdrawn.
///
/// # Errors
///
/// [`Config`](crate::broker::BrokerErrorKind::Config) for such a version.
pub(super) fn check_version(number: i32) -> Result<(), BrokerError> {
    if number >= 3_051_003 && number != 3_052_000 {
        return Ok(());
    }
    Err(config(format!(
        "SQLite {}.{}.{} is linked into this program; 3.51.3 or newer is needed, and not 3.52.0",
        number / 1_000_000,
        number / 1_000 % 1_000,
        number % 1_000
    )))
}

/// Names the file system that `folder`, a path without links, is on, if several kernels write to it.
#[cfg(target_os = "linux")]
fn shared_file_system(folder: &Path) -> Option<&'static str> {
    let found = rustix::fs::statfs(folder).ok()?;
    // The field's type differs between architectures; the magic numbers fit in 32 bits everywhere.
    name_of_file_system(found.f_type as u32).or_else(|| {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        type_of_mount(&mounts, folder.to_str()?).and_then(name_of_mount)
    })
}

/// Returns the type of the file system that `folder` is on, by the lines of /proc/self/mountinfo.
#[cfg(any(target_os = "linux", test))]
fn type_of_mount<'a>(mounts: &'a str, folder: &str) -> Option<&'a str> {
    let mut best: Option<(usize, &str)> = None;
    for line in mounts.lines() {
        let Some((_, right)) = line.split_once(" - ") else { continue };
        let (Some(point), Some(kind)) = (mount_point(line), right.split(' ').next()) else { continue };
        let inside = folder
            .strip_prefix(point.trim_end_matches('/'))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        // A later mount on the same point hides the earlier one.
        if inside && best.is_none_or(|(length, _)| point.len() >= length) {
            best = Some((point.len(), kind));
        }
    }
    best.map(|(_, kind)| kind)
}

/// Names a file system that several kernels write to, by its type in /proc/self/mountinfo: all behind FUSE have one magic number, and
/// most of them, such as fuse-overlayfs, are local.
#[cfg(any(target_os = "linux", test))]
fn name_of_mount(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "virtiofs" | "fuse.virtiofs" => "a shared folder (virtiofs)",
        "fakeowner" | "fuse.grpcfuse" => "a shared folder of Docker Desktop",
        "fuse.vmhgfs-fuse" => "a shared folder (vmhgfs)",
        "fuse.prl_fsd" => "a shared folder (prl_fs)",
        "fuse.sshfs" => "sshfs",
        "fuse.glusterfs" => "GlusterFS",
        "fuse.ceph" | "fuse.ceph-fuse" => "Ceph",
        "fuse.juicefs" => "JuiceFS",
        "fuse.mfs" => "MooseFS",
        "fuse.s3fs" | "fuse.rclone" | "fuse.gcsfuse" | "fuse.mount-s3" => "an object store",
        _ => return None,
    })
}

/// Names the file system that `folder` is on, if the system does not call it local.
#[cfg(target_vendor = "apple")]
fn shared_file_system(folder: &Path) -> Option<&'static str> {
    let found = rustix::fs::statfs(folder).ok()?;
    (found.f_flags & libc::MNT_LOCAL as u32 == 0).then_some("a network file system")
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn shared_file_system(_: &Path) -> Option<&'static str> {
    None
}

/// Names a file system that several kernels write to, by its magic number.
#[cfg(any(target_os = "linux", test))]
fn name_of_file_system(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0xff53_4d42 => "a Windows share (cifs)",
        0xfe53_4d42 => "a Windows share (smb2)",
        0x517b => "a Windows share (smbfs)",
        0x0102_1997 => "a shared folder (9p)",
        0x786f_4256 => "a shared folder (vboxsf)",
        0x6a65_6a63 => "a shared folder of Docker Desktop",
        0x00c3_6400 => "Ceph",
        0x0bd0_0bd0 => "Lustre",
        0x0116_1970 => "GFS2",
        0x7461_636f => "OCFS2",
        0x5346_414f => "AFS",
        0x4750_4653 => "GPFS",
        0x1983_0326 => "BeeGFS",
        0x2003_0528 => "OrangeFS",
        0x7375_7245 => "Coda",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::BrokerErrorKind;

    #[test]
    fn versions_with_known_losses_are_refused() {
        for (number, good) in
            [(3_051_002, false), (3_051_003, true), (3_052_000, false), (3_052_001, true), (3_054_001, true)]
        {
            assert_eq!(check_version(number).is_ok(), good, "{number}");
        }
        let error = check_version(3_050_004).unwrap_err().to_string();
        assert!(error.starts_with("SQLite 3.50.4 is linked"), "{error}");
        check_version(rusqlite::version_number()).unwrap();
    }

    #[test]
    fn shared_file_systems_are_known_by_their_number() {
        for (magic, name) in [
            (0x6969, "NFS"),
            (0x4750_4653, "GPFS"),
            (0x1983_0326, "BeeGFS"),
            (0x2003_0528, "OrangeFS"),
            (0x7375_7245, "Coda"),
            (0x786f_4256, "a shared folder (vboxsf)"),
            (0x6a65_6a63, "a shared folder of Docker Desktop"),
        ] {
            assert_eq!(name_of_file_system(magic), Some(name));
        }
        assert_eq!(name_of_file_system(0xef53), None, "ext4");
        assert_eq!(name_of_file_system(0x0102_1994), None, "tmpfs");
    }

    #[test]
    fn a_file_that_is_mounted_by_itself_is_seen() {
        let mounts =
            "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n40 22 8:1 /var/jobs.db /data/my\\040jobs.db rw - ext4 /dev/sda1 rw\n";
        assert!(is_mount_point(mounts, "/data/my jobs.db"));
        assert!(!is_mount_point(mounts, "/data/my jobs.db-wal") && !is_mount_point(mounts, "/data"));
        assert!(is_mount_point("40 22 8:1 /a /a\\011b\\012c\\134040 rw - ext4 /dev/sda1 rw", "/a\tb\nc\\040"));
    }

    #[test]
    fn a_file_system_that_grants_a_lock_twice_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("jobs.db");
        let open = |suffix| open_lock_file(&database, suffix).unwrap();
        // To the check two files are one whose second lock is granted beside the first.
        assert!(is_granted_twice(&open("-next"), &open("-turn")));
        for held in [false, true] {
            let (holder, one, other) = (open("-next"), open("-next"), open("-next"));
            if held {
                holder.lock().unwrap();
            }
            assert!(!is_granted_twice(&one, &other));
            assert_eq!(other.try_lock().is_ok(), !held, "the check keeps no lock");
        }
        check_locks(&database).unwrap();
        check_locks(&folder.path().join("missing/jobs.db")).unwrap();
    }

    #[test]
    fn a_file_with_a_second_name_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("jobs.db"), folder.path().join("other.db"));
        fs::write(&file, "").unwrap();
        assert!(look(&file, &Location::memory()).is_ok());
        fs::hard_link(&file, &other).unwrap();
        let error = look(&other, &Location::memory()).unwrap_err();
        assert!(error.kind() == BrokerErrorKind::Config && error.to_string().contains("2 hard links"), "{error}");
    }

    #[test]
    fn the_file_system_is_that_of_the_file_to_which_links_lead() {
        let root = tempfile::tempdir().unwrap();
        let [remote, local] = ["remote", "local"].map(|name| root.path().join(name));
        for folder in [&remote, &local] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("jobs.db"), "").unwrap();
        }
        let kind_of: fn(&Path) -> Option<&'static str> = |folder| folder.ends_with("remote").then_some("NFS");
        for (link, target, is_refused) in [
            (local.join("link.db"), "../remote/jobs.db", true),
            (local.join("link-to-new.db"), "../remote/new.db", true),
            (local.join("folder"), "../remote", true),
            (remote.join("link.db"), "../local/jobs.db", false),
            (remote.join("link-to-new.db"), "../local/new.db", false),
        ] {
            std::os::unix::fs::symlink(target, &link).unwrap();
            let file = if target.ends_with(".db") { link } else { link.join("jobs.db") };
            let found = look_with(&file, &Location::memory(), kind_of);
            assert_eq!(found.is_err(), is_refused, "{}: {found:?}", file.display());
            if let Err(error) = found {
                assert!(error.kind() == BrokerErrorKind::Config && error.to_string().contains("on NFS"), "{error}");
            }
        }
        let known = Location { network_fs: true, ..Location::memory() };
        assert!(look_with(&local.join("link.db"), &known, kind_of).is_ok());
    }

    #[test]
    fn the_mount_says_whether_a_file_system_without_a_number_of_its_own_is_shared() {
        let mounts = "\
            22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
            40 22 0:44 / /home/a\\040b/remote rw - fuse.sshfs host:/ rw\n\
            41 22 0:45 / /var/lib/containers rw - fuse.fuse-overlayfs fuse-overlayfs rw\n\
            42 22 0:46 / /mnt rw - ext4 /dev/sdb1 rw\n\
            43 42 0:47 / /mnt rw - virtiofs share rw\n\
            44 22 0:48 /ann/shop /shop rw,relatime - fakeowner /run/host_mark/Users rw,fakeowner\n";
        for (folder, kind, name) in [
            ("/", "ext4", None),
            ("/home/a b", "ext4", None),
            ("/home/a b/remote", "fuse.sshfs", Some("sshfs")),
            ("/home/a b/remote/jobs", "fuse.sshfs", Some("sshfs")),
            ("/home/a b/remotely", "ext4", None),
            ("/var/lib/containers/x", "fuse.fuse-overlayfs", None),
            ("/mnt/jobs", "virtiofs", Some("a shared folder (virtiofs)")),
            ("/shop/data", "fakeowner", Some("a shared folder of Docker Desktop")),
        ] {
            assert_eq!(type_of_mount(mounts, folder), Some(kind), "{folder}");
            assert_eq!(name_of_mount(kind), name, "{folder}");
        }
        let shared = ["fuse.juicefs", "fuse.mfs", "fuse.grpcfuse"];
        let names = ["JuiceFS", "MooseFS", "a shared folder of Docker Desktop"];
        assert_eq!(shared.map(name_of_mount), names.map(Some));
    }
}
