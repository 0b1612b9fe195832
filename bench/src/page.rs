//! The sections of RESULTS.md that have a command of their own: each command replaces its section and keeps the others.

use std::{fs, io, path::Path};

/// The headings of the sections.
pub(crate) const SECTIONS: [&str; 2] = [PEERS, COST];
/// The table of `scripts/bench peers`.
pub(crate) const PEERS: &str = "Beside other libraries";
/// The tables of `scripts/bench cost`.
pub(crate) const COST: &str = "What a call costs";

/// The beginning of a page without a run of the whole suite.
const TITLE: &str = "# Measured\n\nWritten by `scripts/bench`; not by hand.\n";

/// Replaces the section of this heading, or appends it.
///
/// # Errors
///
/// The page cannot be written.
pub(crate) fn put(path: &Path, heading: &str, text: &str) -> io::Result<()> {
    let page = fs::read_to_string(path).unwrap_or_else(|_| TITLE.to_owned());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
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
