//! The sections of RESULTS.md that have a command of their own: each command replaces its section and keeps the others.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::suite;

/// The headings of the sections.
pub(crate) const SECTIONS: [&str; 2] = [PEERS, COST];
/// The table of `scripts/bench peers`.
pub(crate) const PEERS: &str = "Beside other libraries";
/// The tables of `scripts/bench cost`.
pub(crate) const COST: &str = "What a call costs";

/// The beginning of a page without a run of the whole suite.
const TITLE: &str = "# Measured\n\nWritten by `scripts/bench`; not by hand.\n";

/// Returns the folder of the page that a command writes: the one that the user named, or bench/ after a whole run. A part of the runs
/// would replace the whole section, so that it is written to no page unless the user named one.
pub(crate) fn folder(named: Option<&Path>, is_whole: bool) -> Option<PathBuf> {
    named.or(is_whole.then(suite::folder)).map(Path::to_owned)
}

/// Replaces the section of this heading in the page of a folder, or appends it. Without a folder it says that no page changes.
///
/// # Errors
///
/// The page cannot be written.
pub(crate) fn put(folder: Option<&Path>, heading: &str, text: &str) -> io::Result<()> {
    let Some(folder) = folder else {
        eprintln!(
            "These are not all rows of the section, so that bench/RESULTS.md stays as it is; --out names a folder for a page."
        );
        return Ok(());
    };
    let path = folder.join("RESULTS.md");
    let page = fs::read_to_string(&path).unwrap_or_else(|_| TITLE.to_owned());
    fs::create_dir_all(folder)?;
    fs::write(path, with(&page, heading, text))
}

/// Returns the page with this section.
pub(crate) fn with(page: &str, heading: &str, text: &str) -> String {
    let section = format!("\n## {heading}\n\n{}\n", text.trim());
    match bounds(page, heading) {
        Some((from, to)) => format!("{}{section}{}", &page[..from], &page[to..]),
        None => format!("{}\n{section}", page.trim_end()),
    }
}

/// Returns the text of the section of this heading.
pub(crate) fn section<'a>(page: &'a str, heading: &str) -> Option<&'a str> {
    let (from, to) = bounds(page, heading)?;
    Some(page[from..to].trim().strip_prefix(&format!("## {heading}"))?.trim())
}

/// Returns the range from the line break before the heading to that before the next heading.
fn bounds(page: &str, heading: &str) -> Option<(usize, usize)> {
    let head = format!("\n## {heading}\n");
    let from = page.find(&head)?;
    let to = page[from + head.len()..].find("\n## ").map_or(page.len(), |at| from + head.len() + at);
    Some((from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_runs_changes_no_page_unless_one_is_named() {
        let named = Path::new("elsewhere");
        assert_eq!(folder(None, true), Some(suite::folder().to_owned()));
        assert_eq!(folder(None, false), None);
        assert_eq!(folder(Some(named), false), Some(named.to_owned()));
        assert_eq!(folder(Some(named), true), Some(named.to_owned()));
    }

    #[test]
    fn a_section_is_written_to_the_named_page_alone() {
        let named = tempfile::tempdir().unwrap();
        put(Some(named.path()), COST, "one").unwrap();
        put(None, COST, "two").unwrap();
        let page = fs::read_to_string(named.path().join("RESULTS.md")).unwrap();
        assert!(page.contains("one") && !page.contains("two"), "{page}");
    }
}
