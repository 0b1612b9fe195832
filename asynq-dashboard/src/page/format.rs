//! Numbers, spans, sizes and times as people read them.

use std::time::Duration;

pub(crate) use asynq_grammar::{counted, thousands as count};
use chrono::{DateTime, Utc};
use maud::{Markup, html};

/// Formats the two largest units of a span: `250 ms`, `3.2 s`, `2 min 5 s`, `3 h 20 min`, `4 d 2 h`.
pub(crate) fn span(span: Duration) -> String {
    let (ms, s) = (span.as_millis(), span.as_secs());
    let two = |large: u64, unit: &str, small: u64, of: &str| match small {
        0 => format!("{} {unit}", count(large)),
        small => format!("{} {unit} {small} {of}", count(large)),
    };
    match s {
        0 if ms == 0 => "0 s".to_owned(),
        0 => format!("{ms} ms"),
        1..=9 if ms % 1000 >= 100 => format!("{}.{} s", s, ms % 1000 / 100),
        1..=59 => format!("{s} s"),
        60..=3599 => two(s / 60, "min", s % 60, "s"),
        3600..=86_399 => two(s / 3600, "h", s % 3600 / 60, "min"),
        _ => two(s / 86_400, "d", s % 86_400 / 3600, "h"),
    }
}

/// Formats the largest unit only, for a distance in time: `3 s`, `5 min`, `2 h`, `4 d`.
fn coarse(span: Duration) -> String {
    match span.as_secs() {
        s @ 0..=119 => format!("{s} s"),
        s @ 120..=7199 => format!("{} min", s / 60),
        s @ 7200..=172_799 => format!("{} h", s / 3600),
        s => format!("{} d", count(s / 86_400)),
    }
}

/// Formats bytes: `512 B`, `1.5 KiB`, `20 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut tenths, mut unit) = (bytes.saturating_mul(10) / 1024, 0);
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    match tenths {
        small @ 0..=99 if small % 10 > 0 => format!("{}.{} {}", small / 10, small % 10, UNITS[unit]),
        large => format!("{} {}", count(large / 10), UNITS[unit]),
    }
}

/// Formats `failed` of `all` in percent: `0 %`, `0.4 %`, `12 %`; `–` if `all` is zero.
pub(crate) fn percent(failed: u64, all: u64) -> String {
    if all == 0 {
        return "–".to_owned();
    }
    let tenths = u128::from(failed) * 1000 / u128::from(all);
    match tenths {
        0 if failed > 0 => "< 0.1 %".to_owned(),
        small @ 0..=99 if small % 10 > 0 => format!("{}.{} %", small / 10, small % 10),
        large => format!("{} %", large / 10),
    }
}

/// Formats `at` as seen from `now`: `3 min ago`, `in 2 h`, `now`.
pub(crate) fn distance(now: DateTime<Utc>, at: DateTime<Utc>) -> String {
    let apart = (now - at).abs().to_std().unwrap_or_default();
    match apart.as_millis() {
        0..=999 => "now".to_owned(),
        _ if at < now => format!("{} ago", coarse(apart)),
        _ => format!("in {}", coarse(apart)),
    }
}

/// Formats the exact time: `2030-01-02 03:04:05 UTC`.
pub(crate) fn exact(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// Renders a relative time, with the exact one as its title.
pub(crate) fn when(now: DateTime<Utc>, at: DateTime<Utc>) -> Markup {
    html! { time datetime=(at.format("%Y-%m-%dT%H:%M:%SZ")) title=(exact(at)) { (distance(now, at)) } }
}

/// Renders a time as [`when`] does; a dash where there is no time.
pub(crate) fn when_known(now: DateTime<Utc>, at: Option<DateTime<Utc>>) -> Markup {
    at.map_or_else(|| html! { "–" }, |at| when(now, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_noun() {
        assert_eq!((counted(1, "task"), counted(2000, "task")), ("1 task".to_owned(), "2,000 tasks".to_owned()));
    }

    #[test]
    fn spans_have_their_two_largest_units() {
        for (ms, text) in [
            (0, "0 s"),
            (1, "1 ms"),
            (999, "999 ms"),
            (1000, "1 s"),
            (3250, "3.2 s"),
            (59_999, "59 s"),
            (119_000, "1 min 59 s"),
            (125_000, "2 min 5 s"),
            (120_000, "2 min"),
            (12_000_000, "3 h 20 min"),
            (86_400_000, "1 d"),
            (352_800_000, "4 d 2 h"),
        ] {
            assert_eq!(span(Duration::from_millis(ms)), text);
        }
    }

    #[test]
    fn sizes_have_one_unit() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (20 << 20, "20 MiB"),
            (3 << 30, "3 GiB"),
            (u64::MAX, "1,677,721 TiB"),
        ] {
            assert_eq!(size(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn a_rate_is_in_percent() {
        for (failed, all, text) in
            [(0, 0, "–"), (0, 9, "0 %"), (1, 100_000, "< 0.1 %"), (4, 1000, "0.4 %"), (1, 8, "12 %"), (9, 9, "100 %")]
        {
            assert_eq!(percent(failed, all), text);
        }
    }

    #[test]
    fn a_time_is_shown_from_now() {
        let now = DateTime::from_timestamp(1_893_553_445, 0).unwrap_or_default();
        for (seconds, text) in [
            (0, "now"),
            (-3, "3 s ago"),
            (-300, "5 min ago"),
            (7200, "in 2 h"),
            (-200_000, "2 d ago"),
            (119, "in 119 s"),
        ] {
            assert_eq!(distance(now, now + chrono::TimeDelta::seconds(seconds)), text);
        }
        assert_eq!(
            when(now, now).into_string(),
            r#"<time datetime="2030-01-02T03:04:05Z" title="2030-01-02 03:04:05 UTC">now</time>"#
        );
    }
}
