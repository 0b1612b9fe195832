//! The wall clock of single processes, which a test steps: a library that a process loads first overrides the machine's time.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::PathBuf,
    process::Command,
};

use tempfile::TempDir;

/// The library's source, built for each clock: the build takes a tenth of a second.
const LIBRARY: &str = include_str!("wall_clock.c");

/// A wall clock some seconds ahead. The time since the machine's start, the file system's time and sleeps do not change.
#[derive(Debug)]
pub struct WallClock {
    folder: TempDir,
    /// The processes map this file into their memory.
    ahead: File,
}

impl WallClock {
    /// Why no clock can be made here, for a test that skips itself.
    pub const MISSING: &str = "only Linux lets a test step the clock of one process";

    /// Makes a clock at the machine's time; returns `None` on systems other than Linux.
    ///
    /// # Panics
    ///
    /// There is no C compiler, without which nothing of this repository is built.
    pub fn new() -> Option<Self> {
        if !cfg!(target_os = "linux") {
            return None;
        }
        let folder = TempDir::new().unwrap();
        let source = folder.path().join("wall_clock.c");
        fs::write(&source, LIBRARY).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-shared", "-fPIC", "-o"]).arg(folder.path().join("wall_clock.so")).arg(&source);
        assert!(compiler.status().is_ok_and(|status| status.success()), "cc builds wall_clock.c");
        let ahead = File::create(folder.path().join("ahead")).unwrap();
        let clock = Self { folder, ahead };
        clock.step_to(0);
        Some(clock)
    }

    /// Steps the clock to so many seconds ahead of the machine's.
    pub fn step_to(&self, seconds: i64) {
        // Eight bytes that are written at once are read at once.
        self.ahead.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
    }

    /// The environment of a process that uses this clock.
    pub fn environment(&self) -> [(&'static str, String); 2] {
        let path = |name: &str| -> PathBuf { self.folder.path().join(name) };
        [
            ("LD_PRELOAD", path("wall_clock.so").display().to_string()),
            ("CLOCK_AHEAD", path("ahead").display().to_string()),
        ]
    }
}
