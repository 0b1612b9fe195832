use serde::Deserialize;

use super::*;
use crate::job::{
    JobContext, JobResult, shape,
    test_jobs::{Below, jobs},
};

jobs! {
    Mail "mail" { to: String, copies: u32 } [];
    /// The wire name of [`Mail`] with the fields swapped, as another version of the program would have it.
    Swapped "mail" { copies: u32, to: String } [];
    Nested "nested" { mail: Mail } [];
    NestedSwapped "nested" { mail: Swapped } [];
    Long "nested" { mail: MailInWords } [];
    MailInWords "mail" { to: std::string::String, copies: u32 } [];
    JsonMail "mail" { to: String, copies: u32 } [const CODEC: Codec = Codec::Json;];
    Nothing "nothing" {} [];
    JsonNothing "nothing" {} [const CODEC: Codec = Codec::Json;];
    Loose "loose" { value: serde_json::Value } [];
    JsonLoose "loose" { value: serde_json::Value } [const CODEC: Codec = Codec::Json;];
    ByHand "mail" { to: String, copies: u32 } [const FINGERPRINT: Option<&'static str> = Some("v2");];
    ByHandSwapped "mail" { copies: u32, to: String } [const FINGERPRINT: Option<&'static str> = Some("v2");];
}

fn mail() -> Mail {
    Mail { to: "ann".into(), copies: 2 }
}

fn value<J: Job>() -> u32 {
    Fingerprint::of::<J>().value
}

#[test]
fn the_algorithm_of_the_fingerprint_never_changes() {
    // Tasks of earlier versions carry these numbers. A change here orphans the tasks.
    assert_eq!(Fingerprint::of::<Mail>().shape, "{to: str, copies: u32}");
    assert_eq!(value::<Mail>(), 0x286c_abb8);
    assert_eq!(value::<Nested>(), 0xbc36_b97f);
    assert_eq!(value::<Nothing>(), 0x934b_9199);
    assert_eq!(value::<ByHand>(), 0xecd0_bcfb);
    assert_eq!(value::<Loose>(), 0x095e_881b);
}

#[test]
fn only_the_shape_that_serde_sees_makes_the_fingerprint() {
    assert_ne!(value::<Mail>(), value::<Swapped>());
    assert_ne!(value::<Nested>(), value::<NestedSwapped>(), "two fields swapped in a nested struct");
    assert_eq!(value::<Nested>(), value::<Long>(), "String and std::string::String are one");
    assert_ne!(value::<ByHand>(), value::<Mail>());
    assert_eq!(value::<ByHand>(), value::<ByHandSwapped>(), "by hand means by hand");
    assert!(Fingerprint::of::<ByHand>().complete);
}

#[test]
fn postcard_starts_with_the_format_byte_and_the_fingerprint() {
    let bytes = encode_arguments(&mail()).unwrap();
    assert_eq!(bytes[0], 1);
    assert_eq!(bytes[1..5], value::<Mail>().to_le_bytes());
    assert_eq!(bytes[5..], *b"\x03ann\x02");
    assert_eq!(decode_arguments::<Mail>(&bytes).unwrap(), mail());
}

#[test]
fn json_is_what_gos_unmarshal_reads() {
    let bytes = encode_arguments(&JsonMail { to: "ann".into(), copies: 2 }).unwrap();
    assert_eq!(bytes, r#"{"to":"ann","copies":2}"#);
    let from_go = br#" {"copies": 2, "to": "ann", "more": null} "#;
    assert_eq!(decode_arguments::<JsonMail>(from_go).unwrap(), JsonMail { to: "ann".into(), copies: 2 });
}

#[test]
fn a_job_without_arguments_takes_any_payload() {
    for payload in [&b""[..], b"null", b"{}", b"\x01abcdefg", b"\xff"] {
        assert_eq!(decode_arguments::<Nothing>(payload).unwrap(), Nothing {});
        assert_eq!(decode_arguments::<JsonNothing>(payload).unwrap(), JsonNothing {});
    }
}

#[test]
fn the_error_of_another_shape_shows_both_shapes() {
    let bytes = encode_arguments(&Swapped { copies: 2, to: "ann".into() }).unwrap();
    let error = decode_arguments::<Mail>(&bytes).unwrap_err();
    let PayloadError::UnknownFingerprint { expected, found, .. } = error else { panic!("{error}") };
    assert_eq!((expected, found), (value::<Mail>(), value::<Swapped>()));
    let text = error.to_string();
    for part in [&*format!("{found:08x}"), &*format!("{expected:08x}"), "`mail`", "{to: str, copies: u32}"] {
        assert!(text.contains(part), "{part} is missing in: {text}");
    }
}

#[test]
fn the_error_of_bytes_that_are_not_arguments_says_what_they_look_like() {
    let good = encode_arguments(&mail()).unwrap();
    let too_long = [&good[..], b"xy"].concat();
    for (payload, expected) in [
        (&b""[..], "it is empty (0 bytes)"),
        (br#"{"to":"ann""#, "it looks like JSON; write `codec = \"json\"`"),
        (b"\x02\x00\x00\x00\x00\x00", "its first byte is not the format byte 0x01"),
        (&good[..3], "it is cut off (3 bytes)"),
        (&too_long, "2 bytes too many"),
        (&good[..good.len() - 2], "the arguments of `mail` cannot be read"),
    ] {
        let error = decode_arguments::<Mail>(payload).unwrap_err();
        assert!(matches!(error, PayloadError::Undecodable { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    for payload in [&br#"{"to":"ann","copies":2}x"#[..], b"{", b"\x01\x02", b""] {
        let error = decode_arguments::<JsonMail>(payload).unwrap_err();
        assert!(matches!(error, PayloadError::Undecodable { .. }), "{error}");
    }
}

/// Another version of the program may know the arguments, so the tasks are not given up at once.
#[test]
fn arguments_of_another_version_and_bytes_that_are_not_arguments_have_different_errors() {
    let unfit = |error: PayloadError, expected: &str| {
        assert!(matches!(error, PayloadError::Unfit { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    };
    for (payload, expected) in [
        (&br#"{"to":"ann"}"#[..], "missing field `copies`"),
        (br#"{"to":"ann","copies":-1}"#, "invalid value: integer, expected u32"),
        (br#""ann""#, "invalid type: string"),
        (b"null", "invalid type: null"),
    ] {
        unfit(decode_arguments::<JsonMail>(payload).unwrap_err(), expected);
    }
    unfit(decode_arguments::<Mail>(br#"{"to":"ann"}"#).unwrap_err(), "looks like JSON; write `codec = \"json\"`");
}

/// A roll-back, or a worker that is updated last, must not give up what a later version has enqueued.
#[test]
fn a_payload_whose_first_byte_is_kept_for_later_versions_is_of_another_version() {
    for first in 0x03..=0x07 {
        let payload = [first, 0, 0, 0, 0, b'a'];
        for error in [
            decode_arguments::<Mail>(&payload).unwrap_err(),
            decode_arguments::<JsonMail>(&payload).unwrap_err(),
            crate::job::resolve_arguments::<Mail>(&payload, None).unwrap_err(),
            crate::job::resolve_arguments::<JsonMail>(&payload, None).unwrap_err(),
        ] {
            assert!(matches!(error, PayloadError::Unfit { .. }), "{error}");
            assert!(error.to_string().contains(&format!("its first byte 0x0{first}")), "{error}");
        }
        assert!(decode_arguments::<Mail>(&payload[..1]).unwrap_err().is_of_another_version());
    }
    // Protobuf begins with 8 at least, JSON with white space, of which 9 is the least, or with a value.
    for first in [0x00, 0x02, 0x08, b'\t', b'\n', b'\r', b' '] {
        let payload = [first, 0, 0, 0, 0, b'a'];
        assert!(!decode_arguments::<Mail>(&payload).unwrap_err().is_of_another_version(), "{first}");
        assert!(!decode_arguments::<JsonMail>(&payload).unwrap_err().is_of_another_version(), "{first}");
    }
}

jobs! {
    Narrow "priority" { priority: Below<10> } [];
    Widened "priority" { priority: Below<20> } [];
}

#[test]
fn a_value_that_this_version_of_its_type_refuses_is_of_another_version() {
    assert_eq!(value::<Narrow>(), value::<Widened>());
    let sent = encode_arguments(&Widened { priority: Below(15) }).unwrap();
    let error = decode_arguments::<Narrow>(&sent).unwrap_err();
    assert!(error.is_of_another_version(), "{error}");
    assert!(error.to_string().contains("a value that its type does not take"), "{error}");
    let taken = encode_arguments(&Widened { priority: Below(9) }).unwrap();
    assert_eq!(decode_arguments::<Narrow>(&taken).unwrap(), Narrow { priority: Below(9) });
}

/// A text that no sample is, so that the shape is known in part.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String")]
struct Order7(String);

impl TryFrom<String> for Order7 {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        if text == "order-7" { Ok(Self(text)) } else { Err("no order") }
    }
}

jobs! {
    #[allow(non_camel_case_types)]
    send_mail "send_mail" { order: Order7 } [];
    SendEmail "send_email" { order: Order7 } [const ALIASES: &'static [&'static str] = &["send_mail"];];
    SendLetter "send_mail" { order: Order7 } [];
    Another "another" { order: Order7 } [];
    Upgraded "send_email" { cents: u64 } [
        const ALIASES: &'static [&'static str] = &["send_mail"];
        const UPGRADES: &'static [crate::job::Upgrade<Self>] = &[crate::job::Upgrade::new(|earlier| {
            earlier.through(|_: send_mail| Upgraded { cents: 1 })
        })];
    ];
}

/// The name of the function is part of a fingerprint that is known in part.
#[test]
fn a_renamed_function_takes_the_tasks_of_its_earlier_name() {
    let order = || Order7("order-7".into());
    let sent = encode_arguments(&send_mail { order: order() }).unwrap();
    let with_alias = decode_arguments::<SendEmail>(&sent).unwrap();
    let with_name = decode_arguments::<SendLetter>(&sent).unwrap();
    assert_eq!((with_alias.order, with_name.order), (order(), order()));
    assert_eq!(decode_arguments::<Upgraded>(&sent).unwrap(), Upgraded { cents: 1 });
    assert!(decode_arguments::<Another>(&sent).is_err());
}

#[test]
fn a_payload_in_the_other_codec_is_read() {
    let read: JsonMail = decode_arguments(&encode_arguments(&mail()).unwrap()).unwrap();
    assert_eq!((read.to.as_str(), read.copies), ("ann", 2));
    assert_eq!(decode_arguments::<Mail>(br#"{"to":"ann","copies":2}"#).unwrap(), mail());
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Skipping {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    discount: Option<u8>,
    quantity: u8,
    lines: Vec<u8>,
}

jobs! {
    Order "order" { order: Skipping } [];
    JsonOrder "order" { order: Skipping } [const CODEC: Codec = Codec::Json;];
    HalfWritten "half" { #[serde(skip_serializing)] #[serde(default)] a: u8, b: u8 } [];
}

#[test]
fn a_field_that_serde_leaves_out_is_refused_at_the_enqueue() {
    let skipping = || Skipping { discount: None, quantity: 1, lines: vec![5, 0] };
    let error = encode_arguments(&Order { order: skipping() }).unwrap_err().to_string();
    for part in ["the arguments of `order`", "`discount`", "skip_serializing_if", "codec = \"json\""] {
        assert!(error.contains(part), "{part} is missing in: {error}");
    }
    let bytes = encode_arguments(&JsonOrder { order: skipping() }).unwrap();
    assert_eq!(decode_arguments::<JsonOrder>(&bytes).unwrap(), JsonOrder { order: skipping() });
    let error = encode_arguments(&HalfWritten { a: 1, b: 2 }).unwrap_err().to_string();
    assert!(error.contains("`HalfWritten` writes 1 field"), "{error}");
    let error = encode_result("order", Codec::Postcard, &skipping()).unwrap_err().to_string();
    assert!(error.contains("the result of `order`") && error.contains("`discount`"), "{error}");
}

#[test]
fn arguments_that_postcard_could_never_read_back_are_refused_at_the_enqueue() {
    let error = encode_arguments(&Loose { value: serde_json::Value::Null }).unwrap_err().to_string();
    assert!(error.contains("`Value`") && error.contains("codec = \"json\""), "{error}");
    assert!(!Fingerprint::of::<Loose>().complete);
    let bytes = encode_arguments(&JsonLoose { value: serde_json::json!([1]) }).unwrap();
    assert_eq!(bytes, r#"{"value":[1]}"#);
}

jobs! {
    Measure "measure" { celsius: f64, note: Option<String> } [const CODEC: Codec = Codec::Json;];
    Optional "optional" { celsius: Option<f64>, changed: Option<Option<u8>> } [const CODEC: Codec = Codec::Json;];
    Lopsided "lopsided" { #[serde(serialize_with = "as_null")] at: u64 } [const CODEC: Codec = Codec::Json;];
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn as_null<S: serde::Serializer>(_: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_unit()
}

#[test]
fn json_that_could_never_be_read_back_is_refused_at_the_enqueue() {
    let measure = |celsius, note: Option<&str>| Measure { celsius, note: note.map(Into::into) };
    for celsius in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let error = encode_arguments(&measure(celsius, Some("x"))).unwrap_err().to_string();
        for part in ["the arguments of `measure` as json", "invalid type: null, expected f64", "not finite (NaN"] {
            assert!(error.contains(part), "{part} is missing in: {error}");
        }
    }
    for note in [None, Some("null")] {
        let bytes = encode_arguments(&measure(-1.5, note)).unwrap();
        assert_eq!(decode_arguments::<Measure>(&bytes).unwrap(), measure(-1.5, note));
    }
    for (celsius, changed) in [(Some(f64::NAN), None), (Some(f64::INFINITY), None), (None, Some(None))] {
        let error = encode_arguments(&Optional { celsius, changed }).unwrap_err().to_string();
        assert!(error.contains("it would be read as another value: JSON has null in place of"), "{error}");
    }
    for (celsius, changed) in [(None, None), (Some(0.5), None), (None, Some(Some(7)))] {
        let bytes = encode_arguments(&Optional { celsius, changed }).unwrap();
        assert_eq!(decode_arguments::<Optional>(&bytes).unwrap(), Optional { celsius, changed });
    }
    let error = encode_arguments(&Lopsided { at: 7 }).unwrap_err().to_string();
    assert!(error.contains("written otherwise than it is read"), "{error}");
}

#[test]
fn a_float_in_json_comes_back_to_its_last_bit() {
    for celsius in [31.245_270_191_439_438, -122.030_189_7, 0.1 + 0.2, f64::MIN_POSITIVE, f64::MAX] {
        let bytes = encode_arguments(&Measure { celsius, note: None }).unwrap();
        assert_eq!(decode_arguments::<Measure>(&bytes).unwrap().celsius.to_bits(), celsius.to_bits(), "{celsius}");
        let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(value["celsius"].as_f64(), Some(celsius), "as an editor reads it");
    }
}

#[test]
fn a_result_comes_back_as_it_was() {
    for codec in [Codec::Postcard, Codec::Json] {
        let bytes = encode_result("sum", codec, &(7u64, "x")).unwrap();
        assert_eq!(decode_result(codec, Some(&bytes)), Ok((7u64, "x".to_owned())));
        let other = decode_result::<(i64, String)>(codec, Some(&bytes));
        assert_eq!(other.is_ok(), codec == Codec::Json, "{other:?}");
    }
    assert_eq!(encode_result("sum", Codec::Json, &7u64).unwrap(), "7");
}

#[test]
fn the_error_of_a_result_that_only_json_can_carry_gives_the_way_out() {
    let bytes = encode_result("sum", Codec::Postcard, &serde_json::json!({"cents": 7})).unwrap();
    let error = decode_result::<serde_json::Value>(Codec::Postcard, Some(&bytes)).unwrap_err();
    assert!(error.contains("`Value`") && error.contains("write `codec = \"json\"` on the job"), "{error}");
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Deep {
    Leaf,
    Not(Box<Deep>),
}

jobs! {
    Eval "eval" { expression: Deep } [];
    Units "units" { units: Vec<()> } [];
}

fn eval(levels: usize) -> Eval {
    Eval { expression: (0..levels).fold(Deep::Leaf, |inner, _| Deep::Not(Box::new(inner))) }
}

fn nested(levels: usize) -> Vec<u8> {
    [vec![1; levels], vec![0]].concat()
}

/// A stack overflow would end the worker, and each one after it.
#[test]
fn what_is_nested_too_deeply_is_neither_read_nor_sent() {
    let (fingerprint, deepest) = (Fingerprint::of::<Eval>(), nested(127));
    let payload = |value: &[u8]| [&header(POSTCARD, fingerprint.value)[..], value].concat();
    assert_eq!(encode_arguments(&eval(127)).unwrap(), payload(&deepest));
    assert_eq!(decode_arguments::<Eval>(&payload(&deepest)).unwrap(), eval(127));
    assert!(shape::decode(&fingerprint.document, &deepest).is_ok(), "a program of another version reads as much");

    let error = encode_arguments(&eval(128)).unwrap_err().to_string();
    assert!(error.contains("the arguments of `eval`") && error.contains("deeper than 128 levels"), "{error}");
    for levels in [128, 200, 1_000_000] {
        let value = nested(levels);
        assert!(shape::decode(&fingerprint.document, &value).is_err());
        let error = decode_arguments::<Eval>(&payload(&value)).unwrap_err();
        assert!(error.is_of_another_version(), "an earlier version of this crate runs it: {error}");
        assert!(error.to_string().contains("deeper than 128 levels"), "{error}");
    }
}

#[test]
fn checkpoints_results_and_earlier_arguments_that_are_nested_too_deeply_are_not_read() {
    let number = Fingerprint::of_value::<Deep>().value;
    for value in [nested(200), nested(1_000_000)] {
        let checkpoint = [&header(POSTCARD, number)[..], &value].concat();
        let result = [&header(RESULT, 0)[..], &value].concat();
        assert_eq!(decode_checkpoint::<Deep>(&checkpoint).unwrap_err(), bounded::TOO_DEEP);
        assert_eq!(decode_result::<Deep>(Codec::Postcard, Some(&result)).unwrap_err(), bounded::TOO_DEEP);
        let earlier = Earlier(Content::Postcard(Fingerprint::of_earlier::<Mail, Deep>().value, &value));
        let upgraded = earlier.through(|_: Deep| mail());
        assert!(matches!(upgraded, Some(Err(PayloadError::Unresolved { .. }))), "{upgraded:?}");
    }
    let error = encode_checkpoint("import", Codec::Postcard, &eval(200).expression).unwrap_err().to_string();
    assert!(error.contains("deeper than 128 levels"), "{error}");
}

/// No await and no timeout would end the count.
#[test]
fn elements_without_bytes_are_counted_up_to_a_bound() {
    let units = |n| Units { units: vec![(); n] };
    let sent = encode_arguments(&units(9_000)).unwrap();
    assert_eq!(decode_arguments::<Units>(&sent).unwrap(), units(9_000));
    let error = encode_arguments(&units(20_000)).unwrap_err().to_string();
    assert!(error.contains("more parts than the payload has bytes"), "{error}");
    // 20,000, 2^32 - 1 and 2^64 - 1, which no count of 32 bits can be.
    let most: &[u8] = &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let counts = [&[0xa0, 0x9c, 0x01], &[0xff, 0xff, 0xff, 0xff, 0x0f][..], most];
    for count in counts.into_iter().take(if usize::BITS > 32 { 3 } else { 2 }) {
        let payload = [&header(POSTCARD, value::<Units>())[..], count].concat();
        let error = decode_arguments::<Units>(&payload).unwrap_err();
        assert!(matches!(error, PayloadError::Unfit { .. }), "{error}");
    }
}
