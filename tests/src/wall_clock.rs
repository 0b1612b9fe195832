//! The wall clock of single processes, which a test steps: libfaketime tells them another time than the machine's.

use std::{fs, path::PathBuf};

use tempfile::TempDir;

/// A wall clock that is a number of seconds ahead. The time since the machine started, the file system's and sleeps are as ever.
#[derive(Debug)]
pub struct WallClock {
    library: PathBuf,
    folder: TempDir,
}

impl WallClock {
    /// One that tells the machine's time for now; none where libfaketime is not installed.
    pub fn new() -> Option<Self> {
        let folders = fs::read_dir("/usr/lib").ok()?.filter_map(Result::ok);
        let mut libraries = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
        let clock = Self { library: libraries.find(|library| library.exists())?, folder: TempDir::new().unwrap() };
        clock.step_to(0);
        Some(clock)
    }

    /// Steps it to so many seconds ahead of the machine's.
    pub fn step_to(&self, seconds: i64) {
        // The processes read the file at every look at the clock, so it must always be whole.
        let new = self.folder.path().join("new");
        fs::write(&new, format!("{seconds:+}\n")).unwrap();
        fs::rename(new, self.offset()).unwrap();
    }

    /// The environment of a process that goes by it.
    pub fn environment(&self) -> [(&'static str, String); 7] {
        let one = || "1".to_owned();
        [
            ("LD_PRELOAD", self.library.display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.offset().display().to_string()),
            ("FAKETIME_NO_CACHE", one()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", one()),
            ("DONT_FAKE_MONOTONIC", one()),
            // A process that is killed would leave its shared memory behind.
            ("FAKETIME_DISABLE_SHM", one()),
            ("NO_FAKE_STAT", one()),
        ]
    }

    fn offset(&self) -> PathBuf {
        self.folder.path().join("offset")
    }
}
