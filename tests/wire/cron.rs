//! Next times and refusals of robfig/cron itself, as golden data.

use asynq_cron::CronSpec;
use chrono::{DateTime, Utc};
use chrono_tz::Tz;

use crate::wire::golden::file;

/// The golden files of this module.
pub(crate) const FILES: [&str; 2] = ["pure_cron_next", "pure_cron_invalid"];

#[test]
fn compat_schedules_fire_when_robfigs_do() {
    let golden = file("pure_cron_next");
    let cases = golden["cases"].as_array().unwrap();
    for case in cases {
        let text = case["spec"].as_str().unwrap();
        let location: Tz = case["scheduler_location"].as_str().unwrap().parse().unwrap();
        let start: DateTime<Utc> = case["start"].as_str().unwrap().parse().unwrap();
        let spec = CronSpec::parse_compat_in(text, location).unwrap_or_else(|error| panic!("{text}: {error}"));
        let expected: Vec<DateTime<Utc>> = case["next"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|next| next.as_str())
            .filter(|&next| next != "NEVER (zero time)")
            .map(|next| next.parse().unwrap())
            .collect();
        let wanted = case["next"].as_array().map_or(0, Vec::len);
        assert_eq!(spec.upcoming_after(start, wanted), expected, "{text} in {location} from {start}");
    }
    assert!(cases.len() >= 147, "only {} cases", cases.len());
}

#[test]
fn a_spec_that_robfig_refuses_is_refused_by_both_readings() {
    let golden = file("pure_cron_invalid");
    let cases = golden["cases"].as_array().unwrap();
    // Six fields and the extensions are ours; `parse_compat` refuses them as robfig does.
    let extensions = ["* * * * * *", "* * L * *", "* * * * 5#2", "* * 15W * *", "* * * * 5L", "* * LW * *"];
    for case in cases {
        let text = case["spec"].as_str().unwrap();
        assert!(CronSpec::parse_compat(text).is_err(), "{text:?}: {}", case["error"]);
        assert!(extensions.contains(&text) || CronSpec::parse(text).is_err(), "{text:?}");
    }
    assert!(cases.len() >= 29, "only {} cases", cases.len());
}
