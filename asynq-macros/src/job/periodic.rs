//! Prints a schedule: the entry that is linked into the program, and the next times in the documentation.

use std::time::{SystemTime, UNIX_EPOCH};

use asynq_grammar::cron::{self, Civil};
use proc_macro2::{Literal, TokenStream};
use quote::{quote, quote_spanned};

use super::{
    model::JobModel,
    schedule::{Missed, Overlap, Schedule},
    tokens::{at, time},
};

/// Prints the entry in the program's inventory.
pub(super) fn entry(schedule: &Schedule, job: &JobModel) -> TokenStream {
    let (cron, ident, text) = (job.paths.cron(), job.ident(), &schedule.text);
    let zone = schedule.zone.as_ref().map(|zone| {
        let variant = &zone.variant;
        let tz = quote_spanned!(at(variant.span())=> __cron::Tz);
        quote!(.zone(#tz::#variant))
    });
    let missed = schedule.missed.map(|missed| match missed {
        Missed::Skip => quote!(.missed(__cron::Missed::Skip)),
        Missed::Once => quote!(.missed(__cron::Missed::Once)),
        Missed::All(n) => {
            let n = Literal::u32_unsuffixed(n);
            quote!(.missed(__cron::Missed::All(#n)))
        }
    });
    let overlap = schedule.overlap.map(|overlap| match overlap {
        Overlap::Allow => quote!(.overlap(__cron::Overlap::Allow)),
        Overlap::Skip => quote!(.overlap(__cron::Overlap::Skip)),
        Overlap::Replace => quote!(.overlap(__cron::Overlap::Replace)),
    });
    let jitter = schedule.jitter.map(|jitter| {
        let jitter = time(jitter);
        quote!(.jitter(#jitter))
    });
    quote! {
        use #cron as __cron;
        __cron::inventory::submit! {
            __cron::PeriodicEntry::of::<#ident>(
                #text,
                || ::std::convert::From::from(#ident {}),
                ::std::file!(),
                ::std::line!()
            )
            #zone
            #missed
            #overlap
            #jitter
        }
    }
}

/// Returns a paragraph with the first times after this day has begun, for documentation alone: an ordinary build must not
/// depend on the clock.
pub(super) fn first_times(schedule: &Schedule) -> Option<String> {
    first_times_of_day(schedule, now())
}

/// Returns the paragraph for the day of UTC that has this moment. The macro does not know the time in another zone, so the
/// times begin with the day.
fn first_times_of_day(schedule: &Schedule, unix: i64) -> Option<String> {
    let cron::Schedule::Fields(fields) = &schedule.spec else { return None };
    let moment = civil(unix);
    let day = Civil::midnight(moment.year, moment.month, moment.day);
    let times: Vec<_> = std::iter::successors(fields.next_civil(day), |&time| fields.next_civil(time))
        .take(5)
        .map(|time| {
            let Civil { year, month, day, hour, minute, second } = time;
            let second = if second == 0 { String::new() } else { format!(":{second:02}") };
            format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}{second}")
        })
        .collect();
    let zone = schedule.zone.as_ref().map_or("UTC", |zone| &zone.name);
    Some(format!(
        "\n First runs after {}-{:02}-{:02} 00:00, about when these docs were built (wall clock of {zone}): {}.",
        day.year,
        day.month,
        day.day,
        times.join(" · ")
    ))
}

/// Returns Unix seconds: those of `SOURCE_DATE_EPOCH`, or of the clock.
fn now() -> i64 {
    if cfg!(test) {
        return 1_767_225_600;
    }
    build_time(std::env::var("SOURCE_DATE_EPOCH").ok().as_deref(), SystemTime::now())
}

fn build_time(given: Option<&str>, clock: SystemTime) -> i64 {
    let clock = || clock.duration_since(UNIX_EPOCH).ok().and_then(|time| i64::try_from(time.as_secs()).ok());
    given.and_then(|text| text.trim().parse().ok()).or_else(clock).unwrap_or(0)
}

/// Returns the moment on a clock of UTC.
fn civil(unix: i64) -> Civil {
    let (mut days, seconds) = (unix.div_euclid(86_400).clamp(0, 3_000_000), unix.rem_euclid(86_400));
    let mut date = Civil::midnight(1970, 1, 1);
    loop {
        let length = i64::from(cron::days_in_month(date.year, date.month));
        if days < length {
            let part = |seconds: i64, most: i64| u32::try_from(seconds % most).unwrap_or(0);
            let day = date.day + u32::try_from(days).unwrap_or(0);
            let (hour, minute, second) = (part(seconds / 3600, 24), part(seconds / 60, 60), part(seconds, 60));
            return Civil { day, hour, minute, second, ..date };
        }
        days -= length;
        date = match date.month {
            12 => Civil::midnight(date.year + 1, 1, 1),
            month => Civil::midnight(date.year, month + 1, 1),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proc_macro2::{Ident, Span};
    use syn::LitStr;

    use super::{super::schedule::Zone, *};

    #[test]
    fn the_times_in_the_documentation_begin_with_the_day_in_every_zone() {
        let text = "0 21 * * *";
        let variant = Ident::new("Europe__Berlin", Span::call_site());
        let schedule = Schedule {
            text: LitStr::new(text, Span::call_site()),
            spec: cron::parse(text, cron::Mode::Default).expect(text).schedule,
            zone: Some(Zone { name: "Europe/Berlin".to_owned(), variant }),
            missed: None,
            overlap: None,
            jitter: None,
        };
        // At 20:30 by UTC it is past nine in Berlin.
        let times = first_times_of_day(&schedule, 1_767_225_600 + 20 * 3600 + 1800).expect("a schedule of fields");
        assert!(times.starts_with("\n First runs after 2026-01-01 00:00, "), "{times}");
        assert!(times.contains("(wall clock of Europe/Berlin): 2026-01-01 21:00 · 2026-01-02 21:00 · "), "{times}");
    }

    #[test]
    fn documentation_is_built_at_the_time_that_the_variable_names() {
        let clock = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        for (given, expected) in [
            (Some("1782864000"), 1_782_864_000),
            (Some(" 0\n"), 0),
            (Some("yesterday"), 1_800_000_000),
            (Some(""), 1_800_000_000),
            (None, 1_800_000_000),
        ] {
            assert_eq!(build_time(given, clock), expected, "{given:?}");
        }
    }

    #[test]
    fn the_calendar_of_the_documentation_is_right() {
        for (unix, expected) in [
            (0, Civil::midnight(1970, 1, 1)),
            (951_868_799, Civil { hour: 23, minute: 59, second: 59, ..Civil::midnight(2000, 2, 29) }),
            (1_767_225_600, Civil::midnight(2026, 1, 1)),
        ] {
            assert_eq!(civil(unix), expected);
        }
    }
}
