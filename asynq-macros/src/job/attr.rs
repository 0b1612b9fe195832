//! Reads `queue = "critical", retry = 5, …`: every value checked, every mistake recorded, nothing given up early.

use std::time::Duration;

use asynq_grammar::names;
use proc_macro2::TokenStream;
use syn::{
    ExprPath, Ident, LitStr, Path,
    parse::{ParseStream, Parser},
};

use super::{
    Attribute,
    entry::Entry,
    schedule::Schedule,
    setting::{Codec, Pause, Setting, UniqueUntil},
};
use crate::errors::{Errors, Position};

/// The options of the attribute. An option that is absent or wrong is `None`.
#[derive(Default)]
pub(super) struct Attr {
    pub(super) queue: Option<Setting<String>>,
    pub(super) retry: Option<Setting<u32>>,
    pub(super) timeout: Option<Setting<Duration>>,
    pub(super) deadline: Option<Setting<Duration>>,
    pub(super) expires: Option<Setting<Duration>>,
    pub(super) group: Option<Setting<String>>,
    pub(super) aggregates: Option<Setting<Path>>,
    pub(super) unique: Option<Setting<Duration>>,
    pub(super) debounce: Option<Setting<Duration>>,
    pub(super) debounce_max: Option<Setting<Duration>>,
    pub(super) unique_by: Option<Setting<LitStr>>,
    pub(super) unique_until: Option<Setting<UniqueUntil>>,
    pub(super) unique_extend: Option<Setting<bool>>,
    pub(super) retention: Option<Setting<Duration>>,
    pub(super) name: Option<Setting<String>>,
    pub(super) alias: Option<Setting<Vec<String>>>,
    pub(super) upgrade: Option<Setting<Vec<ExprPath>>>,
    pub(super) codec: Option<Setting<Codec>>,
    pub(super) fingerprint: Option<Setting<String>>,
    pub(super) backoff: Option<Setting<Pause>>,
    pub(super) on_error: Option<Setting<ExprPath>>,
    pub(super) on_archive: Option<Setting<ExprPath>>,
    pub(super) max_crashes: Option<Setting<u32>>,
    pub(super) kill_after: Option<Setting<Duration>>,
    /// Traits that the struct derives besides serde's.
    pub(super) derives: Vec<Path>,
    pub(super) crate_path: Option<Setting<Path>>,
    pub(super) cron_crate: Option<Setting<Path>>,
    /// The options that only `#[periodic]` has.
    pub(super) schedule: Schedule,
    /// The options that are written, right or wrong.
    written: Vec<Ident>,
}

impl Attr {
    pub(super) fn parse(tokens: TokenStream, attribute: Attribute, errors: &Errors) -> Self {
        let parsed = (|input: ParseStream<'_>| Ok(Self::read(input, attribute, errors))).parse2(tokens);
        errors.ok(Position::Option(0), parsed).unwrap_or_default()
    }

    fn read(input: ParseStream<'_>, attribute: Attribute, errors: &Errors) -> Self {
        let mut attr = Self::default();
        if attribute == Attribute::Periodic {
            attr.schedule.read(input, errors);
        }
        for position in (0..).map(Position::Option) {
            if input.is_empty() {
                break;
            }
            if let Some(derives) = Entry::derives(input, errors, position, attribute) {
                attr.derives.extend(derives);
                continue;
            }
            let Some(entry) = Entry::begin(input, errors, position, attribute) else { continue };
            if attr.written.contains(&entry.key) {
                entry.wrong(&entry.key, format!("`{}` specified twice", entry.key));
                // The value of the second one is checked all the same.
                Self::default().set(&entry);
            } else {
                attr.written.push(entry.key.clone());
                attr.set(&entry);
            }
            entry.finish();
        }
        attr
    }

    /// Returns whether an option is written, right or wrong: options that need it must not complain a second time.
    pub(super) fn mentions(&self, option: &str) -> bool {
        self.written.iter().any(|key| key == option)
    }

    pub(super) fn is_json(&self) -> bool {
        self.codec.as_deref() == Some(&Codec::Json)
    }

    fn set(&mut self, entry: &Entry<'_>) {
        match entry.key.to_string().as_str() {
            "queue" => self.queue = entry.setting(entry.name(names::check_queue)),
            "retry" => self.retry = entry.setting(entry.number(0)),
            "timeout" => self.timeout = entry.setting(entry.seconds("leave it out for the default")),
            "deadline" => self.deadline = entry.setting(entry.seconds("leave it out for none")),
            "expires" => self.expires = entry.setting(entry.span("leave it out for never")),
            "group" => self.group = entry.setting(entry.name(names::check_group)),
            "aggregates" => self.aggregates = entry.setting(entry.type_path()),
            "unique" => self.unique = entry.setting(entry.seconds("leave it out to allow duplicates")),
            "debounce" => self.debounce = entry.setting(entry.span("leave it out to run at once")),
            "debounce_max" => self.debounce_max = entry.setting(entry.span("leave it out for no bound")),
            "unique_by" => self.unique_by = entry.setting(entry.text()),
            "unique_until" => {
                let words =
                    [("end", UniqueUntil::End), ("success", UniqueUntil::Success), ("start", UniqueUntil::Start)];
                self.unique_until = entry.setting(entry.one_of(&words));
            }
            "unique_extend" => self.unique_extend = entry.setting(entry.flag()),
            "retention" => self.retention = entry.setting(entry.seconds("leave it out to keep nothing")),
            "name" => self.name = entry.setting(entry.name(names::check_job)),
            "alias" => self.alias = entry.setting(entry.names(names::check_job)),
            "upgrade" => self.upgrade = entry.setting(entry.paths()),
            "codec" => {
                self.codec = entry.setting(entry.one_of(&[("postcard", Codec::Postcard), ("json", Codec::Json)]));
            }
            "fingerprint" => self.fingerprint = entry.setting(entry.label()),
            "backoff" => self.backoff = entry.setting(entry.pause()),
            "on_error" => self.on_error = entry.setting(entry.path()),
            "on_archive" => self.on_archive = entry.setting(entry.path()),
            "max_crashes" => self.max_crashes = entry.setting(entry.number(1)),
            "kill_after" => self.kill_after = entry.setting(entry.span("leave it out to wait for its thread")),
            "cron_crate" => self.cron_crate = entry.setting(entry.type_path()),
            "crate" => self.crate_path = entry.setting(entry.crate_path()),
            // `Entry::begin` lets known options through and no others.
            _ => self.schedule.set(entry),
        }
    }
}

#[cfg(test)]
mod tests {
    use proc_macro2::{Delimiter, Group};
    use quote::quote;

    use super::{super::options, *};

    /// Returns the messages for these options, in the order they are reported.
    fn mistakes(options: &str) -> Vec<String> {
        mistakes_of(Attribute::Job, options)
    }

    fn mistakes_of(attribute: Attribute, options: &str) -> Vec<String> {
        let errors = Errors::new();
        Attr::parse(options.parse().expect("tokens"), attribute, &errors);
        errors.messages()
    }

    #[test]
    fn each_option_is_read_as_its_example_has_it() {
        for example in options::examples() {
            let schedule = format!("\"@daily\", {example}");
            assert_eq!(mistakes_of(Attribute::Periodic, &schedule), Vec::<String>::new(), "{example}");
        }
    }

    #[test]
    fn a_right_attribute_has_no_mistakes() {
        for right in [
            "",
            "queue = \"critical\",",
            "retry = 0, timeout = \"90s\", deadline = \"1h30m\", unique = \"1s\", retention = \"2000ms\"",
            "unique = \"1h\", unique_by = \"to\", unique_until = \"end\", unique_extend = true",
            "unique = \"1h\", unique_until = \"start\", unique_extend = false",
            "unique_by = \"to\", debounce = \"30s\", debounce_max = \"5m\", unique_until = \"start\"",
            "expires = \"500ms\", group = \"digest\", backoff = \"30s\"",
            "aggregates = crate::mails::note, backoff = \"exponential(1s, 10m)\", unique_until = \"success\"",
            "backoff = self::pauses::<A>::gentle",
            "derive(Debug, Clone, std::cmp::PartialEq), retry = 1, derive(Hash,)",
            "derive(rkyv::Serialize, ::rkyv::Deserialize)",
            "name = \"email:send\", codec = \"json\"",
            "alias = \"send_mail\", upgrade = self::old::from_v1",
            "alias = [\"send_mail\", \"mail\",], upgrade = [from_v1, from_v2::<u8>], retry = 1",
            "fingerprint = \"v2\", on_error = self::policies::<A, B>::mail, on_archive = gave_up, max_crashes = 1, crate = ::renamed::inner",
        ] {
            assert_eq!(mistakes(right), Vec::<String>::new(), "{right}");
        }
    }

    #[test]
    fn one_mistake_does_not_hide_the_next() {
        let found = mistakes("que = \"x\", retry = \"5\", timeout = \"3 parsecs\", retry = -1, codec json, unique");
        assert_eq!(found.len(), 7, "{found:#?}");
    }

    #[test]
    fn a_number_for_a_duration_is_given_back_as_the_text_to_write() {
        for (number, text) in [("90", "\"90s\""), ("1_000", "\"1000s\""), ("0x10", "\"16s\"")] {
            let found = mistakes(&format!("timeout = {number}"));
            assert!(found[0].ends_with(&format!("`timeout = {text}`")), "{found:?}");
        }
    }

    #[test]
    fn the_derives_of_serde_are_those_of_every_job() {
        assert_eq!(mistakes("derive(Serialize, serde::Deserialize, ::serde::Serialize, Debug)").len(), 3);
    }

    #[test]
    fn each_mistake_in_a_list_is_reported() {
        let found =
            mistakes("alias = [\"\", 7, \"mail\"], upgrade = [from_v1, |old| old, 5], alias = [], upgrade = []");
        assert_eq!(found.len(), 8, "{found:#?}");
    }

    #[test]
    fn a_crate_in_quotes_is_refused_and_found() {
        let errors = Errors::new();
        let attr = Attr::parse(quote!(crate = "::renamed::jobs"), Attribute::Job, &errors);
        assert_eq!(errors.messages(), ["`crate` takes a path without quotes: `crate = ::renamed`"]);
        let path = attr.crate_path.map(|setting| setting.value);
        assert_eq!(quote!(#path).to_string(), ":: renamed :: jobs");
    }

    #[test]
    fn an_element_of_a_list_may_come_from_a_macro() {
        let from_macro = |tokens: &str| Group::new(Delimiter::None, tokens.parse().expect("tokens"));
        let (old, from) = (from_macro("\"post\""), from_macro("from_v1"));
        let errors = Errors::new();
        let options = quote!(alias = [#old, "letter"], upgrade = [#from]);
        let attr = Attr::parse(options, Attribute::Job, &errors);
        assert_eq!(errors.messages(), Vec::<String>::new());
        assert_eq!(attr.alias.map(|setting| setting.value), Some(vec!["post".to_owned(), "letter".to_owned()]));
    }

    #[test]
    fn a_missing_comma_is_reported_once_and_the_rest_is_read() {
        assert_eq!(
            mistakes("retry = 5 queue = \"\""),
            ["expected `,` before `queue`", "queue name must not be empty; write one such as \"critical\""]
        );
        assert_eq!(
            mistakes("derive(Debug) queue = \"\""),
            ["expected `,` before `queue`", "queue name must not be empty; write one such as \"critical\""]
        );
        assert_eq!(mistakes("retry = 5 derive(Debug)"), ["expected `,` before `derive`"]);
        assert_eq!(mistakes("derive(Debug) derive(Clone), retry = 1"), ["expected `,` before `derive`"]);
        assert_eq!(
            mistakes("derive(Debug); retry = \"5\""),
            ["`derive` takes traits in parentheses: `derive(Debug, Clone, PartialEq)`"]
        );
    }
}
