use super::{super::field::members, *};

fn compat(text: &str) -> Result<Spec, TextError> {
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
fn a_mistake_names_its_bytes_and_what_to_write() {
    for (text, wrong, message) in [
        ("61 * * * *", "61", "minute must be 0–59, got 61"),
        ("0 9-25 * * mon-fri", "25", "hour must be 0–23, got 25"),
        ("* * * * 7", "7", "Sunday is 0"),
        ("* * * * monday", "monday", "write `mon`"),
        ("* * * january *", "january", "write `jan`"),
        ("*/0 * * * *", "0", "step of 0"),
        ("5-1 * * * *", "5-1", "ends before it begins; write the smaller value first"),
        ("0 22-6 * * *", "22-6", "or `22-23,0-6`"),
        ("0 22-6/2 * * *", "22-6/2", "or `22-23/2,0-6/2`"),
        ("0 9 * * fri-sun", "fri-sun", "or `fri-6,0-sun`"),
        ("1-5/99 * * * *", "99", "larger than"),
        ("*-5 * * * *", "*-5", "a star has no end"),
        ("1,,2 * * * *", ",", "leave the comma out"),
        ("1, * * * *", ",", "leave the comma out"),
        ("+5 * * * *", "+5", "must be a number"),
        ("1-2-3 * * * *", "1-2-3", "more than one hyphen"),
        ("-1 * * * *", "-", "lacks a number"),
        ("* * * * mon-", "-", "lacks a number"),
        ("* * * * L", "L", "friL"),
        ("* * L-31 * *", "L-31", "0 to 30"),
        ("* * 32W * *", "32", "1–31"),
        ("* * * * 1#6", "1#6", "1 to 5"),
        ("0 0 30 2 *", "30 2 *", "never fire"),
        ("0 0 31 4,6,9,11 *", "31 4,6,9,11 *", "never fire"),
        ("* * * *", "* * * *", "found 4"),
        ("@Daily", "@Daily", "write `@daily`"),
        ("@reboot", "@reboot", "unknown descriptor"),
        ("@every 1d", "d", "units are ms, s, m, h"),
        ("TZ=Europe/Berlin", "TZ=Europe/Berlin", "needs a zone, a space"),
        ("99999999999999999999 * * * *", "99999999999999999999", "0–59"),
        ("٣ * * * *", "٣", "must be a number"),
    ] {
        let error = parse(text, Mode::Default).expect_err(text);
        assert_eq!(&text[error.range()], wrong, "{text}: {error}");
        assert!(error.to_string().contains(message), "{text}: {error}");
    }
    assert_eq!(fields("0 9 * * fri-6,0-sun"), fields("0 9 * * fri,sat,sun"));
    let error = parse("0 9-25 * * mon-fri", Mode::Default).expect_err("an hour");
    assert_eq!(error.caret("0 9-25 * * mon-fri"), "0 9-25 * * mon-fri\n    ^^");
}

#[test]
fn the_error_of_an_interval_without_its_descriptor_shows_one() {
    let cases = [("every 5 minutes", true), ("Every 5m", true), ("1h30m", true), ("5", false), ("0 9 * *", false)];
    for (text, is_shown) in cases {
        let message = parse(text, Mode::Default).unwrap_err().to_string();
        assert_eq!(message.ends_with("; an interval is written `@every 5m`"), is_shown, "{message}");
    }
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
