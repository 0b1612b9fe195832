//! The files of the repository, and the report of a broken rule.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Folders without source of ours.
const SKIPPED: [&str; 3] = ["target", ".git", "node_modules"];

/// The repository's root folder, from cargo's variable at run time, because two clones may share a target folder.
pub(crate) fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&package).ancestors().nth(2).unwrap().to_owned()
}

/// Every file below `folder`, as paths from the root, in order.
pub(crate) fn files(folder: &str) -> Vec<String> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.map(Result::unwrap) {
            let name = entry.file_name();
            if entry.file_type().unwrap().is_dir() {
                if !SKIPPED.iter().any(|skipped| name == *skipped) {
                    walk(&entry.path(), found);
                }
            } else {
                found.push(entry.path());
            }
        }
    }
    let (root, mut found) = (root(), Vec::new());
    walk(&root.join(folder), &mut found);
    found.sort();
    found.iter().map(|path| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned()).collect()
}

/// The Rust files of [`files`].
pub(crate) fn rust_files(folder: &str) -> Vec<String> {
    files(folder).into_iter().filter(|path| path.ends_with(".rs")).collect()
}

/// The text of the file at `path` from the root.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Fails if `rule` is broken, and lists every place.
#[track_caller]
pub(crate) fn none(broken: Vec<String>, rule: &str) {
    assert!(broken.is_empty(), "{rule}:\n  {}", broken.join("\n  "));
}
