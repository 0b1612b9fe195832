use super::{super::field::members, *};

fn compat(text: &str) -> Result<Spec, CronError> {
    parse(text, Mode::Compat)
}

#[test]
fn every_spec_of_robfig_is_read() {
    let minutes = |text: &str| match compat(&format!("{text} * * * *")).map(|spec| spec.schedule) {
        Ok(Schedule::Fields(fields)) => members(fields.minutes).collect::<Vec<_>>(),
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(minutes("5"), [5]);
    assert_eq!(minutes("+5"), [5]);
    assert_eq!(minutes("5/20"), [5, 25, 45]);
    assert_eq!(minutes("1-10/4"), [1, 5, 9]);
    assert_eq!(minutes("1,,2,"), [1, 2]);
    assert_eq!(minutes("*-5").len(), 60);
    assert_eq!(minutes("*/61"), [0]);
    assert_eq!(minutes(",,"), [] as [u32; 0]);
}

#[test]
fn the_second_is_every_item_that_is_written_and_else_zero() {
    for (text, seconds) in [
        ("0,30 * * * * *", &[0, 30][..]),
        ("30,0 * * * * *", &[0, 30]),
        ("0-1,0,59 * * * * *", &[0, 1, 59]),
        ("7 * * * * *", &[7]),
        ("* * * * *", &[0]),
    ] {
        assert_eq!(members(fields(text).seconds).collect::<Vec<_>>(), seconds, "{text}");
    }
}

#[test]
fn zones_and_descriptors_are_read() {
    let spec = compat("CRON_TZ=Europe/Berlin  0 9 * * * ").expect("a zone");
    let zone = spec.zone.expect("a zone");
    assert_eq!((zone.name.as_str(), zone.range), ("Europe/Berlin", 8..21));
    assert_eq!(compat("TZ= @daily").expect("UTC").zone.expect("empty").name, "");
    assert_eq!(compat("@weekly").map(|spec| spec.schedule), compat("0 0 * * 0").map(|spec| spec.schedule));
    assert!(compat("TZ=UTC").is_err());
    // robfig ends the name of a zone at a space alone.
    let text = "TZ=Europe/Berlin\t0 9 * * *";
    let spec = parse(text, Mode::Default).expect("a zone");
    assert_eq!(
        (spec.zone.expect("a zone").name.as_str(), spec.schedule),
        ("Europe/Berlin", Schedule::Fields(fields("0 9 * * *")))
    );
    assert!(compat(text).is_err());
}

#[test]
fn a_mistake_names_its_field_its_bytes_and_what_to_write() {
    for (text, field, wrong, message) in [
        ("61 * * * *", Some(Field::Minute), "61", "minute must be 0–59, got 61"),
        ("0 9-25 * * mon-fri", Some(Field::Hour), "25", "hour must be 0–23, got 25"),
        ("* * * * 7", Some(Field::Weekday), "7", "Sunday is 0"),
        ("* * * * monday", Some(Field::Weekday), "monday", "write `mon`"),
        ("* * * january *", Some(Field::Month), "january", "write `jan`"),
        ("*/0 * * * *", Some(Field::Minute), "0", "step of 0"),
        ("5-1 * * * *", Some(Field::Minute), "5-1", "ends before it begins"),
        ("1-5/99 * * * *", Some(Field::Minute), "99", "larger than"),
        ("*-5 * * * *", Some(Field::Minute), "*-5", "a star has no end"),
        ("1,,2 * * * *", Some(Field::Minute), ",", "leave the comma out"),
        ("1, * * * *", Some(Field::Minute), ",", "leave the comma out"),
        ("+5 * * * *", Some(Field::Minute), "+5", "must be a number"),
        ("1-2-3 * * * *", Some(Field::Minute), "1-2-3", "more than one hyphen"),
        ("-1 * * * *", Some(Field::Minute), "-", "lacks a number"),
        ("* * * * mon-", Some(Field::Weekday), "-", "lacks a number"),
        ("* * * * L", Some(Field::Weekday), "L", "friL"),
        ("* * L-31 * *", Some(Field::Day), "L-31", "0 to 30"),
        ("* * 32W * *", Some(Field::Day), "32", "1–31"),
        ("* * * * 1#6", Some(Field::Weekday), "1#6", "1 to 5"),
        ("0 0 30 2 *", Some(Field::Day), "30 2 *", "never fire"),
        ("0 0 31 4,6,9,11 *", Some(Field::Day), "31 4,6,9,11 *", "never fire"),
        ("* * * *", None, "* * * *", "found 4"),
        ("@Daily", None, "@Daily", "write `@daily`"),
        ("@reboot", None, "@reboot", "unknown descriptor"),
        ("@every 1d", None, "d", "units are ms, s, m, h"),
        ("TZ=Europe/Berlin", None, "TZ=Europe/Berlin", "needs a zone, a space"),
        ("99999999999999999999 * * * *", Some(Field::Minute), "99999999999999999999", "0–59"),
        ("٣ * * * *", Some(Field::Minute), "٣", "must be a number"),
    ] {
        let error = parse(text, Mode::Default).expect_err(text);
        assert_eq!((error.field(), &text[error.range()]), (field, wrong), "{text}: {error}");
        assert!(error.to_string().contains(message), "{text}: {error}");
    }
    let error = parse("0 9-25 * * mon-fri", Mode::Default).expect_err("an hour");
    assert_eq!(error.caret("0 9-25 * * mon-fri"), "0 9-25 * * mon-fri\n    ^^");
}

#[test]
fn rubbish_is_an_error_with_a_place_inside_the_text() {
    let long = ",".repeat(4096) + " * * * *";
    for text in
        ["", " ", "\u{a0}", "* * * * *  *  *", "@", "@every", "@every ", "TZ= ", "é * * * *", "* * * * 1#", &long]
    {
        for mode in [Mode::Default, Mode::Compat] {
            if let Err(error) = parse(text, mode) {
                assert!(text.get(error.range()).is_some_and(|range| text.is_empty() || !range.is_empty()), "{text:?}");
            }
        }
        assert!(parse(text, Mode::Default).is_err(), "{text:?}");
    }
}
