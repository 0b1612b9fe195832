//! The alerts that docs/operations.md gives to copy.

use crate::tree::{none, read};

/// Alerts about events that come again and again while they matter.
const REPEATED: [&str; 2] = ["AsynqUnknownJobs", "AsynqAggregationsFail"];

/// The rules, as (name, text).
fn alerts(page: &str) -> impl Iterator<Item = (&str, &str)> {
    let rules = page.split("- alert: ").skip(1);
    rules.map(|rule| rule.split("```").next().unwrap_or_default()).filter_map(|rule| rule.split_once('\n'))
}

/// Prometheus's `increase` is 0 for a counter that appears with its first event, as counters with labels do.
#[test]
fn an_alert_about_the_growth_of_a_counter_sees_its_first_event() {
    let (page, names) = (read("docs/operations.md"), read("asynq-runtime/src/metrics/names.rs"));
    // A worker shows counters without labels at zero before their first event.
    let counters = names.lines().filter(|line| line.contains("Counter, []"));
    let at_zero = &counters.filter_map(|line| line.split('"').nth(1)).collect::<Vec<_>>();
    let blind = alerts(&page).filter(|(name, _)| !REPEATED.contains(name)).flat_map(|(name, rule)| {
        let counters =
            rule.split("increase(").skip(1).filter_map(|rest| rest.split_once('[')).map(|(counter, _)| counter);
        let is_blind = move |counter: &&str| {
            let is_new = format!("{counter} unless last_over_time({counter}[15m] offset 1h)");
            !at_zero.contains(counter) && !rule.contains(&is_new)
        };
        counters.filter(is_blind).map(move |counter| format!("{name}: the first event of {counter}"))
    });
    none(
        blind.collect(),
        "each alert sees the first event (write `or sum by (..) (x unless last_over_time(x[15m] offset 1h)) > 0`)",
    );
    let bare = alerts(&page)
        .filter(|(_, rule)| rule.split("unless ").skip(1).any(|past| !past.starts_with("last_over_time(")));
    none(bare.map(|(name, _)| name.to_owned()).collect(), "one scrape that failed an hour ago makes no counter new");
    assert!(alerts(&page).count() > 10, "the rules are found");
}

/// A program that lacks a periodic job does not show its gauge, and a comparison with a series that is gone does not fire.
#[test]
fn an_alert_about_the_gauge_of_one_job_sees_that_the_job_is_gone() {
    let page = read("docs/operations.md");
    let of_one = |rule: &str| rule.split_once("{type=\"").map(|(before, _)| before.to_owned());
    let blind = alerts(&page).filter_map(|(name, rule)| {
        let before = of_one(rule)?;
        let metric = before.rsplit(['(', ' ']).next().unwrap_or_default();
        let is_blind = !metric.ends_with("_total") && !rule.contains(&format!("absent({metric}{{type=\""));
        is_blind.then(|| format!("{name}: {metric} without `or absent(..)`"))
    });
    none(blind.collect(), "each alert fires where no program has the job");
    assert!(alerts(&page).any(|(_, rule)| of_one(rule).is_some()), "such a rule is found");
}

/// A rate or an increase over a window is above 0 until the window has passed the last event: where it is as long as `for`, two events
/// of one minute fire after that time, when all is well again.
#[test]
fn an_alert_about_a_rate_needs_more_than_a_moment_of_events() {
    let page = read("docs/operations.md");
    let minutes = |text: &str, before: &str, after: &str| -> Option<u32> {
        text.split_once(before)?.1.split_once(after)?.0.parse().ok()
    };
    let of_one_event = alerts(&page).filter_map(|(name, rule)| {
        let rate =
            rule.split_once("rate(").or_else(|| rule.split_once("increase(")).filter(|_| rule.contains("])) > 0"))?.1;
        let (window, lasts) = (minutes(rate, "[", "m]")?, minutes(rate, "for: ", "m")?);
        (window >= lasts).then(|| format!("{name}: a rate over {window} min fires after {lasts}"))
    });
    none(of_one_event.collect(), "the window is shorter than `for`");
}
