//! Where we differ from Go on purpose: each line with the failure (F) or rule (D, H) of the design that asks for it.

/// One line of difference in one scenario.
pub(crate) struct Deviation {
    scenario: &'static str,
    /// The line as `compare.rs` writes it.
    differs: &'static str,
    /// RELIABILITY's F number, PROTOCOL's D, H or W number, or the page that decides.
    rule: &'static str,
    why: &'static str,
}

const fn row(scenario: &'static str, differs: &'static str, rule: &'static str, why: &'static str) -> Deviation {
    Deviation { scenario, differs, rule, why }
}

/// All of them. A difference that is not here fails, and so does a row that no longer applies.
pub(crate) const TABLE: &[Deviation] = &[];

/// Holds the differences found in `scenario` against the table.
#[track_caller]
pub(crate) fn check(scenario: &str, found: Vec<String>) {
    let rows: Vec<&Deviation> = TABLE.iter().filter(|row| row.scenario == scenario).collect();
    let unexpected: Vec<&String> = found.iter().filter(|line| rows.iter().all(|row| row.differs != **line)).collect();
    let stale: Vec<String> = rows
        .iter()
        .filter(|row| found.iter().all(|line| line != row.differs))
        .map(|row| format!("{} ({}: {})", row.differs, row.rule, row.why))
        .collect();
    assert!(
        unexpected.is_empty(),
        "{scenario} differs from Go in a way that deviations.rs does not know:\n{unexpected:#?}"
    );
    assert!(stale.is_empty(), "{scenario} no longer differs as deviations.rs says:\n{stale:#?}");
}
