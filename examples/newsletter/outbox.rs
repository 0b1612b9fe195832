//! The folder where messages go: one `.eml` per task, and the note that says which campaign is on its way.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use asynq_runtime::prelude::BoxError;

use crate::campaign::Campaign;

/// A folder of `.eml` files that is ours: nothing is ever deleted in a folder without our note.
#[derive(Debug, Clone)]
pub(crate) struct Outbox {
    folder: PathBuf,
}

const NOTE: &str = "campaign.json";

impl Outbox {
    /// Opens the outbox in `folder`, which need not exist, and returns the campaign that the last run left there.
    ///
    /// # Errors
    ///
    /// The folder holds something else, or cannot be read.
    pub(crate) fn open(folder: impl Into<PathBuf>) -> Result<(Self, Option<Campaign>), BoxError> {
        let outbox = Self { folder: folder.into() };
        match fs::read(outbox.folder.join(NOTE)) {
            // A note that cannot be read counts as none: the tasks that are left over name their campaign too.
            Ok(note) => Ok((outbox, serde_json::from_slice(&note).ok())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(&outbox.folder)?;
                if outbox.entries()?.is_empty() {
                    return Ok((outbox, None));
                }
                let folder = outbox.folder.display();
                Err(format!("{folder}/ holds files that are not the newsletter's; run this somewhere else").into())
            }
            Err(error) => Err(format!("cannot read {}: {error}", outbox.folder.join(NOTE).display()).into()),
        }
    }

    /// Deletes the messages of an earlier campaign.
    ///
    /// # Errors
    ///
    /// A file cannot be deleted.
    pub(crate) fn renew(&self) -> Result<(), BoxError> {
        for path in self.entries()? {
            if path.extension().is_some_and(|ending| ending == "eml" || ending == "part") {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// Notes which campaign is on its way, and whether it has arrived.
    ///
    /// # Errors
    ///
    /// The note cannot be written.
    pub(crate) fn note(&self, campaign: &Campaign) -> Result<(), BoxError> {
        self.put(NOTE, &serde_json::to_vec(campaign)?)?;
        Ok(())
    }

    /// Writes the message of one task, whole or not at all. A second call replaces the file.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub(crate) fn write(&self, task_id: &str, message: &[u8]) -> io::Result<PathBuf> {
        self.put(&format!("{task_id}.eml"), message)
    }

    /// Returns a message to show: the first whose name is easy to type.
    pub(crate) fn sample(&self) -> Option<PathBuf> {
        let plain = |path: &PathBuf| path.to_str().is_some_and(|name| name.ends_with(".eml") && !name.contains('%'));
        self.entries().ok()?.into_iter().filter(plain).min()
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a file that appears under its name only when it is whole, so that a kill in the middle leaves no half message.
    /// There is no fsync: it would protect against a power cut, which this example does not.
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let path = self.folder.join(name);
        let part = self.folder.join(format!("{name}.{}.part", std::process::id()));
        fs::write(&part, bytes)?;
        fs::rename(&part, &path)?;
        Ok(path)
    }

    fn entries(&self) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(&self.folder)?.map(|entry| entry.map(|entry| entry.path())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn campaign(finished: bool) -> Campaign {
        Campaign { id: "20261124-091500-250".into(), broker: "sqlite://asynq.db".into(), finished }
    }

    #[test]
    fn an_outbox_keeps_its_note_and_gives_up_its_messages() {
        let folder = tempfile::tempdir().unwrap();
        let (outbox, saved) = Outbox::open(folder.path().join("outbox")).unwrap();
        assert_eq!(saved, None);
        outbox.note(&campaign(false)).unwrap();
        outbox.write("a", b"first").unwrap();
        let path = outbox.write("a", b"again").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"again");

        let (outbox, saved) = Outbox::open(folder.path().join("outbox")).unwrap();
        assert_eq!(saved, Some(campaign(false)));
        outbox.renew().unwrap();
        assert!(!path.exists());
        assert_eq!(Outbox::open(outbox.folder()).unwrap().1, Some(campaign(false)));
    }

    #[test]
    fn a_foreign_folder_is_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("thesis.eml"), "three years").unwrap();
        let error = Outbox::open(folder.path()).unwrap_err();
        assert!(error.to_string().contains("not the newsletter's"), "{error}");
        assert!(folder.path().join("thesis.eml").exists());
    }
}
