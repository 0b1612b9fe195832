//! Records the proved steps: one file per step in `target/interop`, with one cell per pair.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::interop::side::Pair;

/// The folder of programs and rows; created if it is missing.
pub(crate) fn folder() -> PathBuf {
    // Cargo's folder for the files of tests is inside its target folder.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("interop");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Deletes the row of an earlier run of the step.
pub(crate) fn begin(step: &str) {
    let _ = fs::remove_file(row(step));
}

/// Writes the step's row: the pairs that passed.
pub(crate) fn write_row(step: &str, pairs: &[Pair]) {
    let cells: Vec<String> = pairs.iter().map(|pair| format!("{pair}=ok")).collect();
    fs::write(row(step), format!("{step}\t{}\n", cells.join("\t"))).unwrap();
}

fn row(step: &str) -> PathBuf {
    folder().join(format!("{}.row", step.replace(' ', "-")))
}
