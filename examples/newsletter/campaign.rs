//! Names a campaign and its tasks, and decides whether a run goes on with the last campaign or begins a new one.

use serde::{Deserialize, Serialize};

/// One mailing to the whole list, on one broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Campaign {
    /// The moment when the campaign began, such as `20261124-091500-250`.
    pub(crate) id: String,
    /// The location of the broker that has its tasks.
    pub(crate) broker: String,
    /// Whether all its tasks were settled when a run ended.
    pub(crate) finished: bool,
}

/// The format in which chrono writes the moment that names a campaign.
pub(crate) const ID_FORMAT: &str = "%Y%m%d-%H%M%S-%3f";

impl Campaign {
    /// Chooses the campaign that a run works on.
    ///
    /// `saved` is the note of the last run, `left_over` the id of any task that is not settled yet. The id of such a task names
    /// its campaign, even if the folder with the note was deleted.
    pub(crate) fn choose(saved: Option<Self>, left_over: Option<&str>, broker: &str, fresh: String) -> (Self, Begun) {
        let campaign = |id| Self { id, broker: broker.to_owned(), finished: false };
        if let Some(id) = left_over.and_then(campaign_of) {
            return (campaign(id.to_owned()), Begun::Before);
        }
        match saved {
            Some(saved) if !saved.finished && saved.broker == broker => (saved, Begun::Before),
            _ => (campaign(fresh), Begun::Now),
        }
    }

    /// Returns the id of the task that sends this campaign to `to`: the same for the same address in every run, and a file name
    /// on every system.
    pub(crate) fn task_id(&self, to: &str) -> String {
        format!("{}.{}", self.id, file_safe(to))
    }

    /// Returns whether the task of this id belongs to this campaign.
    pub(crate) fn owns(&self, task_id: &str) -> bool {
        campaign_of(task_id) == Some(&self.id)
    }
}

/// Whether a campaign is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begun {
    Now,
    Before,
}

fn campaign_of(task_id: &str) -> Option<&str> {
    let (campaign, address) = task_id.split_once('.')?;
    let stamp = campaign.chars().all(|c| c.is_ascii_digit() || c == '-');
    (campaign.len() == 19 && stamp && !address.is_empty()).then_some(campaign)
}

/// The longest piece of a file name: every file system takes 255 bytes, and the campaign, `.eml` and a temporary
/// name's ending come on top.
const LONGEST: usize = 180;

/// Returns `text` as a piece of a file name, different for different texts.
fn file_safe(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-' | b'+' | b'=' | b'@' => safe.push(char::from(byte)),
            _ => safe.push_str(&format!("%{byte:02X}")),
        }
    }
    if safe.len() > LONGEST {
        // FNV-1a; `~` occurs in no short name.
        let hash = text
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        safe.truncate(LONGEST - 17);
        safe.push_str(&format!("~{hash:016x}"));
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "sqlite://asynq.db";
    const OLD: &str = "20261123-080000-000";
    const NEW: &str = "20261124-091500-250";

    fn saved(finished: bool, broker: &str) -> Option<Campaign> {
        Some(Campaign { id: OLD.into(), broker: broker.into(), finished })
    }

    #[test]
    fn a_new_campaign_begins_only_when_nothing_is_left_over() {
        let left = "20261122-070000-000.ann@example.com";
        let cases = [
            ("the first run", None, None, NEW, Begun::Now),
            ("the last run ended well", saved(true, HERE), None, NEW, Begun::Now),
            ("the last run was cut off", saved(false, HERE), None, OLD, Begun::Before),
            ("the last run was on another broker", saved(false, "redis://there"), None, NEW, Begun::Now),
            ("tasks wait, the folder is gone", None, Some(left), "20261122-070000-000", Begun::Before),
            (
                "tasks wait, the folder is of another",
                saved(true, HERE),
                Some(left),
                "20261122-070000-000",
                Begun::Before,
            ),
            ("a stranger's task waits", saved(true, HERE), Some("0192f0c1-77"), NEW, Begun::Now),
        ];
        for (name, saved, left_over, id, begun) in cases {
            let (campaign, found) = Campaign::choose(saved, left_over, HERE, NEW.into());
            assert_eq!((campaign.id.as_str(), found), (id, begun), "{name}");
            assert_eq!((campaign.broker.as_str(), campaign.finished), (HERE, false), "{name}");
        }
    }

    #[test]
    fn a_task_id_is_a_file_name_and_keeps_addresses_apart() {
        let campaign = Campaign { id: NEW.into(), broker: HERE.into(), finished: false };
        assert_eq!(campaign.task_id("ann@example.com"), "20261124-091500-250.ann@example.com");

        let long = "x".repeat(600);
        let longer = format!("{long}y");
        let awkward = [
            "sales/emea@example.org",
            "sales%2Femea@example.org",
            "a b@example.com",
            "ab@example.com",
            "a\tb",
            "é",
            "",
            "../../etc/passwd",
            "con",
            "a:b",
            "a~b",
            &long,
            &longer,
        ];
        let ids: std::collections::HashSet<String> = awkward.iter().map(|to| campaign.task_id(to)).collect();
        assert_eq!(ids.len(), awkward.len());
        for id in ids {
            assert!(id.len() <= 200, "{id}");
            assert!(!id.contains(|c: char| "/\\:*?\"<>|".contains(c) || c.is_control() || !c.is_ascii()), "{id}");
        }
        assert!(campaign.owns(&campaign.task_id("ann@example.com")));
        assert!(!campaign.owns("20261123-080000-000.ann@example.com"));
    }
}
