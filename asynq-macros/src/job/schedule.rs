//! What `#[periodic]` has besides: the schedule, checked here, and the entry that is linked into the program.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use asynq_grammar::cron::{self, Civil, Mode};
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Lit, LitStr, Token, parse::ParseStream};

use super::{
    attr::Setting,
    entry::Entry,
    expand::{at, time},
    literal::within,
    model::JobModel,
};
use crate::errors::{Errors, Place};

/// So many missed ticks are made up for one by one at most.
const MOST_REPLAYED: u32 = 10_000;
const FIRST: Place = Place::Option(0);

/// What the attribute says; what is absent or wrong is `None`.
#[derive(Default)]
pub(super) struct ScheduleAttr {
    spec: Option<(LitStr, cron::Spec)>,
    zone: Option<Zone>,
    missed: Option<Setting<Missed>>,
    overlap: Option<Setting<Overlap>>,
    jitter: Option<Setting<Duration>>,
}

/// A schedule of which nothing can be wrong but the name of its zone, which the compiler checks.
pub(super) struct Schedule {
    text: LitStr,
    spec: cron::Schedule,
    zone: Option<Zone>,
    missed: Option<Missed>,
    overlap: Option<Overlap>,
    jitter: Option<Duration>,
}

/// The variant of `chrono_tz::Tz`, at the place where the zone is named.
struct Zone {
    name: String,
    variant: Ident,
    /// In `tz`, not in the text of the schedule.
    is_option: bool,
}

#[derive(Clone, Copy)]
enum Missed {
    Skip,
    Once,
    All(u32),
}

#[derive(Clone, Copy)]
enum Overlap {
    Allow,
    Skip,
    Replace,
}

impl ScheduleAttr {
    /// Reads the text that comes first, and the comma behind it.
    pub(super) fn read(&mut self, input: ParseStream<'_>, errors: &Errors) {
        const EXAMPLE: &str = "`#[periodic(\"0 9 * * mon-fri\")]`";
        let literal = match input.fork().parse::<Lit>() {
            Ok(Lit::Str(_)) => input.parse::<LitStr>().ok(),
            Ok(other) => {
                let _ = input.parse::<Lit>();
                errors.at(FIRST, other, format_args!("the schedule is text in quotes: {EXAMPLE}"));
                None
            }
            Err(_) if input.is_empty() => {
                let message = format!("when should it run? {EXAMPLE}");
                errors.push(FIRST, syn::Error::new(Span::call_site(), message));
                return;
            }
            Err(error) => {
                let message = format!("the schedule comes first, as text in quotes: {EXAMPLE}");
                errors.push(FIRST, syn::Error::new(error.span(), message));
                // What follows may be an option, which is checked all the same.
                if !(input.peek(syn::Ident) && input.peek2(Token![=])) {
                    skip_to_comma(input);
                } else {
                    return;
                }
                None
            }
        };
        if let Some(literal) = literal {
            self.check(literal, errors);
        }
        if !input.is_empty() && input.parse::<Token![,]>().is_err() {
            errors.push(FIRST, input.error("expected `,` behind the schedule"));
            skip_to_comma(input);
            let _ = input.parse::<Token![,]>();
        }
    }

    fn check(&mut self, literal: LitStr, errors: &Errors) {
        let text = literal.value();
        match cron::parse(&text, Mode::Default) {
            Ok(spec) => {
                if let Some(zone) = spec.zone.as_ref().filter(|zone| !zone.name.is_empty()) {
                    let span = within(&literal, zone.range.clone());
                    self.zone = Zone::read(&zone.name, span, false, FIRST, errors);
                }
                self.spec = Some((literal, spec));
            }
            Err(error) => {
                // The stable compiler marks the whole literal, so the text shows the place itself.
                let message = format!("{error}\n\n{}", indented(&error.caret(&text)));
                errors.push(FIRST, syn::Error::new(within(&literal, error.range()), message));
            }
        }
    }

    /// Takes over one of the options that only a schedule has.
    pub(super) fn set(&mut self, entry: &Entry<'_>) {
        match entry.key.to_string().as_str() {
            "tz" => {
                let Some(literal) = entry.text() else { return };
                if self.spec.as_ref().is_some_and(|(_, spec)| spec.zone.is_some()) {
                    entry.wrong(&literal, "the schedule names a time zone itself; leave one out");
                    return;
                }
                self.zone =
                    entry.with(|place, errors| Zone::read(&literal.value(), literal.span(), true, place, errors));
            }
            "missed" => self.missed = entry.setting(missed(entry)),
            "overlap" => {
                let words = [("allow", Overlap::Allow), ("skip", Overlap::Skip), ("replace", Overlap::Replace)];
                self.overlap = entry.setting(entry.one_of(&words));
            }
            "jitter" => self.jitter = entry.setting(entry.span("leave it out for none")),
            _ => {}
        }
    }

    /// Whether it says when the job runs.
    pub(super) fn is_there(&self) -> bool {
        self.spec.is_some()
    }

    pub(super) fn into_schedule(self) -> Option<Schedule> {
        let (text, spec) = self.spec?;
        Some(Schedule {
            text,
            spec: spec.schedule,
            zone: self.zone,
            missed: self.missed.map(Setting::into_value),
            overlap: self.overlap.map(Setting::into_value),
            jitter: self.jitter.map(Setting::into_value),
        })
    }
}

fn missed(entry: &Entry<'_>) -> Option<Missed> {
    let literal = entry.text()?;
    let text = literal.value();
    let number = text.strip_prefix("all(").and_then(|rest| rest.strip_suffix(')'));
    match (text.as_str(), number.map(str::parse::<u32>)) {
        ("skip", _) => Some(Missed::Skip),
        ("once", _) => Some(Missed::Once),
        (_, Some(Ok(n))) if (1..=MOST_REPLAYED).contains(&n) => Some(Missed::All(n)),
        (_, Some(_)) => {
            entry.wrong(
                &literal,
                format_args!("`all(n)` takes a number from 1 to {MOST_REPLAYED}: `missed = \"all(10)\"`"),
            );
            None
        }
        ("all", _) => {
            entry.wrong(&literal, "say how many at most: `missed = \"all(10)\"`");
            None
        }
        _ => {
            entry.wrong(&literal, format_args!("unknown missed \"{text}\"; write \"skip\", \"once\" or \"all(n)\""));
            None
        }
    }
}

impl Zone {
    fn read(name: &str, span: Span, is_option: bool, place: Place, errors: &Errors) -> Option<Self> {
        let variant = variant(name);
        match syn::parse_str::<Ident>(&variant) {
            Ok(_) => Some(Self { name: name.to_owned(), variant: Ident::new(&variant, span), is_option }),
            Err(_) => {
                let message =
                    format!("no time zone has the name \"{name}\"; write one such as \"Europe/Berlin\" or \"UTC\"");
                errors.push(place, syn::Error::new(span, message));
                None
            }
        }
    }
}

/// How chrono-tz spells a zone.
fn variant(name: &str) -> String {
    let mut variant = String::new();
    let mut chars = name.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '/' => variant.push_str("__"),
            '+' => variant.push_str("Plus"),
            '-' if chars.peek().is_some_and(char::is_ascii_digit) => variant.push_str("Minus"),
            '-' => {}
            c => variant.push(c),
        }
    }
    variant
}

impl Schedule {
    /// The schedule in English.
    pub(super) fn sentence(&self) -> String {
        let zone = self.zone.as_ref().filter(|zone| zone.name != "UTC" && !self.is_interval());
        let zone = zone.map(|zone| format!(", {} time", zone.name)).unwrap_or_default();
        format!("{}{zone}", self.spec.sentence())
    }

    fn is_interval(&self) -> bool {
        matches!(self.spec, cron::Schedule::Every(_))
    }
}

/// The entry in the program's inventory.
pub(super) fn entry(schedule: &Schedule, job: &JobModel) -> TokenStream {
    let (cron, ident, text) = (job.paths.cron(), job.ident(), &schedule.text);
    let zone = schedule.zone.as_ref().map(|zone| {
        let variant = &zone.variant;
        let tz = quote_spanned!(at(variant.span())=> __cron::Tz);
        // A zone in the text is read from there again; here the compiler only looks whether it exists.
        match zone.is_option {
            true => (quote!(.zone(#tz::#variant)), TokenStream::new()),
            false => (TokenStream::new(), quote!(const _: __cron::Tz = #tz::#variant;)),
        }
    });
    let (zone, check) = zone.unwrap_or_default();
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
        #check
        __cron::inventory::submit! {
            __cron::PeriodicEntry::of::<#ident>(
                #text,
                || __cron::PreparedTask::from(#ident {}),
                ::core::file!(),
                ::core::line!()
            )
            #zone
            #missed
            #overlap
            #jitter
        }
    }
}

/// A paragraph with the next times, for documentation alone: an ordinary build must not depend on the clock.
pub(super) fn next_times(schedule: &Schedule) -> Option<String> {
    let cron::Schedule::Fields(fields) = schedule.spec else { return None };
    let now = civil(now());
    let times: Vec<_> = std::iter::successors(fields.next_civil(now), |&time| fields.next_civil(time))
        .take(5)
        .map(|time| {
            let Civil { year, month, day, hour, minute, second } = time;
            let second = if second == 0 { String::new() } else { format!(":{second:02}") };
            format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}{second}")
        })
        .collect();
    let zone = schedule.zone.as_ref().map_or("UTC", |zone| &zone.name);
    Some(format!(
        "\n Next runs after {}-{:02}-{:02}, when these docs were built (wall clock of {zone}): {}.",
        now.year,
        now.month,
        now.day,
        times.join(" · ")
    ))
}

/// Unix seconds: as `SOURCE_DATE_EPOCH` says, or the clock.
fn now() -> i64 {
    if cfg!(test) {
        return 1_767_225_600;
    }
    moment(std::env::var("SOURCE_DATE_EPOCH").ok().as_deref(), SystemTime::now())
}

fn moment(given: Option<&str>, clock: SystemTime) -> i64 {
    let clock = || clock.duration_since(UNIX_EPOCH).ok().and_then(|time| i64::try_from(time.as_secs()).ok());
    given.and_then(|text| text.trim().parse().ok()).or_else(clock).unwrap_or(0)
}

/// The moment on a clock of UTC.
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

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

fn skip_to_comma(input: ParseStream<'_>) {
    while !input.is_empty() && !input.peek(Token![,]) {
        if input.parse::<proc_macro2::TokenTree>().is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_spelled_as_chrono_tz_does() {
        for (name, expected) in [
            ("Europe/Berlin", "Europe__Berlin"),
            ("America/Port-au-Prince", "America__PortauPrince"),
            ("Etc/GMT+5", "Etc__GMTPlus5"),
            ("Etc/GMT-14", "Etc__GMTMinus14"),
            ("America/Argentina/Buenos_Aires", "America__Argentina__Buenos_Aires"),
            ("UTC", "UTC"),
        ] {
            assert_eq!(variant(name), expected);
        }
    }

    #[test]
    fn documentation_is_built_at_the_moment_that_the_variable_names() {
        let clock = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        for (given, expected) in [
            (Some("1782864000"), 1_782_864_000),
            (Some(" 0\n"), 0),
            (Some("yesterday"), 1_800_000_000),
            (Some(""), 1_800_000_000),
            (None, 1_800_000_000),
        ] {
            assert_eq!(moment(given, clock), expected, "{given:?}");
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
