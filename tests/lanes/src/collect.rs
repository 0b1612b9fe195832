//! Finds the test binaries: cargo gets this program as its runner, which writes down command, folder and environment
//! of each binary instead of running it. A new binary takes part without an entry in a list.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
    process::Command,
};

use crate::{cargo, suite::Suite};

/// The variable that makes this program the runner; its value is the folder to write to.
pub(crate) const FOLDER: &str = "ASYNQ_LANES_FOLDER";

/// The variable that names cargo's runner variable, for this program alone; the binaries must see neither.
const OURS: &str = "ASYNQ_LANES_RUNNER";

/// Writes down one binary as NUL-separated pieces: folder, number of arguments, arguments, variables.
pub(crate) fn write_down(folder: &Path, command: Vec<OsString>) {
    let binary = Path::new(&command[0]).file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let package = env::var("CARGO_PKG_NAME").expect("cargo names the package");
    let name = format!("{package}::{}", binary.rsplit_once('-').map_or(binary.as_str(), |(name, _hash)| name));
    let runner = env::var_os(OURS).unwrap_or_default();
    let mut pieces =
        vec![env::current_dir().expect("a current folder").into_os_string(), command.len().to_string().into()];
    pieces.extend(command);
    for (key, value) in env::vars_os() {
        if key != FOLDER && key != OURS && key != runner {
            pieces.push([key.as_os_str(), value.as_os_str()].join(OsStr::new("=")));
        }
    }
    let path = folder.join(format!("{name}.command"));
    assert!(!path.exists(), "two test binaries are called {name}");
    let bytes: Vec<&[u8]> = pieces.iter().map(|piece| piece.as_bytes()).collect();
    fs::write(path, bytes.join(&0)).expect("a file in the target folder can be written");
}

/// Returns all test binaries, built, and the doc tests; or the output of a failed build.
pub(crate) fn suites(folder: &Path) -> Result<Vec<Suite>, String> {
    let host = Command::new("rustc").arg("-vV").output().expect("rustc runs").stdout;
    let host = String::from_utf8_lossy(&host).lines().find_map(|line| line.strip_prefix("host: ").map(str::to_owned));
    let triple = host.expect("rustc names its host").to_uppercase().replace('-', "_");
    let runner = format!("CARGO_TARGET_{triple}_RUNNER");
    let this = env::current_exe().expect("the path of this program");
    // Cargo splits a runner at spaces, so the folder is passed by a variable.
    let folder = fs::canonicalize(folder).expect("the folder is there");
    // Not `--quiet`, which cargo would pass on to the binaries. The runtime's own tests are compiled in asynq-unit-tests; asynq-tests asks for
    // its default features, so that nothing is built anew where it is not left out.
    let output = cargo()
        .args(["test", "--workspace", "--exclude", "asynq-runtime", "--locked", "--tests"])
        .env(&runner, &this)
        .env(OURS, &runner)
        .env(FOLDER, &folder)
        .output()
        .expect("cargo runs");
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let mut files: Vec<PathBuf> =
        fs::read_dir(&folder).expect("the folder is there").map(|file| file.expect("a file").path()).collect();
    files.sort();
    let mut suites: Vec<Suite> = files.iter().map(|file| read(file)).collect();
    suites.push(doc_tests());
    Ok(suites)
}

fn read(file: &Path) -> Suite {
    let bytes = fs::read(file).expect("the file was written by the runner");
    let mut pieces = bytes.split(|byte| *byte == 0).map(|piece| OsString::from_vec(piece.to_vec()));
    let folder = PathBuf::from(pieces.next().expect("a folder"));
    let words: usize = pieces.next().and_then(|n| n.to_str()?.parse().ok()).expect("a number of arguments");
    let command: Vec<OsString> = pieces.by_ref().take(words).collect();
    let variables = pieces.filter_map(|piece| {
        let at = piece.as_bytes().iter().position(|byte| *byte == b'=')?;
        let (key, value) = piece.as_bytes().split_at(at);
        Some((OsStr::from_bytes(key).to_owned(), OsStr::from_bytes(&value[1..]).to_owned()))
    });
    let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
    Suite { name, folder, command, variables: variables.collect() }
}

fn doc_tests() -> Suite {
    let words = ["test", "--workspace", "--locked", "--no-fail-fast", "--doc"].map(OsString::from);
    let command = std::iter::once(cargo().get_program().to_owned()).chain(words).collect();
    let folder = env::current_dir().expect("a current folder");
    Suite { name: "doc-tests".to_owned(), folder, command, variables: env::vars_os().collect() }
}
