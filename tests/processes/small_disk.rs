//! A small disk that gets full, in a mount namespace that ends with its story.

use std::{
    env,
    fs::File,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
};

use tempfile::TempDir;

/// The commands that give a program a mount namespace of its own: none for the superuser, else a user namespace.
const WRAPPERS: [&[&str]; 2] = [&["unshare", "--mount"], &["unshare", "--mount", "--user", "--map-root-user"]];

/// The variable that names the folder where the story's process mounts its disk.
const DISK: &str = "SMALL_DISK";

/// Runs `story`, the body of the test `name`, with a disk of `size`, such as `24m`, in the folder that it gets. Another process
/// runs the test again for that; its lines that contain `marker` are printed as they come. Returns `false` if this user may not
/// mount a disk.
pub(super) async fn run_on(size: &str, name: &str, marker: &str, story: impl AsyncFnOnce(&Path)) -> bool {
    if let Some(folder) = env::var_os(DISK) {
        assert!(mounts(&[], Path::new(&folder), size));
        story(Path::new(&folder)).await;
        return true;
    }
    let folder = TempDir::new().unwrap();
    let works = |wrapper: &&&[&str]| mounts(wrapper, folder.path(), size);
    let Some(wrapper) = WRAPPERS.iter().find(works) else { return false };
    let mut inside = Command::new(wrapper[0]);
    inside.args(&wrapper[1..]).arg(env::current_exe().unwrap()).args(["--exact", name, "--ignored", "--nocapture"]);
    let mut child = inside.env(DISK, folder.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = String::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
        if line.contains(marker) {
            println!("{line}");
        }
        output += &(line + "\n");
    }
    assert!(child.wait().unwrap().success(), "{output}");
    true
}

/// Mounts the disk, in a namespace of its own if `wrapper` makes one; returns whether that worked. Only Linux has `unshare`.
fn mounts(wrapper: &[&str], folder: &Path, size: &str) -> bool {
    let size = format!("size={size}");
    let words: Vec<_> = wrapper.iter().copied().chain(["mount", "-t", "tmpfs", "-o", &size, "tmpfs"]).collect();
    let output = Command::new(words[0]).args(&words[1..]).arg(folder).output();
    output.is_ok_and(|output| output.status.success())
}

/// Writes into a file until the disk is full.
pub(super) fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    for size in [1 << 20, 4096, 1] {
        while file.write_all(&vec![b'x'; size]).is_ok() {}
    }
}
