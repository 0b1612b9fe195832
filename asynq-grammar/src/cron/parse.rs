//! Parses a cron text; every error has the bytes that are wrong.

mod kind;

use std::ops::Range;

use self::kind::Field;
use super::{
    Fields, Mode, Schedule, Spec, Zone,
    every::interval,
    field::{bit, stepped},
};
use crate::{TextError, duration};

const DESCRIPTORS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];
const EVERY: &str = "@every ";
const FIELDS: [Field; 6] = [Field::Second, Field::Minute, Field::Hour, Field::Day, Field::Month, Field::Weekday];

/// Parses a cron text: five fields, or six with the seconds first; a descriptor such as `@daily`; or `@every 30s`; each
/// with an optional `TZ=Europe/Berlin ` or `CRON_TZ=… ` in front.
///
/// # Errors
///
/// The first mistake in the text. In [`Mode::Default`] a schedule that can never fire is a mistake.
pub fn parse(text: &str, mode: Mode) -> Result<Spec, TextError> {
    if text.trim().is_empty() {
        return Err(TextError::new("the schedule is empty; write one such as `*/5 * * * *`", 0..text.len()));
    }
    let (zone, body) = zone(text, mode)?;
    let schedule = if text[body.clone()].starts_with('@') {
        descriptor(text, body, mode)?
    } else {
        Schedule::Fields(read_fields(text, body, mode)?)
    };
    Ok(Spec { zone, schedule })
}

/// Returns the zone in front, and the place of the rest.
fn zone(text: &str, mode: Mode) -> Result<(Option<Zone>, Range<usize>), TextError> {
    let Some(key) = ["TZ=", "CRON_TZ="].into_iter().find(|key| text.starts_with(key)) else {
        return Ok((None, 0..text.len()));
    };
    // robfig ends the name at a space alone.
    let ends = |c: char| if mode == Mode::Compat { c == ' ' } else { c.is_whitespace() };
    let Some(end) = text.find(ends) else {
        let message = format!("`{key}` needs a zone, a space and a schedule: `{key}Europe/Berlin 0 9 * * *`");
        return Err(TextError::new(message, 0..text.len()));
    };
    let range = key.len()..end;
    let start = text.len() - text[end..].trim_start().len();
    let stop = text.trim_end().len().max(start);
    Ok((Some(Zone { name: text[range.clone()].to_owned(), range }), start..stop))
}

fn descriptor(text: &str, range: Range<usize>, mode: Mode) -> Result<Schedule, TextError> {
    let word = &text[range.clone()];
    if word.starts_with(EVERY) {
        return interval(text, range.start + EVERY.len()..range.end, mode).map(Schedule::Every);
    }
    if let Some((_, fields)) = DESCRIPTORS.iter().find(|(name, _)| *name == word) {
        return read_fields(fields, 0..fields.len(), mode).map(Schedule::Fields);
    }
    let lower = word.trim().to_lowercase();
    let message = match DESCRIPTORS.iter().find(|(name, _)| *name == lower) {
        Some((name, _)) => format!("unknown descriptor `{word}`; write `{name}`"),
        None if word == EVERY.trim() => "`@every` needs an interval, such as `@every 30s`".to_owned(),
        None => {
            let known: Vec<&str> = DESCRIPTORS.iter().map(|(name, _)| *name).collect();
            format!("unknown descriptor `{word}`; there are {} and @every", known.join(", "))
        }
    };
    Err(TextError::new(message, range))
}

fn read_fields(text: &str, range: Range<usize>, mode: Mode) -> Result<Fields, TextError> {
    let words = words(text, range.clone());
    let kinds = match (words.len(), mode) {
        (5, _) => &FIELDS[1..],
        (6, Mode::Default) => &FIELDS[..],
        (found, Mode::Compat) => {
            return Err(TextError::new(format!("expected 5 fields, found {found}"), pointable(range, text)));
        }
        (found, Mode::Default) => {
            let is_interval = |word: &str| word.eq_ignore_ascii_case("every") || duration::parse(word).is_ok();
            let hint = match words.first() {
                Some(word) if is_interval(&text[word.clone()]) => "; an interval is written `@every 5m`",
                _ => "",
            };
            let message = format!(
                "expected 5 fields (minute hour day month weekday), or 6 with the second first, found {found}{hint}"
            );
            return Err(TextError::new(message, pointable(range, text)));
        }
    };
    let mut fields = Fields::default();
    if kinds.len() < FIELDS.len() {
        fields.seconds = bit(0);
    }
    for (&kind, word) in kinds.iter().zip(&words) {
        Reader { text, kind, mode }.field(word.clone(), &mut fields)?;
    }
    if mode == Mode::Default && fields.never_fires() {
        let days = words[words.len() - 3].start..words[words.len() - 1].end;
        return Err(TextError::new("no date ever matches: this schedule would never fire", days));
    }
    Ok(fields)
}

/// Returns the places of the words between white space.
fn words(text: &str, range: Range<usize>) -> Vec<Range<usize>> {
    let mut end = range.start;
    let words = text[range].split_inclusive(char::is_whitespace).map(|word| {
        let start = end;
        end += word.len();
        start..start + word.trim_end().len()
    });
    words.filter(|word| !word.is_empty()).collect()
}

/// Returns the range, or that of the whole text if the range is empty.
fn pointable(range: Range<usize>, text: &str) -> Range<usize> {
    if range.is_empty() { 0..text.len() } else { range }
}

/// Reads one field.
struct Reader<'t> {
    text: &'t str,
    kind: Field,
    mode: Mode,
}

impl Reader<'_> {
    fn field(&self, range: Range<usize>, fields: &mut Fields) -> Result<(), TextError> {
        let mut at = range.start;
        for item in self.text[range.clone()].split(',') {
            let place = at..at + item.len();
            at = place.end + 1;
            match (item.is_empty(), self.mode) {
                (true, Mode::Compat) => {}
                (true, Mode::Default) => {
                    let comma =
                        if place.start < range.end { place.start..place.start + 1 } else { range.end - 1..range.end };
                    return Err(self.wrong("an item is missing beside the comma; leave the comma out", comma));
                }
                (false, Mode::Default) if self.extension(item, &place, fields)? => {}
                _ => self.item(place, fields)?,
            }
        }
        Ok(())
    }

    /// `*`, `?`, `N` or `N-M`, each with an optional `/S`.
    fn item(&self, place: Range<usize>, fields: &mut Fields) -> Result<(), TextError> {
        let (least, greatest) = self.kind.bounds();
        let (span, step) = self.split(place.clone(), '/', "slash")?;
        let (low, high) = self.split(span.clone(), '-', "hyphen")?;
        let is_star = matches!(&self.text[low.clone()], "*" | "?");
        let (start, end) = match &high {
            _ if is_star => (least, greatest),
            Some(high) => (self.number(low)?, self.number(high.clone())?),
            None => {
                let number = self.number(low)?;
                (number, if step.is_some() { greatest } else { number })
            }
        };
        if let (true, Some(high), Mode::Default) = (is_star, &high, self.mode) {
            return Err(self.wrong("a star has no end; write `*`, or a range such as `1-5`", span.start..high.end));
        }
        let stride = step.map_or(Ok(1), |step| self.step(step))?;
        if start > end {
            let (range, step) = (&self.text[span.clone()], &self.text[span.end..place.end]);
            let (from, to) = range.split_once('-').unwrap_or_default();
            let message = format!(
                "the range `{range}` ends before it begins; write the smaller value first, or `{from}-{greatest}{step},{least}-{to}{step}`"
            );
            return Err(self.wrong(message, place));
        }
        self.add(fields, stepped(stride, start..=end), is_star && stride == 1, is_star);
        Ok(())
    }

    /// Adds a set to the field; `is_star` is the unstepped star of the day rule, `has_star` any star.
    fn add(&self, fields: &mut Fields, set: u64, is_star: bool, has_star: bool) {
        match self.kind {
            Field::Second => fields.seconds |= set,
            Field::Minute => fields.minutes |= set,
            Field::Hour => {
                fields.hours |= set;
                fields.hour_star |= has_star;
            }
            Field::Day => {
                fields.days |= set;
                fields.day_star |= is_star;
            }
            Field::Month => fields.months |= set,
            Field::Weekday => {
                fields.weekdays |= set;
                fields.weekday_star |= is_star;
            }
        }
    }

    /// Parses `L`, `L-n`, `LW` and `nW` of days, and `d#n` and `dL` of weekdays; returns whether the item was one of
    /// them.
    fn extension(&self, item: &str, place: &Range<usize>, fields: &mut Fields) -> Result<bool, TextError> {
        let upper = item.to_ascii_uppercase();
        match self.kind {
            Field::Day => {
                if upper == "LW" {
                    fields.last_workday = true;
                } else if let Some(before) = upper.strip_prefix('L') {
                    let n = if before.is_empty() { Some(0) } else { before.strip_prefix('-').and_then(plain) };
                    let Some(n) = n.filter(|&n| n <= 30) else {
                        let message = "the last day is written `L`, n days before it `L-n` with n from 0 to 30";
                        return Err(self.wrong(message, place.clone()));
                    };
                    fields.before_last |= bit(n);
                } else if let Some(day) = upper.strip_suffix('W') {
                    fields.nearest |= bit(self.number(place.start..place.start + day.len())?);
                } else {
                    return Ok(false);
                }
            }
            Field::Weekday => {
                if upper == "L" {
                    let message = "`L` is a day of the month; the last Friday is written `5L` or `friL`";
                    return Err(self.wrong(message, place.clone()));
                } else if let Some((day, n)) = upper.split_once('#') {
                    let weekday = self.number(place.start..place.start + day.len())?;
                    let Some(n) = plain(n).filter(|n| (1..=5).contains(n)) else {
                        return Err(self.wrong("behind `#` stands which one of the month, 1 to 5", place.clone()));
                    };
                    fields.nth |= bit(5 * weekday + n - 1);
                } else if let Some(day) = upper.strip_suffix('L') {
                    fields.last_of |= bit(self.number(place.start..place.start + day.len())?);
                } else {
                    return Ok(false);
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the part before the separator and the part after it; a second separator is an error.
    fn split(
        &self,
        place: Range<usize>,
        by: char,
        what: &str,
    ) -> Result<(Range<usize>, Option<Range<usize>>), TextError> {
        let text = &self.text[place.clone()];
        let Some((first, rest)) = text.split_once(by) else { return Ok((place, None)) };
        if rest.contains(by) {
            return Err(self.wrong(format!("`{text}` has more than one {what}"), place));
        }
        let at = place.start + first.len();
        Ok((place.start..at, Some(at + 1..place.end)))
    }

    fn step(&self, place: Range<usize>) -> Result<u32, TextError> {
        let (least, greatest) = self.kind.bounds();
        let step = self.integer(place.clone())?;
        if step == 0 {
            return Err(self.wrong("a step of 0 never gets anywhere; write at least 1", place));
        }
        if self.mode == Mode::Default && step > greatest - least {
            let message =
                format!("a step of {step} is larger than the {} can be; write at most {}", self.kind, greatest - least);
            return Err(self.wrong(message, place));
        }
        Ok(step)
    }

    /// A number or a name within the field's bounds.
    fn number(&self, place: Range<usize>) -> Result<u32, TextError> {
        let (least, greatest) = self.kind.bounds();
        let lower = self.text[place.clone()].to_ascii_lowercase();
        if let Some(at) = self.kind.names().iter().position(|name| *name == lower) {
            return Ok(least + at as u32);
        }
        let number = self.integer(place.clone())?;
        if (least..=greatest).contains(&number) {
            return Ok(number);
        }
        let hint = if self.kind == Field::Weekday && number == 7 { "; Sunday is 0" } else { "" };
        Err(self.wrong(format!("{} must be {least}–{greatest}, got {number}{hint}", self.kind), place))
    }

    fn integer(&self, place: Range<usize>) -> Result<u32, TextError> {
        let text = &self.text[place.clone()];
        // Go's Atoi reads a sign; a minus is refused afterwards, a plus is not.
        let digits = if self.mode == Mode::Compat { text.strip_prefix('+').unwrap_or(text) } else { text };
        if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
            // A number that does not fit is too large for every field.
            return Ok(digits.parse().unwrap_or(u32::MAX));
        }
        let (least, greatest) = self.kind.bounds();
        let lower = text.to_ascii_lowercase();
        let message = match self.kind.names().iter().find(|name| lower.starts_with(*name)) {
            Some(short) => format!("unknown {} `{text}`; write `{short}`", self.kind),
            None if text.is_empty() => format!("{} lacks a number ({least}–{greatest})", self.kind),
            None => format!("{} must be a number ({least}–{greatest}), got `{text}`", self.kind),
        };
        Err(self.wrong(message, place))
    }

    fn wrong(&self, message: impl Into<String>, range: Range<usize>) -> TextError {
        // A range that is empty cannot be marked, so the character beside it is.
        let (before, behind) = self.text.split_at(range.start);
        let range = match (behind.chars().next(), before.chars().next_back()) {
            (Some(next), _) if range.is_empty() => range.start..range.start + next.len_utf8(),
            (None, Some(last)) if range.is_empty() => range.start - last.len_utf8()..range.start,
            _ => range,
        };
        TextError::new(message, range)
    }
}

/// Parses a text that has only digits.
fn plain(text: &str) -> Option<u32> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// The fields of a valid text.
#[cfg(test)]
pub(super) fn fields(text: &str) -> Fields {
    match parse(text, Mode::Default).map(|spec| spec.schedule) {
        Ok(Schedule::Fields(fields)) => fields,
        other => panic!("{text}: {other:?}"),
    }
}

#[cfg(test)]
mod tests;
