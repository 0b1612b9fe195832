//! A cron expression in its time zone.

mod next;
mod robfig;

use std::{fmt, str::FromStr, time::Duration};

use asynq_grammar::{
    cron::{self, Mode, Schedule},
    one_slip,
};
use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::CronError;

/// A cron expression in its time zone.
///
/// An expression has five fields (`minute hour day month weekday`), or six with the seconds first. Months and weekdays may be
/// names. The day may be `L`, `L-n`, `nW` or `LW`, the weekday `d#n` or `dL`. An expression may also be a descriptor (`@yearly`,
/// `@annually`, `@monthly`, `@weekly`, `@daily`, `@midnight`, `@hourly`), or `@every 30s`, which counts from the Unix epoch, so
/// that every program has the same times. A zone may stand in front: `TZ=Europe/Berlin `; without one the zone is UTC.
///
/// A day matches if the day of the month *or* the weekday does, as in robfig/cron, unless one of them is a plain star (`*` or `?`, not
/// `*/2`): then both must.
///
/// # Daylight saving
///
/// An hour written with a star (`*`, `*/2`) follows the clock: a time that does not exist has no run, and one that comes twice has
/// two. Any other hour fires once for each time on the wall clock. A time that does not exist fires at the first instant after the
/// gap, together with any other that falls there. A time that comes twice fires the first time. So `0 */12 * * *` has no run at
/// a midnight that the clock leaves out, and `0 0,12 * * *` has one.
///
/// ```
/// use asynq_cron::CronSpec;
///
/// let spec = CronSpec::parse("TZ=Europe/Berlin 30 2 * * *")?;
/// assert_eq!(spec.sentence(), "At 02:30, Europe/Berlin time");
/// // In the night when 02:30 does not exist it fires at 03:00, which is 01:00 UTC.
/// let next = spec.next_after("2026-03-28T12:00:00Z".parse().unwrap());
/// assert_eq!(next, "2026-03-29T01:00:00Z".parse().ok());
/// # Ok::<(), asynq_cron::SpecError>(())
/// ```
///
/// # As text
///
/// [`Display`](fmt::Display), [`as_str`](Self::as_str) and serde write the schedule with its zone; parsing that text gives an
/// equal schedule. Serde fails for a schedule that was read with [`parse_compat`](Self::parse_compat), because its text does not
/// say that robfig's rules apply: store the text and read it with `parse_compat` again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronSpec {
    text: String,
    zone: Tz,
    schedule: Schedule,
    mode: Mode,
}

/// The error for a text that is not a cron expression, or names a zone that does not exist.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The expression is wrong.
    #[error("`{text}`: {source}")]
    Expression {
        /// The whole text, at most its first 200 characters.
        text: String,
        /// The mistake and its place.
        source: CronError,
    },
    /// No time zone has this name.
    #[error("unknown time zone `{name}`{}", nearest.as_ref().map(|zone| format!("; did you mean `{zone}`?")).unwrap_or_default())]
    Zone {
        /// The name.
        name: String,
        /// The zone that was probably meant.
        nearest: Option<String>,
    },
    /// The text names a zone, and `tz` names another one.
    #[error("`{text}` names a time zone itself; leave `tz` out or take the zone out of the text")]
    TwoZones {
        /// The text.
        text: String,
    },
}

debug_as_text!(SpecError);

impl CronSpec {
    /// Parses an expression, in UTC unless it names a zone.
    ///
    /// # Errors
    ///
    /// The first mistake, an unknown zone, or a schedule that can never fire, such as 30 February.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        Self::read(text, Mode::Default, Tz::UTC)
    }

    /// Parses an expression in `zone`.
    ///
    /// ```
    /// use asynq_cron::{CronSpec, Tz};
    ///
    /// let spec = CronSpec::parse_in("0 9 * * mon-fri", Tz::Europe__Berlin)?;
    /// assert_eq!(spec.to_string(), "TZ=Europe/Berlin 0 9 * * mon-fri");
    /// # Ok::<(), asynq_cron::SpecError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`parse`](Self::parse); and the text names a zone itself.
    pub fn parse_in(text: &str, zone: Tz) -> Result<Self, SpecError> {
        let spec = Self::read(text, Mode::Default, zone)?;
        match cron::parse(text, Mode::Default) {
            Ok(cron::Spec { zone: Some(_), .. }) => Err(SpecError::TwoZones { text: text.chars().take(200).collect() }),
            _ => Ok(spec),
        }
    }

    /// Parses an expression by the rules of robfig/cron v3. Its times equal robfig's as well, to the second, also where the clock
    /// jumps: for schedules that are moved over from asynq. The zone is UTC unless the text names one.
    ///
    /// # Errors
    ///
    /// The expression is not valid for robfig, or the zone is not known.
    pub fn parse_compat(text: &str) -> Result<Self, SpecError> {
        Self::read(text, Mode::Compat, Tz::UTC)
    }

    /// Parses an expression as [`parse_compat`](Self::parse_compat) does, in `zone` if the text names no zone or `Local`.
    ///
    /// # Errors
    ///
    /// The errors of [`parse_compat`](Self::parse_compat).
    pub fn parse_compat_in(text: &str, zone: Tz) -> Result<Self, SpecError> {
        Self::read(text, Mode::Compat, zone)
    }

    fn read(text: &str, mode: Mode, default: Tz) -> Result<Self, SpecError> {
        let spec = cron::parse(text, mode)
            .map_err(|source| SpecError::Expression { text: text.chars().take(200).collect(), source })?;
        let (zone, text) = match spec.zone {
            None if default == Tz::UTC || matches!(spec.schedule, Schedule::Every(_)) => (Tz::UTC, text.to_owned()),
            None => (default, format!("TZ={default} {}", text.trim_start())),
            Some(zone) if zone.name.is_empty() => (Tz::UTC, text.to_owned()),
            Some(zone) if zone.name == "Local" && mode == Mode::Compat => {
                let mut text = text.to_owned();
                text.replace_range(zone.range, default.name());
                (default, text)
            }
            Some(zone) => (find_zone(&zone.name)?, text.to_owned()),
        };
        Ok(Self { text, zone, schedule: spec.schedule, mode })
    }

    /// Returns the schedule of an entry that cannot be read: an empty text, and no times.
    pub(crate) fn never() -> Self {
        Self { text: String::new(), zone: Tz::UTC, schedule: Schedule::Every(Duration::MAX), mode: Mode::Default }
    }

    /// Returns the first time after `after`; `None` if there is none within 400 years, or within 5 years for a schedule of
    /// [`parse_compat`](Self::parse_compat) that is not an `@every`.
    pub fn next_after(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        match (self.schedule, self.mode) {
            (Schedule::Fields(fields), Mode::Default) => next::after(&fields, self.zone, after),
            (Schedule::Fields(fields), Mode::Compat) => robfig::next(&fields, self.zone, after),
            (Schedule::Every(interval), Mode::Default) => next::multiple_after(interval, after),
            (Schedule::Every(interval), Mode::Compat) => robfig::next_every(interval, after),
        }
    }

    /// Returns the next `n` times after `after`; fewer if there are no more.
    pub fn upcoming_after(&self, after: DateTime<Utc>, n: usize) -> Vec<DateTime<Utc>> {
        std::iter::successors(self.next_after(after), |&at| self.next_after(at)).take(n).collect()
    }

    /// Makes `@every` count from the Unix epoch in either mode, so that all replicas have the same ticks.
    pub(crate) fn aligned(self) -> Self {
        match self.schedule {
            Schedule::Every(_) => Self { mode: Mode::Default, ..self },
            Schedule::Fields(_) => self,
        }
    }

    /// Returns whether the times are those of robfig's rules; those of an aligned `@every` are not.
    pub(crate) fn is_compat(&self) -> bool {
        self.mode == Mode::Compat
    }

    /// Returns the zone of the wall clock; it has no effect on `@every`.
    pub(crate) fn zone(&self) -> Tz {
        self.zone
    }

    /// Returns the whole schedule as one text, with its zone in front unless that is UTC: `TZ=Asia/Tokyo 0 9 * * *`.
    /// [`parse`](Self::parse) reads an equal schedule from it, or [`parse_compat`](Self::parse_compat) if the schedule was read
    /// with that.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the schedule in English, with its zone unless that is UTC.
    pub fn sentence(&self) -> String {
        let sentence = self.schedule.sentence();
        match (self.schedule, self.zone) {
            (Schedule::Every(_), _) | (_, Tz::UTC) => sentence,
            (_, zone) => format!("{sentence}, {zone} time"),
        }
    }
}

impl fmt::Display for CronSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl FromStr for CronSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        Self::parse(text)
    }
}

impl Serialize for CronSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.mode == Mode::Compat {
            let text = format!(
                "`{}` was read with `parse_compat`, which its text does not say; store the text and read it with \
                 `parse_compat` again",
                self.text
            );
            return Err(serde::ser::Error::custom(text));
        }
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for CronSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

fn find_zone(name: &str) -> Result<Tz, SpecError> {
    name.parse::<Tz>().map_err(|_| SpecError::Zone { name: name.chars().take(80).collect(), nearest: nearest(name) })
}

/// The zone that was probably meant: one with the same letters, the same city, or a region and a city with one slip. `GMT+2` is not
/// taken for `Etc/GMT+2`, which is two hours behind UTC, nor `PST` for `EST`, nor `America/Boston` for `America/Creston`.
fn nearest(name: &str) -> Option<String> {
    let city = |zone: &str| zone.rsplit('/').next().unwrap_or_default().to_lowercase();
    let names = || chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name());
    let same = names().find(|zone| zone.eq_ignore_ascii_case(name));
    let wanted = city(name).replace([' ', '-'], "_");
    let has_city = name.contains('/') && !name.contains(|c: char| c.is_ascii_digit());
    same.or_else(|| names().find(|zone| !wanted.is_empty() && !wanted.contains('+') && city(zone) == wanted))
        .or_else(|| if has_city { one_slip(name, names()) } else { None })
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use asynq_test_support::eventually_blocking;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().expect("a time")
    }

    #[test]
    fn schedules_fire_as_a_person_expects_when_the_clock_jumps() {
        for (zone, spec, after, expected) in [
            // One row for each kind of jump: a gap, an overlap, a midnight that does not exist, a shift by half an hour.
            ("Europe/Berlin", "30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"),
            ("Europe/Berlin", "*/20 2 * * *", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"),
            ("Europe/Berlin", "*/20 2 * * *", "2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"),
            ("Europe/Berlin", "30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"),
            ("Europe/Berlin", "30 2 * * *", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"),
            ("Europe/Berlin", "*/30 * * * *", "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z"),
            ("Europe/Berlin", "*/30 * * * *", "2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z"),
            ("America/New_York", "30 1 * * *", "2026-10-31T12:00:00Z", "2026-11-01T05:30:00Z"),
            ("America/New_York", "30 1 * * *", "2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"),
            ("America/New_York", "0 */2 * * *", "2026-03-08T05:00:00Z", "2026-03-08T08:00:00Z"),
            ("America/Sao_Paulo", "0 0 * * *", "2018-11-03T12:00:00Z", "2018-11-04T03:00:00Z"),
            ("Asia/Beirut", "@daily", "2026-03-28T12:00:00Z", "2026-03-28T22:00:00Z"),
            ("Australia/Lord_Howe", "15 2 * * *", "2026-10-03T00:00:00Z", "2026-10-03T15:30:00Z"),
            ("Australia/Lord_Howe", "15 2 * * *", "2026-04-04T00:00:00Z", "2026-04-04T15:45:00Z"),
            // A time in a gap has no run where the hour has a star, and one where it is named.
            ("Africa/Cairo", "0 */12 * * *", "2027-04-29T12:00:00Z", "2027-04-30T09:00:00Z"),
            ("Africa/Cairo", "0 0,12 * * *", "2027-04-29T12:00:00Z", "2027-04-29T22:00:00Z"),
            // In the first pass of an overlap, of a schedule whose next time is in a later gap.
            ("America/Santiago", "0 */2 5 9 *", "2027-04-04T02:30:00Z", "2027-09-05T05:00:00Z"),
        ] {
            let spec = CronSpec::parse(&format!("TZ={zone} {spec}")).expect(spec);
            assert_eq!(spec.next_after(at(after)), Some(at(expected)), "{spec} after {after}");
        }
    }

    #[test]
    fn intervals_are_the_same_in_every_process() {
        let spec = CronSpec::parse("@every 7s").expect("an interval");
        let times = spec.upcoming_after(at("2026-01-01T00:00:01.5Z"), 3);
        assert!(times.iter().all(|time| time.timestamp() % 7 == 0 && time.timestamp_subsec_nanos() == 0), "{times:?}");
        assert!(times[0] - at("2026-01-01T00:00:01.5Z") <= chrono::TimeDelta::seconds(7));
        assert_eq!(spec.next_after(times[0]), Some(times[1]));
        // robfig counts from the given time.
        let spec = CronSpec::parse_compat("@every 7s").expect("an interval");
        assert_eq!(spec.next_after(at("2026-01-01T00:00:01.5Z")), Some(at("2026-01-01T00:00:08Z")));
    }

    #[test]
    fn the_error_of_an_invalid_text_gives_the_reason() {
        for (text, message) in [
            ("60 * * * *", "minute must be 0–59, got 60"),
            ("TZ=europe/berlin 0 9 * * *", "did you mean `Europe/Berlin`?"),
            ("TZ=New_York 0 9 * * *", "did you mean `America/New_York`?"),
            ("TZ=Europe/Berln 0 9 * * *", "did you mean `Europe/Berlin`?"),
            ("CRON_TZ=america/newyork 0 9 * * *", "did you mean `America/New_York`?"),
            ("TZ=Asia/Tokoy 0 9 * * *", "did you mean `Asia/Tokyo`?"),
            ("TZ=Nowhere/City 0 9 * * *", "unknown time zone `Nowhere/City`"),
            ("TZ=etc/gmt+2 0 9 * * *", "did you mean `Etc/GMT+2`?"),
            ("TZ=../../etc/passwd 0 9 * * *", "unknown time zone"),
            ("0 0 30 2 *", "never fire"),
            ("", "empty"),
        ] {
            let error = CronSpec::parse(text).expect_err(text).to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
        // `Etc/GMT+2` is two hours behind UTC.
        for zone in ["GMT+2", "Etc/GMT+20", "PST", "America/Boston", "Asia/Mumbai"] {
            let error = CronSpec::parse(&format!("TZ={zone} 0 9 * * *")).expect_err("not a zone").to_string();
            assert_eq!(error, format!("unknown time zone `{zone}`"));
        }
        assert_eq!(
            CronSpec::parse_in("TZ=UTC 0 9 * * *", Tz::Europe__Berlin),
            Err(SpecError::TwoZones { text: "TZ=UTC 0 9 * * *".into() })
        );
    }

    #[test]
    fn absurd_texts_are_answered_in_good_time_and_in_few_words() {
        // A step for each pair of a million characters would take far longer than the wait.
        let answers = std::thread::spawn(answers_to_absurd_texts);
        eventually_blocking("all texts are answered", || answers.is_finished().then_some(()));
        answers.join().expect("each answer is right");
    }

    fn answers_to_absurd_texts() {
        let many = |part: &str| part.repeat(1_000_000 / part.len());
        for (text, is_fine) in [
            (format!("{}0 * * * *", many("0,")), true),
            (format!("{} * * * *", many("0,")), false),
            (format!("{} * * * *", many("9")), false),
            (format!("*/{} * * * *", many("9")), false),
            (format!("1-{} * * * *", many("9")), false),
            (format!("* * * * {}", many("mon")), false),
            (format!("* * * * {}", many("ä")), false),
            (format!("TZ={} * * * * *", many("é/")), false),
            (format!("@every {}h", many("9")), false),
            // 57 years.
            (format!("@every {}", many("1h")), true),
            (format!("@{}", many("daily")), false),
            (many("* "), false),
            (many("-"), false),
            (many("\0"), false),
            (many(" "), false),
        ] {
            let start = text.chars().take(20).collect::<String>();
            match CronSpec::parse(&text) {
                Ok(_) => assert!(is_fine, "{start}"),
                Err(error) => {
                    assert!(!is_fine && error.to_string().len() < 2_000, "{start}: {} bytes", error.to_string().len());
                }
            }
        }
    }

    #[test]
    fn a_spec_travels_as_its_text() {
        let tokyo = Tz::Asia__Tokyo;
        for (spec, text) in [
            (CronSpec::parse("0 9 * * mon-fri"), "0 9 * * mon-fri"),
            (CronSpec::parse("TZ=Asia/Tokyo 0 9 * * *"), "TZ=Asia/Tokyo 0 9 * * *"),
            (CronSpec::parse("CRON_TZ=Asia/Tokyo 0 9 * * *"), "CRON_TZ=Asia/Tokyo 0 9 * * *"),
            (CronSpec::parse_in("0 9 * * *", tokyo), "TZ=Asia/Tokyo 0 9 * * *"),
            (CronSpec::parse_in("@daily", tokyo), "TZ=Asia/Tokyo @daily"),
            (CronSpec::parse_in("0 9 * * *", Tz::UTC), "0 9 * * *"),
        ] {
            let spec = spec.expect(text);
            assert_eq!((spec.as_str(), spec.to_string().as_str()), (text, text));
            let json = serde_json::to_string(&spec).expect("a text");
            assert_eq!(json, format!("{text:?}"));
            assert_eq!(serde_json::from_str::<CronSpec>(&json).expect("a spec"), spec);
            assert_eq!(text.parse(), Ok(spec));
        }
        // 09:00 in Tokyo, not in London.
        let spec = CronSpec::parse_in("0 9 * * *", tokyo).expect("a spec");
        let json = serde_json::to_string(&spec).expect("a text");
        let read: CronSpec = serde_json::from_str(&json).expect("a spec");
        assert_eq!(read.next_after(at("2026-01-01T09:00:00Z")), Some(at("2026-01-02T00:00:00Z")));
        assert_eq!(read.sentence(), "At 09:00, Asia/Tokyo time");
        // An interval is real time, so its zone has no effect.
        assert_eq!(CronSpec::parse_in("@every 1h", tokyo).expect("a spec").as_str(), "@every 1h");
        assert!(serde_json::from_str::<CronSpec>("\"nonsense\"").is_err());
    }

    #[test]
    fn a_spec_of_robfigs_reads_back_as_such_and_is_not_serialized_as_one_of_ours() {
        let tokyo = Tz::Asia__Tokyo;
        for (spec, text) in [
            (CronSpec::parse_compat("30 2 * * *"), "30 2 * * *"),
            (CronSpec::parse_compat_in("1,,2 * * * *", tokyo), "TZ=Asia/Tokyo 1,,2 * * * *"),
            (CronSpec::parse_compat_in("TZ=Local 0 9 * * *", tokyo), "TZ=Asia/Tokyo 0 9 * * *"),
        ] {
            let spec = spec.expect(text);
            assert_eq!(spec.as_str(), text);
            assert_eq!(CronSpec::parse_compat(text).as_ref(), Ok(&spec));
            let error = serde_json::to_string(&spec).expect_err("its text would be read in another way");
            assert!(error.to_string().contains("parse_compat"), "{error}");
        }
    }

    #[test]
    fn the_end_of_time_does_not_panic() {
        for text in ["* * * * *", "0 0 29 2 *", "@every 1h", "TZ=Europe/Berlin 0 2 * * *"] {
            for spec in [CronSpec::parse(text), CronSpec::parse_compat(text)] {
                let spec = spec.expect(text);
                for after in [DateTime::<Utc>::MAX_UTC, DateTime::<Utc>::MIN_UTC] {
                    let next = spec.next_after(after);
                    assert!(next.is_none_or(|next| next > after), "{text}");
                }
            }
        }
    }
}
