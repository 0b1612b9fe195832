//! The options of `#[job]` and `#[periodic]`: the values that each takes, and the likely meaning of one that does not exist.

use asynq_grammar::nearest;

use super::Attribute;

/// An option that exists.
pub(super) struct Known {
    name: &'static str,
    takes: &'static str,
    example: &'static str,
}

const TEXT: &str = "text in quotes";
const NUMBER: &str = "a number";
const DURATION: &str = "a duration in quotes";

const OPTIONS: [Known; 26] = [
    Known { name: "queue", takes: TEXT, example: "\"critical\"" },
    Known { name: "retry", takes: NUMBER, example: "5" },
    Known { name: "timeout", takes: DURATION, example: "\"3m\"" },
    Known { name: "deadline", takes: DURATION, example: "\"1h\"" },
    Known { name: "expires", takes: DURATION, example: "\"10m\"" },
    Known { name: "unique", takes: DURATION, example: "\"1h\"" },
    Known { name: "unique_by", takes: "the names of arguments in quotes", example: "\"to, campaign\"" },
    Known { name: "debounce", takes: DURATION, example: "\"30s\"" },
    Known { name: "debounce_max", takes: DURATION, example: "\"5m\"" },
    Known { name: "unique_until", takes: TEXT, example: "\"success\"" },
    Known { name: "unique_extend", takes: "`true` or `false`", example: "true" },
    Known { name: "retention", takes: DURATION, example: "\"2h\"" },
    Known { name: "group", takes: TEXT, example: "\"digest\"" },
    Known { name: "aggregates", takes: "the path of a job", example: "note" },
    Known { name: "backoff", takes: "pauses in quotes or the path of a function", example: "\"exponential(1s, 10m)\"" },
    Known { name: "name", takes: TEXT, example: "\"email:send\"" },
    Known { name: "alias", takes: "an earlier name in quotes, or a list of them", example: "\"send_mail\"" },
    Known { name: "upgrade", takes: "the path of a function, or a list of them", example: "from_v1" },
    Known { name: "codec", takes: TEXT, example: "\"json\"" },
    Known { name: "fingerprint", takes: TEXT, example: "\"v2\"" },
    Known { name: "on_error", takes: "the path of a function", example: "my_policy" },
    Known { name: "on_archive", takes: "the path of a function", example: "gave_up" },
    Known { name: "max_crashes", takes: NUMBER, example: "3" },
    Known { name: "kill_after", takes: DURATION, example: "\"1m\"" },
    Known { name: DERIVE, takes: "traits in parentheses", example: "(Debug, Clone, PartialEq)" },
    Known { name: "crate", takes: "a path without quotes", example: "::renamed" },
];

/// The only option without `=`.
pub(super) const DERIVE: &str = "derive";

/// The options that only a schedule has.
const OF_SCHEDULES: [Known; 5] = [
    Known { name: "tz", takes: "a time zone in quotes", example: "\"Europe/Berlin\"" },
    Known { name: "missed", takes: "\"skip\", \"once\" or \"all(n)\"", example: "\"once\"" },
    Known { name: "overlap", takes: TEXT, example: "\"skip\"" },
    Known { name: "jitter", takes: DURATION, example: "\"30s\"" },
    Known { name: "cron_crate", takes: "a path without quotes", example: "::renamed_cron" },
];

/// The options, each with the words of other frameworks and of the builder that mean the same.
const SYNONYMS: [(&str, &[&str]); 24] = [
    ("retry", &["max_retry", "max_retries", "retries", "max_attempts", "attempts"]),
    ("timeout", &["time_limit"]),
    ("unique", &["unique_for", "unique_ttl", "ttl", "lock_ttl"]),
    ("unique_by", &["unique_key"]),
    ("unique_until", &["unique_while"]),
    ("unique_extend", &["keep_lock"]),
    ("debounce", &["debounce_delay"]),
    ("debounce_max", &["max_wait"]),
    ("expires", &["expires_in", "expiry", "expire"]),
    ("group", &["batch", "group_by", "group_key"]),
    ("aggregates", &["aggregate"]),
    ("backoff", &["retry_delay", "delay_func"]),
    ("retention", &["keep", "result_ttl"]),
    ("name", &["task_type", "type", "kind", "rename"]),
    ("alias", &["aliases", "renamed_from"]),
    ("upgrade", &["upgrades", "upcast"]),
    ("codec", &["format"]),
    ("on_error", &["policy"]),
    ("on_archive", &["retries_exhausted"]),
    ("crate", &["krate"]),
    ("tz", &["timezone", "time_zone", "zone", "location"]),
    ("missed", &["catch_up", "catchup", "misfire"]),
    ("overlap", &["concurrency_policy"]),
    ("jitter", &["splay"]),
];

/// Words for a schedule, which is not an option, and such a schedule.
const WORDS_FOR_SCHEDULES: [(&str, &str); 4] =
    [("cron", "0 9 * * *"), ("schedule", "0 9 * * *"), ("every", "@every 5m"), ("interval", "@every 5m")];

/// Options of a job that a schedule refuses.
const REFUSED_BY_SCHEDULES: [&str; 4] = ["unique_by", "debounce", "debounce_max", "aggregates"];

/// Settings of one enqueue alone, because they differ from one task to the next.
const PER_CALL: [&str; 7] = ["process_in", "process_at", "task_id", "header", "delay", "or_replace", "awaited"];

/// Words of other frameworks for matters that no option of a job decides, and what decides them.
const ELSEWHERE: [(&[&str], &str); 4] = [
    (&["blocking", "spawn_blocking", "sync"], "a function without `async` runs on a thread that may block"),
    (&["priority", "weight"], "it belongs to the queue: write `.queue(\"critical\", 6)` where the server is built"),
    (
        &["concurrency", "max_concurrency"],
        "it belongs to the queue: write `.queue_concurrency(\"mail\", 2)` where the server is built; for all servers together the job takes a token of a `rate::Semaphore`",
    ),
    (
        &["rate_limit", "throttle"],
        "it belongs to the server: put tower's `RateLimitLayer` around its jobs by `.layer(…)` where it is built",
    ),
];

/// Returns the examples of all options, those of a schedule as well.
#[cfg(test)]
pub(super) fn examples() -> impl Iterator<Item = String> {
    OPTIONS.iter().chain(&OF_SCHEDULES).map(|option| option.example().trim_matches('`').to_owned())
}

impl Known {
    /// Returns the option as it is written: `` `retry = 5` ``.
    pub(super) fn example(&self) -> String {
        let equals = if self.name == DERIVE { "" } else { " = " };
        format!("`{}{equals}{}`", self.name, self.example)
    }

    /// Returns the values that the option takes, with an example.
    pub(super) fn takes(&self) -> String {
        format!("`{}` takes {}: {}", self.name, self.takes, self.example())
    }
}

pub(super) fn known(name: &str, attribute: Attribute) -> Option<&'static Known> {
    all(attribute).find(|known| known.name == name)
}

fn all(attribute: Attribute) -> impl Iterator<Item = &'static Known> {
    let of_schedules: &'static [Known] = match attribute {
        Attribute::Job => &[],
        Attribute::Periodic => &OF_SCHEDULES,
    };
    of_schedules.iter().chain(&OPTIONS)
}

/// Returns a word for a schedule, with such a schedule.
pub(super) fn schedule(name: &str) -> Option<&'static (&'static str, &'static str)> {
    WORDS_FOR_SCHEDULES.iter().find(|(word, _)| *word == name)
}

/// Returns the message for an option that does not exist.
pub(super) fn unknown(name: &str, attribute: Attribute) -> String {
    if attribute == Attribute::Job && OF_SCHEDULES.iter().any(|known| known.name == name) {
        return format!("`{name}` belongs to a schedule: write `#[periodic(\"0 9 * * *\", {name} = …)]`");
    }
    if let Some((_, schedule)) = schedule(name) {
        return format!("unknown option `{name}`; a job with a schedule begins with it: `#[periodic(\"{schedule}\")]`");
    }
    if PER_CALL.contains(&name) {
        let argument = if ["or_replace", "awaited"].contains(&name) { "" } else { "…" };
        let builder = if name == "delay" { "process_in" } else { name };
        return format!(
            "unknown option `{name}`; it belongs to one enqueue, not to the job: write `.{builder}({argument})` behind `::job(…)`"
        );
    }
    if let Some((_, place)) = ELSEWHERE.iter().find(|(words, _)| words.contains(&name)) {
        return format!("unknown option `{name}`; {place}");
    }
    let is_taken = |name: &&str| attribute == Attribute::Job || !REFUSED_BY_SCHEDULES.contains(name);
    let names = || all(attribute).map(|known| known.name).filter(is_taken);
    let synonym = SYNONYMS.iter().find(|(_, words)| words.contains(&name)).map(|(ours, _)| *ours);
    let meant = synonym.filter(|ours| names().any(|name| name == *ours)).or_else(|| nearest(name, names()));
    let all = names().collect::<Vec<_>>().join(", ");
    match meant {
        Some(meant) => format!("unknown option `{name}`; did you mean `{meant}`? (options: {all})"),
        None => format!("unknown option `{name}`; use one of these: {all}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_and_the_words_of_others_are_understood() {
        for (written, meant) in [
            ("que", "queue"),
            ("Queue", "queue"),
            ("retyr", "retry"),
            ("max_retry", "retry"),
            ("timeouts", "timeout"),
            ("uniqe", "unique"),
            ("unique_untill", "unique_until"),
            ("max_crash", "max_crashes"),
            ("onerror", "on_error"),
            ("back_off", "backoff"),
            ("groups", "group"),
            ("expires_at", "expires"),
            ("expires_in", "expires"),
            ("retry_delay", "backoff"),
            ("unique_extends", "unique_extend"),
            ("aggregate", "aggregates"),
        ] {
            let message = unknown(written, Attribute::Job);
            assert!(message.contains(&format!("did you mean `{meant}`?")), "{written}: {message}");
        }
    }

    #[test]
    fn an_unknown_word_gets_the_list_and_no_guess() {
        for written in ["colour", "x"] {
            let message = unknown(written, Attribute::Job);
            assert!(message.contains("use one of these: queue, retry"), "{written}: {message}");
        }
    }

    #[test]
    fn options_of_one_enqueue_point_at_the_builder() {
        assert!(unknown("task_id", Attribute::Job).contains("`.task_id(…)`"));
        assert!(unknown("delay", Attribute::Job).contains("`.process_in(…)`"));
        assert!(unknown("awaited", Attribute::Job).contains("`.awaited()`"));
    }

    #[test]
    fn a_word_for_what_no_option_decides_is_answered_with_its_place() {
        for (word, place) in [
            ("blocking", "`async`"),
            ("priority", "`.queue("),
            ("concurrency", "`.queue_concurrency("),
            ("throttle", "`RateLimitLayer`"),
        ] {
            for attribute in [Attribute::Job, Attribute::Periodic] {
                let message = unknown(word, attribute);
                assert!(message.contains(place) && !message.contains("one of these"), "{message}");
            }
        }
        let words = || ELSEWHERE.iter().flat_map(|(words, _)| *words);
        assert!(words().all(|word| known(word, Attribute::Periodic).is_none()));
    }

    #[test]
    fn every_word_of_others_leads_to_an_option_that_exists() {
        for (ours, words) in SYNONYMS {
            let is_of_schedules = OF_SCHEDULES.iter().any(|known| known.name == ours);
            let attribute = if is_of_schedules { Attribute::Periodic } else { Attribute::Job };
            for word in words {
                assert!(
                    known(ours, attribute).is_some() && known(word, Attribute::Periodic).is_none(),
                    "{word} -> {ours}"
                );
                assert!(unknown(word, attribute).contains(&format!("did you mean `{ours}`?")), "{word} -> {ours}");
            }
        }
        assert!(!unknown("timezone", Attribute::Job).contains("`tz`?"));
    }

    #[test]
    fn a_schedule_has_options_of_its_own() {
        assert!(known("tz", Attribute::Periodic).is_some() && known("tz", Attribute::Job).is_none());
        assert!(unknown("tz", Attribute::Job).contains("belongs to a schedule"));
        assert!(unknown("cron", Attribute::Job).contains("`#[periodic(\"0 9 * * *\")]`"));
        assert!(unknown("every", Attribute::Periodic).contains("`#[periodic(\"@every 5m\")]`"));
        assert!(known("queue", Attribute::Periodic).is_some());
        let message = unknown("colour", Attribute::Periodic);
        assert!(message.contains("unique, unique_until,") && !message.contains("debounce"), "{message}");
        for refused in ["debonce", "aggregate", "max_wait"] {
            let message = unknown(refused, Attribute::Periodic);
            assert!(message.contains("use one of these"), "{message}");
        }
    }

    #[test]
    fn a_schedule_refuses_the_options_that_its_list_leaves_out_and_no_others() {
        let is_refused = |attribute, schedule: &str, option: &Known| {
            let options = format!("{schedule}{}", option.example().trim_matches('`')).parse().expect("tokens");
            let function = "async fn tidy() {}".parse().expect("tokens");
            let expanded = crate::job::expand(attribute, crate::paths::Home::Runtime, options, function);
            expanded.to_string().contains("compile_error")
        };
        for option in &OPTIONS {
            let by_schedule = is_refused(Attribute::Periodic, "\"@daily\", ", option);
            // Some options need others or arguments, with a schedule or without.
            if !is_refused(Attribute::Job, "", option) || REFUSED_BY_SCHEDULES.contains(&option.name) {
                assert_eq!(by_schedule, REFUSED_BY_SCHEDULES.contains(&option.name), "{}", option.name);
            }
        }
    }
}
