//! Properties of every schedule.

use asynq_cron::CronSpec;
use chrono::{DateTime, Duration, Utc};
use chrono_tz::{TZ_VARIANTS, Tz};
use proptest::prelude::*;

/// A field of numbers from `least` to `greatest`, as people write them.
fn field(least: u32, greatest: u32) -> impl Strategy<Value = String> {
    let number = least..=greatest;
    let item = prop_oneof![
        4 => Just("*".to_owned()),
        2 => number.clone().prop_map(|n| n.to_string()),
        1 => (1..=(greatest - least)).prop_map(|step| format!("*/{step}")),
        1 => (number.clone(), number).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
    ];
    prop::collection::vec(item, 1..3).prop_map(|items| items.join(","))
}

fn spec() -> impl Strategy<Value = String> {
    let day = prop_oneof![8 => field(1, 31), 1 => Just("L".to_owned()), 1 => Just("15W".to_owned())];
    let weekday = prop_oneof![8 => field(0, 6), 1 => Just("5#2".to_owned()), 1 => Just("friL".to_owned())];
    (field(0, 59), field(0, 23), day, field(1, 12), weekday)
        .prop_map(|(minute, hour, day, month, weekday)| format!("{minute} {hour} {day} {month} {weekday}"))
}

fn instant() -> impl Strategy<Value = DateTime<Utc>> {
    (1_700_000_000_i64..2_200_000_000, 0_u32..1_000_000_000)
        .prop_map(|(seconds, nanos)| DateTime::from_timestamp(seconds, nanos).expect("a time"))
}

fn zone() -> impl Strategy<Value = Tz> {
    (0..TZ_VARIANTS.len()).prop_map(|at| TZ_VARIANTS[at])
}

proptest! {
    #[test]
    fn the_next_time_is_later_and_nothing_is_between(text in spec(), zone in zone(), start in instant()) {
        let spec = match CronSpec::parse_in(&text, zone) {
            Ok(spec) => spec,
            // The only refusal left is a schedule that never fires.
            Err(refused) => {
                prop_assert!(refused.to_string().contains("would never fire"), "{refused}");
                return Ok(());
            }
        };
        let read_back = CronSpec::parse(&spec.to_string());
        prop_assert_eq!(read_back.as_ref(), Ok(&spec));
        let Some(next) = spec.next_after(start) else {
            return Err(TestCaseError::reject("it does not fire within 400 years"));
        };
        prop_assert!(next > start);
        prop_assert_eq!(next.timestamp_subsec_nanos(), 0);
        // From any instant in between, the next time is the same; from the time itself, it is a later one.
        let middle = start + (next - start) / 2;
        if middle < next {
            prop_assert_eq!(spec.next_after(middle), Some(next));
        }
        prop_assert_eq!(spec.next_after(next - Duration::nanoseconds(1)), Some(next));
        prop_assert!(spec.next_after(next).is_none_or(|after| after > next));
    }

    #[test]
    fn no_text_panics_and_every_refusal_has_its_place(text in "[-*/,?#LW0-9a-zäé@= ]{0,40}") {
        for parsed in [CronSpec::parse(&text), CronSpec::parse_compat(&text)] {
            if let Err(asynq_cron::SpecError::Expression { source, .. }) = parsed {
                prop_assert!(text.get(source.range()).is_some());
                prop_assert!(!source.caret(&text).is_empty());
            }
        }
    }

    #[test]
    fn both_readings_agree_where_no_clock_jumps(text in spec(), start in instant()) {
        let (ours, robfig) = match (CronSpec::parse(&text), CronSpec::parse_compat(&text)) {
            (Ok(ours), Ok(robfig)) => (ours, robfig),
            // robfig does not know these letters.
            (_, Err(refused)) => {
                prop_assert!(text.contains(['L', 'W', '#']), "{refused}");
                return Ok(());
            }
            // robfig accepts a schedule that never fires.
            (Err(refused), Ok(robfig)) => {
                prop_assert_eq!(robfig.next_after(start), None, "{}", refused);
                return Ok(());
            }
        };
        let five_years = start + Duration::days(5 * 365);
        prop_assert_eq!(
            ours.next_after(start).filter(|&next| next < five_years),
            robfig.next_after(start).filter(|&next| next < five_years)
        );
    }
}
