//! The folder for the temporary files of all binaries: files that tests leave there are listed at the end, and removed.

use std::{
    env, fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use crate::{suite::Suite, target};

/// The longest wait for files to go: servers and browsers are ended, and their folders removed, after the end of their binary.
const LIMIT: Duration = Duration::from_secs(10);

/// Makes the folder anew and names it to these binaries, or says why it cannot be made.
pub(crate) fn give(suites: &mut [Suite]) -> Result<(), String> {
    let folder = folder();
    make(&folder)?;
    for suite in suites {
        suite.variables.push(("TMPDIR".into(), folder.clone().into()));
    }
    Ok(())
}

/// Makes an empty folder. A run that was killed may have left it; if that was a run of another user, it stays.
fn make(folder: &Path) -> Result<(), String> {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir(folder).map_err(|error| format!("the folder {} cannot be made: {error}", folder.display()))
}

/// Removes the folder, after a warning if files are left in it.
pub(crate) fn remove() {
    let folder = folder();
    let left = left_in(&folder, LIMIT);
    if !left.is_empty() {
        println!("\nwarning: the tests left {} temporary files or folders:", left.len());
        for name in &left {
            println!("          {name}: {}", names(&folder.join(name)).join(" "));
        }
    }
    let _ = fs::remove_dir_all(&folder);
}

/// The path of the folder, one for each target folder, which is locked. It is not in the target folder, and its name is short: paths of
/// sockets have about a hundred characters at most.
fn folder() -> PathBuf {
    let mut hasher = DefaultHasher::new();
    fs::canonicalize(target()).expect("the target folder is there").hash(&mut hasher);
    // The folder that macOS names takes half of the characters, and lies behind a link.
    let parent = if cfg!(target_vendor = "apple") { PathBuf::from("/private/tmp") } else { env::temp_dir() };
    parent.join(format!("lanes-{:08x}", hasher.finish() >> 32))
}

/// The names in `folder` when it is empty, or after `limit`.
fn left_in(folder: &Path, limit: Duration) -> Vec<String> {
    let began = Instant::now();
    loop {
        let left = names(folder);
        if left.is_empty() || began.elapsed() >= limit {
            return left;
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// The names in a folder, sorted; none if it cannot be read.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let made = make(Path::new("/dev/null/lanes"));
        assert!(made.is_err_and(|message| message.contains("/dev/null/lanes")));
    }

    #[test]
    fn files_that_go_late_are_not_left_over() {
        let folder = env::temp_dir().join(format!("lanes-test-{}", std::process::id()));
        fs::create_dir(&folder).expect("a folder for temporary files can be made");
        for name in ["b", "a"] {
            fs::write(folder.join(name), "").expect("a file in a new folder");
        }
        assert_eq!(left_in(&folder, Duration::ZERO), ["a", "b"]);
        let (late, minute) = (folder.clone(), Duration::from_secs(60));
        let removal = thread::spawn(move || ["a", "b"].map(|name| fs::remove_file(late.join(name)).is_ok()));
        assert!(left_in(&folder, minute).is_empty());
        assert_eq!(removal.join().expect("it does not panic"), [true, true]);
        fs::remove_dir(&folder).expect("it is empty");
    }
}
