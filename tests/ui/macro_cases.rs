//! Makes programs of the cases in `asynq-macros/tests/fail`.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Writes one program of all cases, for which the compiler prints their golden files one after another; or one for each case.
///
/// The compiler so confirms the golden files, which the test of `asynq-macros` compares without a compiler, and shows that
/// the rest of an expansion compiles: a mistake that a macro reports brings no second message.
pub(crate) fn programs(of_each: bool) -> Vec<PathBuf> {
    let cases = cases();
    let programs = cases.chunks(if of_each { 1 } else { cases.len() });
    programs.map(|cases| program(cases, if of_each { &cases[0].0 } else { "macro_cases" })).collect()
}

/// The names and paths of the cases, sorted.
fn cases() -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../asynq-macros/tests/fail");
    let files = fs::read_dir(&folder).expect("read the folder").map(|entry| entry.expect("an entry").path());
    let cases = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let name = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
    let mut cases: Vec<_> = cases.map(|path| (name(&path), path)).collect();
    assert!(cases.len() > 100, "{} has lost its cases: {}", folder.display(), cases.len());
    cases.sort();
    cases
}

fn program(cases: &[(String, PathBuf)], name: &str) -> PathBuf {
    let modules: String = cases.iter().map(|(name, path)| format!("#[path = {path:?}]\nmod {name};\n")).collect();
    let golden = |path: &Path| fs::read_to_string(path.with_extension("stderr")).expect("read a golden file");
    let golden: Vec<_> = cases.iter().map(|(_, path)| golden(path)).collect();
    // trybuild prints the path of a module's file in this form.
    let expected = golden.join("\n").replace(" --> fail/", " --> $DIR/");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.rs"));
    fs::write(&path, modules + "fn main() {}\n").expect("write a program");
    fs::write(path.with_extension("stderr"), expected).expect("write the expected messages");
    path
}
