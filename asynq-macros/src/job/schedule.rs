//! The schedule of `#[periodic]`, checked here, and its options.

use std::time::Duration;

use asynq_grammar::cron::{self, MOST_REPLAYED, Mode};
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::quote;
use syn::{Lit, LitStr, Token, parse::ParseStream};

use super::{
    entry::{Entry, skip_to_comma},
    literal::within,
    options,
    setting::Setting,
};
use crate::errors::{Errors, Position};

const FIRST: Position = Position::Option(0);
/// The zones without a region in front, as chrono-tz spells them. The tz database gets no more of them.
const WITHOUT_REGION: &str = "CET CST6CDT Cuba EET EST EST5EDT Egypt Eire GB GBEire GMT GMT0 GMTMinus0 GMTPlus0 Greenwich HST \
    Hongkong Iceland Iran Israel Jamaica Japan Kwajalein Libya MET MST MST7MDT NZ NZCHAT Navajo PRC PST8PDT Poland Portugal ROC ROK \
    Singapore Turkey UCT UTC Universal WET WSU Zulu";

/// The schedule and its options in the attribute; an option that is absent or wrong is `None`.
#[derive(Default)]
pub(super) struct Schedule {
    /// The text, without a zone in front, and its meaning. Only the name of the zone can still be wrong, which the compiler checks.
    pub(super) spec: Option<(LitStr, cron::Spec)>,
    pub(super) zone: Option<Zone>,
    /// The variant of asynq-cron's `Missed`.
    pub(super) missed: Option<TokenStream>,
    /// The variant of asynq-cron's `Overlap`.
    pub(super) overlap: Option<&'static str>,
    pub(super) jitter: Option<Setting<Duration>>,
}

/// The variant of `chrono_tz::Tz`, at the place where the zone is named.
pub(super) struct Zone {
    pub(super) name: String,
    pub(super) variant: Ident,
}

impl Schedule {
    /// Reads the text that comes first, and the comma behind it.
    pub(super) fn read(&mut self, input: ParseStream<'_>, errors: &Errors) {
        const EXAMPLE: &str = "`#[periodic(\"0 9 * * mon-fri\")]`";
        match input.parse::<Lit>() {
            Ok(Lit::Str(literal)) => self.check(literal, errors),
            Ok(other) => errors.at(FIRST, other, format_args!("the schedule is text in quotes: {EXAMPLE}")),
            Err(_) if input.is_empty() => {
                let message = format!("when should it run? {EXAMPLE}");
                errors.push(FIRST, syn::Error::new(Span::call_site(), message));
                return;
            }
            // As an option it is refused with the schedule to write.
            Err(_)
                if input.fork().parse::<Ident>().is_ok_and(|word| options::schedule(&word.to_string()).is_some()) =>
            {
                return;
            }
            Err(error) => {
                let message = format!("the schedule comes first, as text in quotes: {EXAMPLE}");
                errors.push(FIRST, syn::Error::new(error.span(), message));
                // The next tokens may be an option, which is checked all the same.
                if input.peek(syn::Ident) && input.peek2(Token![=]) {
                    return;
                }
                skip_to_comma(input);
            }
        }
        if !input.is_empty() && input.parse::<Token![,]>().is_err() {
            errors.push(FIRST, input.error("expected `,` behind the schedule"));
            skip_to_comma(input);
            let _ = input.parse::<Token![,]>();
        }
    }

    fn check(&mut self, mut literal: LitStr, errors: &Errors) {
        let text = literal.value();
        match cron::parse(&text, Mode::Default) {
            Ok(spec) => {
                if let Some(zone) = spec.zone.as_ref().filter(|zone| !zone.name.is_empty()) {
                    let span = within(&literal, zone.range.clone());
                    self.zone = errors.ok(FIRST, Zone::read(&zone.name, span));
                    // Only the compiler knows the names of all zones, so the runtime is given the variant and not the text.
                    literal = LitStr::new(text[zone.range.end..].trim(), literal.span());
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
                self.zone = entry.ok(Zone::read(&literal.value(), literal.span()));
            }
            "missed" => self.missed = missed(entry),
            "overlap" => {
                self.overlap = entry.one_of(&[("allow", "Allow"), ("skip", "Skip"), ("replace", "Replace")]);
            }
            "jitter" => self.jitter = entry.setting(entry.span("leave it out for none")),
            // A test reads each option with its example.
            _ => entry.wrong(&entry.key, "this option is known and is not read: a defect of asynq-macros"),
        }
    }

    /// Returns whether there is a valid schedule.
    pub(super) fn is_there(&self) -> bool {
        self.spec.is_some()
    }

    /// Returns the schedule in English; `None` without a valid one.
    pub(super) fn sentence(&self) -> Option<String> {
        let (_, cron::Spec { schedule, .. }) = self.spec.as_ref()?;
        let is_interval = matches!(schedule, cron::Schedule::Every(_));
        let zone = self.zone.as_ref().filter(|zone| zone.name != "UTC" && !is_interval);
        let zone = zone.map(|zone| format!(", {} time", zone.name)).unwrap_or_default();
        Some(format!("{}{zone}", schedule.sentence()))
    }
}

/// Reads the policy for missed ticks, and returns it as a variant of asynq-cron's `Missed`.
fn missed(entry: &Entry<'_>) -> Option<TokenStream> {
    let literal = entry.text()?;
    let text = literal.value();
    let number = text.strip_prefix("all(").and_then(|rest| rest.strip_suffix(')'));
    let message = match (text.as_str(), number.map(str::parse::<u32>)) {
        ("skip", _) => return Some(quote!(Skip)),
        ("once", _) => return Some(quote!(Once)),
        (_, Some(Ok(n))) if (1..=MOST_REPLAYED).contains(&n) => {
            let n = Literal::u32_unsuffixed(n);
            return Some(quote!(All(#n)));
        }
        (_, Some(_)) => format!("`all(n)` takes a number from 1 to {MOST_REPLAYED}: `missed = \"all(10)\"`"),
        ("all", _) => "say how many at most: `missed = \"all(10)\"`".to_owned(),
        _ => format!("unknown missed \"{text}\"; write \"skip\", \"once\" or \"all(n)\""),
    };
    entry.wrong(&literal, message);
    None
}

impl Zone {
    fn read(name: &str, span: Span) -> syn::Result<Self> {
        let variant = variant(name);
        // The compiler names no zone in its error, and prints one of its own about signs that no name has.
        let is_word = variant.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && variant.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let is_zone = variant.contains("__") || WITHOUT_REGION.split(' ').any(|zone| zone == variant);
        if is_word && is_zone && syn::parse_str::<Ident>(&variant).is_ok() {
            return Ok(Self { name: name.to_owned(), variant: Ident::new(&variant, span) });
        }
        let message = format!("no time zone has the name \"{name}\"; write one such as \"Europe/Berlin\" or \"UTC\"");
        Err(syn::Error::new(span, message))
    }
}

/// Returns the name of a zone as chrono-tz spells it.
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

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
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
    fn a_zone_is_named_by_a_word_that_is_not_a_keyword() {
        let zone = |name: &str| Zone::read(name, Span::call_site()).is_ok();
        assert!(["Europe/Berlin", "Etc/GMT+5", "UTC", "GMT+0", "GB-Eire", "W-SU"].into_iter().all(zone));
        let wrong = ["", " UTC", "Berlin", "CET+1", "utc", "Europe\\Berlin", "UTC'", "0x", "r#UTC", "self", "_"];
        assert!(!wrong.into_iter().any(zone));
    }
}
