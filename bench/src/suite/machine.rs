//! The machine and the versions that the figures belong to.

use std::{env, fs, path::Path, process::Command, thread::available_parallelism};

use crate::meter::line_of;

/// Returns machine, system, versions, profile of the build, commit and date of now as a Markdown list. A benchmark asks at its beginning, because the
/// tree may change while it runs.
pub(crate) fn facts() -> String {
    let cpu = line_of("/proc/cpuinfo", "model name").unwrap_or_else(|| "processor unknown".to_owned());
    let memory = line_of("/proc/meminfo", "MemTotal").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    let memory = memory.map(|kib| format!(", {} GiB", kib.div_ceil(1024 * 1024))).unwrap_or_default();
    let cores = available_parallelism().map_or(1, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let redis = output_of("redis-server", &["--version"]);
    let redis = redis.split(' ').find_map(|word| word.strip_prefix("v=")).unwrap_or("unknown").to_owned();
    // Files that this suite writes are not changes.
    let changed = output_of("git", &["status", "--porcelain", "--", ":/", ":!/bench/*.md", ":!/bench/*.svg"]);
    let commit = output_of("git", &["rev-parse", "--short", "HEAD"]);
    let facts = [
        format!("machine: {cpu}, {cores} processors{memory}, {} {}", std::env::consts::OS, kernel.trim()),
        format!(
            "Redis {redis} on the same machine over loopback, nothing on disk; SQLite in a temporary file, FULL durability"
        ),
        format!("compiler: {}", output_of("rustc", &["--version"])),
        format!("profile: {}", profile()),
        format!("commit: {commit}{}", if changed.is_empty() { "" } else { " with changes" }),
        format!("date: {}", chrono::Utc::now().format("%Y-%m-%d %H:%M UTC")),
    ];
    facts.iter().map(|fact| format!("- {fact}\n")).collect()
}

/// Returns the name of the profile that this program was built with, which is that of its folder, and the settings that the workspace
/// has for it.
fn profile() -> String {
    let program = env::current_exe().unwrap_or_default();
    let name = program.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let manifest = fs::read_to_string(super::folder().join("../Cargo.toml")).unwrap_or_default();
    let heading = format!("[profile.{name}]");
    let settings = manifest.lines().skip_while(|line| *line != heading).skip(1).take_while(|line| !line.is_empty());
    settings.fold(name.to_string(), |text, setting| text + ", " + setting)
}

/// Returns the load of the last minutes, which shows how busy other programs kept the machine.
pub(crate) fn load() -> String {
    fs::read_to_string("/proc/loadavg")
        .map_or_else(|_| "unknown".to_owned(), |text| text.split(' ').take(3).collect::<Vec<_>>().join(", "))
}

/// Returns the output of a program, or nothing if the program is not here.
fn output_of(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(super::folder()).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}
