//! What a deploy, or a round of a dynamic provider, changed: lines for the log.

use std::collections::BTreeMap;

/// One line per entry that came (`+`), went (`-`) or has another schedule (`~`); each side is id → (job, schedule).
pub(crate) fn lines(
    before: &BTreeMap<String, (String, String)>,
    now: &BTreeMap<String, (String, String)>,
) -> Vec<String> {
    let gone = before.iter().filter(|(id, _)| !now.contains_key(*id)).map(|(_, (job, _))| format!("- {job}"));
    let others = now.iter().filter_map(|(id, (job, spec))| match before.get(id) {
        None => Some(format!("+ {job} {spec}")),
        Some((_, old)) if old != spec => Some(format!("~ {job} {old} → {spec}")),
        Some(_) => None,
    });
    let mut lines: Vec<_> = gone.chain(others).collect();
    // By name, not by sign.
    lines.sort_by(|a, b| a.get(2..).cmp(&b.get(2..)));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(all: &[(&str, &str, &str)]) -> BTreeMap<String, (String, String)> {
        all.iter().map(|(id, job, spec)| ((*id).to_owned(), ((*job).to_owned(), (*spec).to_owned()))).collect()
    }

    #[test]
    fn every_difference_is_one_line() {
        let before = entries(&[("1", "cleanup", "@hourly"), ("2", "report", "0 9 * * *"), ("3", "ping", "@every 30s")]);
        let now = entries(&[("2", "report", "0 10 * * *"), ("3", "ping", "@every 30s"), ("4", "audit", "@daily")]);
        assert_eq!(lines(&before, &now), ["+ audit @daily", "- cleanup", "~ report 0 9 * * * → 0 10 * * *"]);
        assert!(lines(&now, &now).is_empty());
        assert_eq!(lines(&entries(&[]), &before).len(), 3);
    }
}
