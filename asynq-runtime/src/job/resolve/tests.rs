use std::{collections::BTreeMap, marker::PhantomData};

use serde::{Deserialize, Serialize};

use super::*;
use crate::job::{
    Codec, JobContext, JobResult, PreparedTask, Secret, Upgrade,
    test_jobs::{Below, jobs},
};

/// Returns the payload that an enqueue leaves in the broker, and the document of its shape there.
fn left<J: Job>(job: J) -> (Vec<u8>, ShapeLookup) {
    let document = Fingerprint::of::<J>().document.to_bytes().expect("a small shape");
    (PreparedTask::from(job).payload().to_vec(), ShapeDocument::from_bytes(&document))
}

/// Returns today's job, read from a task of another version.
fn read<J: Job>(old: impl Job) -> Result<J, PayloadError> {
    let (payload, lookup) = left(old);
    resolve(&payload, Some(&lookup))
}

fn reason<J: Job + std::fmt::Debug>(old: impl Job) -> String {
    read::<J>(old).expect_err("it cannot be read").to_string()
}

jobs! {
    Mail { to: String, copies: u32 } [];
    MoreOptions { to: String, cc: Option<String>, copies: u32 } [];
    WithDefault { #[serde(default)] urgent: bool, to: String, copies: u32 } [];
    Required { to: String, copies: u32, from: String } [];
    Reordered { copies: u32, to: String } [];
    Wider { to: String, copies: u64 } [];
    Narrower { to: String, copies: u8 } [];
    Signed { to: String, copies: i64 } [];
    Fewer { to: String } [];
    Alias { #[serde(alias = "to")] recipient: String, #[serde(alias = "number", alias = "aaa")] copies: u32 } [];
    Renamed { #[serde(rename = "to")] address: String, copies: u32 } [];
    OtherName { recipient: String, copies: u32 } [];
    Optional { to: Option<String>, copies: Option<u32> } [];
    InFloats { to: String, copies: f64 } [];
    Numbers { to: u32 } [];
    JsonMail { to: String, copies: u32, #[serde(default)] urgent: bool } [const CODEC: Codec = Codec::Json;];

    #[serde(transparent)] Lone { to: String } [const ARGUMENT: Option<&'static str> = Some("to");];
    #[serde(transparent)] LoneOther { recipient: String } [const ARGUMENT: Option<&'static str> = Some("recipient");];
    #[serde(transparent)] LoneAlias { recipient: String } [
        const ARGUMENT: Option<&'static str> = Some("recipient");
        const ARGUMENT_ALIASES: &'static [&'static str] = &["address", "to"];
    ];
    #[serde(transparent)] LoneSecretAlias { recipient: Secret<String> } [
        const ARGUMENT: Option<&'static str> = Some("recipient");
        const ARGUMENT_ALIASES: &'static [&'static str] = &["address", "to"];
    ];
    #[serde(transparent)] JsonLoneAlias { recipient: String } [
        const CODEC: Codec = Codec::Json;
        const ARGUMENT: Option<&'static str> = Some("recipient");
        const ARGUMENT_ALIASES: &'static [&'static str] = &["address", "to"];
    ];
    #[serde(transparent)] JsonLone { to: String } [
        const CODEC: Codec = Codec::Json;
        const ARGUMENT: Option<&'static str> = Some("to");
    ];
    Two { to: String, n: Option<u32> } [];
    Nothing {} [];
    JsonNothing {} [const CODEC: Codec = Codec::Json;];
    #[serde(transparent)] LoneOption { note: Option<String> } [const ARGUMENT: Option<&'static str> = Some("note");];
    #[serde(transparent)] LoneEmpty { style: Empty } [const ARGUMENT: Option<&'static str> = Some("style");];
    #[serde(transparent)] LoneStyle { style: Style } [const ARGUMENT: Option<&'static str> = Some("style");];
    #[serde(transparent)] LoneMap { labels: BTreeMap<String, u32> } [const ARGUMENT: Option<&'static str> = Some("labels");];
    TwoOptions { note: Option<String>, n: Option<u32> } [];
    JsonTwo { to: String, n: Option<u32> } [const CODEC: Codec = Codec::Json;];

    Deep {
        items: Vec<Item>, by_name: BTreeMap<String, Item>, pair: (u8, Option<Item>), state: State, tree: Tree,
        id: std::net::Ipv4Addr, token: Secret<String>, letter: char, rate: f32, big: u128,
        nothing: (), marker: PhantomData<Item>, sign: Sign, done: Result<(), String>
    } [];
    DeepNow {
        tree: TreeNow, state: StateNow, items: Vec<ItemNow>, by_name: BTreeMap<String, ItemNow>, big: u128,
        pair: (u16, Option<ItemNow>), id: std::net::Ipv4Addr, token: Secret<String>, letter: String, rate: f64,
        done: Result<(), String>, sign: Sign, marker: PhantomData<ItemNow>, nothing: ()
    } [];
}

#[derive(Debug, PartialEq, Clone, Serialize, Deserialize)]
struct Item {
    name: String,
    price: i32,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Sign;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Empty {}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Style {
    #[serde(default)]
    is_bold: bool,
}

#[derive(Debug, PartialEq, Clone, Serialize, Deserialize)]
struct ItemNow {
    #[serde(default)]
    currency: Option<String>,
    price: i64,
    name: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum State {
    New,
    Sent(String),
    Lost { at: u32, by: Option<String> },
    Both(u8, u8),
}

/// The variants in another order, with new ones, and with one renamed.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum StateNow {
    Later,
    Both(u8, u8),
    #[serde(alias = "Lost")]
    Missing {
        by: Option<String>,
        at: u64,
    },
    New,
    Sent(String),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Tree {
    name: String,
    children: Vec<Tree>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct TreeNow {
    children: Vec<TreeNow>,
    name: String,
    #[serde(default)]
    color: u8,
}

fn mail() -> Mail {
    Mail { to: "ann".into(), copies: 2 }
}

#[test]
fn serdes_rules_for_names_hold_for_payloads_without_names() {
    let to = || "ann".to_owned();
    assert_eq!(read(mail()), Ok(MoreOptions { to: to(), cc: None, copies: 2 }));
    assert_eq!(read(MoreOptions { to: to(), cc: Some("bob".into()), copies: 2 }), Ok(mail()), "and back");
    assert_eq!(read(mail()), Ok(WithDefault { urgent: false, to: to(), copies: 2 }));
    assert_eq!(read(mail()), Ok(Reordered { copies: 2, to: to() }));
    assert_eq!(read(mail()), Ok(Wider { to: to(), copies: 2 }));
    assert_eq!(read(mail()), Ok(Narrower { to: to(), copies: 2 }));
    assert_eq!(read(mail()), Ok(Signed { to: to(), copies: 2 }));
    assert_eq!(read(mail()), Ok(InFloats { to: to(), copies: 2.0 }));
    assert_eq!(read(mail()), Ok(Fewer { to: to() }));
    assert_eq!(read(mail()), Ok(Alias { recipient: to(), copies: 2 }));
    assert_eq!(read(Alias { recipient: to(), copies: 2 }), Ok(OtherName { recipient: to(), copies: 2 }));
    assert_eq!(read(mail()), Ok(Renamed { address: to(), copies: 2 }));
    assert_eq!(read(mail()), Ok(Optional { to: Some(to()), copies: Some(2) }));
    assert_eq!(read(Optional { to: Some(to()), copies: Some(2) }), Ok(mail()), "what is there is taken");
}

#[test]
fn the_error_of_arguments_that_do_not_fit_has_no_values() {
    let to = || "canary-7f3a".to_owned();
    assert!(reason::<Required>(mail()).contains("the field `from` is missing"), "{}", reason::<Required>(mail()));
    assert!(reason::<OtherName>(mail()).contains("the field `recipient` is missing"));
    let text = reason::<Narrower>(Mail { to: to(), copies: 300 });
    assert!(text.contains("invalid value: an integer, expected u8") && !text.contains("300"), "{text}");
    let text = reason::<Mail>(Optional { to: None, copies: Some(2) });
    assert!(text.contains("expected a string"), "{text}");
    let text = reason::<Mail>(InFloats { to: to(), copies: 2.5 });
    assert!(text.contains("a floating point number, expected u32") && !text.contains("2.5"), "{text}");
    let text = reason::<Numbers>(Mail { to: to(), copies: 2 });
    assert!(text.contains("invalid type: a string, expected u32") && !text.contains("canary"), "{text}");
}

#[test]
fn nested_types_follow_the_same_rules() {
    let item = Item { name: "pen".into(), price: -3 };
    let now = || ItemNow { currency: None, price: -3, name: "pen".into() };
    for (state, expected) in [
        (State::New, StateNow::New),
        (State::Sent("x".into()), StateNow::Sent("x".into())),
        (State::Lost { at: 7, by: Some("y".into()) }, StateNow::Missing { by: Some("y".into()), at: 7 }),
        (State::Both(1, 2), StateNow::Both(1, 2)),
    ] {
        let tree = Tree { name: "a".into(), children: vec![Tree { name: "b".into(), children: vec![] }] };
        let old = Deep {
            items: vec![item.clone(), item.clone()],
            by_name: [("pen".to_owned(), item.clone())].into(),
            pair: (200, Some(item.clone())),
            state,
            tree,
            id: [127, 0, 0, 1].into(),
            token: "t0k3n".to_owned().into(),
            letter: 'ä',
            rate: 0.1,
            big: u128::MAX,
            nothing: (),
            marker: PhantomData,
            sign: Sign,
            done: Ok(()),
        };
        let leaf = TreeNow { children: vec![], name: "b".into(), color: 0 };
        assert_eq!(
            read(old),
            Ok(DeepNow {
                tree: TreeNow { children: vec![leaf], name: "a".into(), color: 0 },
                state: expected,
                items: vec![now(), now()],
                by_name: [("pen".to_owned(), now())].into(),
                big: u128::MAX,
                pair: (200, Some(now())),
                id: [127, 0, 0, 1].into(),
                token: "t0k3n".to_owned().into(),
                letter: "ä".into(),
                rate: f64::from(0.1_f32),
                done: Ok(()),
                sign: Sign,
                marker: PhantomData,
                nothing: (),
            })
        );
    }
}

#[test]
fn a_lone_argument_becomes_a_named_one_and_back() {
    let to = || "ann".to_owned();
    assert_eq!(read(Lone { to: to() }), Ok(Two { to: to(), n: None }));
    assert_eq!(read(Two { to: to(), n: Some(3) }), Ok(Lone { to: to() }));
    assert_eq!(read(JsonLone { to: to() }), Ok(JsonTwo { to: to(), n: None }));
    assert_eq!(read(JsonTwo { to: to(), n: Some(3) }), Ok(JsonLone { to: to() }));
    // The name of a lone argument is not part of a payload.
    assert_eq!(read(Lone { to: to() }), Ok(LoneOther { recipient: to() }));
    // Another name is another argument: a program cannot know whether both mean the same.
    let text = reason::<Mail>(LoneOther { recipient: to() });
    assert!(text.contains("its only argument `recipient`"), "{text}");
    assert!(reason::<LoneOther>(mail()).contains("it has no argument `recipient`"));
    // Without a kept shape the name is not known.
    let (payload, _) = left(JsonLone { to: to() });
    assert!(matches!(resolve::<JsonTwo>(&payload, None), Err(PayloadError::Unfit { .. })));
}

#[test]
fn a_lone_argument_is_found_among_others_by_its_aliases() {
    let to = || "ann".to_owned();
    assert_eq!(read(mail()), Ok(LoneAlias { recipient: to() }));
    assert_eq!(read(JsonTwo { to: to(), n: None }), Ok(JsonLoneAlias { recipient: to() }));
    // Its own name comes first.
    assert_eq!(read(OtherName { recipient: to(), copies: 2 }), Ok(LoneAlias { recipient: to() }));
}

#[test]
fn a_lone_argument_is_found_by_an_older_program_under_its_aliases() {
    let to = || "ann".to_owned();
    assert_eq!(read(LoneAlias { recipient: to() }), Ok(Two { to: to(), n: None }));
    assert_eq!(read(JsonLoneAlias { recipient: to() }), Ok(JsonTwo { to: to(), n: None }));
}

#[test]
fn a_lone_secret_is_hidden_in_older_tasks_that_have_it_under_an_alias() {
    let (payload, lookup) = left(mail());
    let today = Fingerprint::of::<LoneSecretAlias>();
    let shown = show(&lookup.unwrap(), Some(&*today), &payload);
    assert_eq!(shown, Ok(serde_json::json!({ "to": HIDDEN, "copies": 2 })));
}

#[test]
fn a_job_without_arguments_gets_some_although_its_shape_is_not_kept() {
    for payload in [left(Nothing {}).0, left(JsonNothing {}).0] {
        assert_eq!(resolve(&payload, None), Ok(LoneOption { note: None }));
        assert_eq!(resolve(&payload, None), Ok(TwoOptions { note: None, n: None }));
        let error = resolve::<Lone>(&payload, None).expect_err("mandatory");
        assert!(error.is_of_another_version(), "{error}");
    }
    assert!(reason::<Lone>(Nothing {}).contains("it has no argument `to`, which is not optional"));
    // An argument that was there may have had another name.
    assert!(reason::<LoneOption>(mail()).contains("it has no argument `note`"));
    let (payload, _) = left(JsonMail { to: "ann".into(), copies: 2, urgent: false });
    assert!(matches!(resolve::<LoneOption>(&payload, None), Err(PayloadError::Unfit { .. })));
    // The fingerprint of nothing with something after it is not a payload of such a job.
    let (payload, _) = left(Nothing {});
    assert!(resolve::<LoneOption>(&[&payload[..], b"x"].concat(), None).is_err());
}

#[test]
fn a_map_that_is_the_first_argument_is_empty_in_earlier_tasks() {
    assert_eq!(resolve(&left(Nothing {}).0, None), Ok(LoneMap { labels: BTreeMap::new() }));
}

#[test]
fn the_empty_struct_that_is_the_only_argument_gets_a_field() {
    let (payload, lookup) = left(LoneEmpty { style: Empty {} });
    assert_eq!(resolve(&payload, None), Ok(LoneStyle { style: Style { is_bold: false } }));
    assert_eq!(resolve(&payload, Some(&lookup)), Ok(LoneStyle { style: Style { is_bold: false } }));
}

#[test]
fn the_codec_may_change() {
    let to = || "ann".to_owned();
    assert_eq!(read(mail()), Ok(JsonMail { to: to(), copies: 2, urgent: false }));
    assert_eq!(read(JsonMail { to: to(), copies: 2, urgent: true }), Ok(mail()));
    assert_eq!(read(Lone { to: to() }), Ok(JsonTwo { to: to(), n: None }));
    assert_eq!(read(JsonLone { to: to() }), Ok(Two { to: to(), n: None }));
    assert_eq!(read(Lone { to: to() }), Ok(JsonLone { to: to() }));
    assert_eq!(read(JsonLone { to: to() }), Ok(Lone { to: to() }));
}

#[derive(Deserialize)]
struct Euros {
    euros: u32,
}

fn of_euros(old: Euros) -> Invoice {
    Invoice { cents: u64::from(old.euros) * 100 }
}

fn of_text(old: String) -> Invoice {
    Invoice { cents: old.len() as u64 }
}

const UPGRADES: &[Upgrade<Invoice>] =
    &[Upgrade::new(|earlier| earlier.through(of_text)), Upgrade::new(|earlier| earlier.through(of_euros))];

jobs! {
    InEuros { euros: u32 } [];
    InEurosNamed { euros: u32, customer: Option<String> } [];
    JsonInEuros { euros: u32 } [const CODEC: Codec = Codec::Json;];
    ByHandInEuros { euros: u32 } [const FINGERPRINT: Option<&'static str> = Some("v1");];
    InDollars { dollars: u32 } [];
    Invoice { cents: u64 } [const UPGRADES: &'static [Upgrade<Self>] = UPGRADES;];
}

#[test]
fn an_upgrade_takes_the_arguments_that_serde_cannot() {
    let invoice = || Ok(Invoice { cents: 700 });
    assert_eq!(read(InEuros { euros: 7 }), invoice());
    assert_eq!(read(JsonInEuros { euros: 7 }), invoice());
    assert_eq!(read(InEurosNamed { euros: 7, customer: None }), invoice(), "what becomes its input by serde's rules");
    assert_eq!(read(Lone { to: "seven..".into() }), Ok(Invoice { cents: 7 }));
    // The fingerprint is enough if it is computed from the shape.
    let (payload, _) = left(InEuros { euros: 7 });
    assert_eq!(resolve::<Invoice>(&payload, None), invoice());
    // Only the kept shape tells the shape behind a fingerprint by hand.
    let (payload, lookup) = left(ByHandInEuros { euros: 7 });
    assert!(resolve::<Invoice>(&payload, None).is_err());
    assert_eq!(resolve::<Invoice>(&payload, Some(&lookup)), invoice());
    assert!(reason::<Invoice>(InDollars { dollars: 7 }).contains("`cents` is missing"));
}

#[derive(Deserialize)]
struct WithoutPriority {
    to: String,
}

fn of_no_priority(old: WithoutPriority) -> Urgent {
    Urgent { to: old.to, priority: Below(9) }
}

const OF_NO_PRIORITY: &[Upgrade<Urgent>] = &[Upgrade::new(|earlier| earlier.through(of_no_priority))];

jobs! {
    Urgent { to: String, priority: Below<10> } [const UPGRADES: &'static [Upgrade<Self>] = OF_NO_PRIORITY;];
    MoreUrgent { to: String, priority: Below<20> } [];
}

#[test]
fn an_upgrade_from_a_part_of_todays_shape_is_not_asked_for_a_value_that_is_refused() {
    assert_eq!(read(Fewer { to: "ann".into() }), Ok(Urgent { to: "ann".into(), priority: Below(9) }));
    assert_eq!(
        read(MoreUrgent { to: "ann".into(), priority: Below(7) }),
        Ok(Urgent { to: "ann".into(), priority: Below(7) })
    );
    let error = read::<Urgent>(MoreUrgent { to: "ann".into(), priority: Below(15) }).expect_err("it waits");
    assert!(matches!(error, PayloadError::Unfit { .. }), "{error}");
}

#[test]
fn a_payload_that_does_not_have_its_shape_is_an_error() {
    let (payload, lookup) = left(Mail { to: "ann".into(), copies: 2 });
    for wrong in [&payload[..payload.len() - 1], &[&payload[..], b"x"].concat(), &[&payload[..5], &[0xff; 30]].concat()]
    {
        let error = resolve::<MoreOptions>(wrong, Some(&lookup)).expect_err("not of its shape");
        assert!(matches!(&error, PayloadError::Unresolved { .. }), "{error}");
    }
    let malformed = ShapeDocument::from_bytes(b"{\"v\":1,\"root\":{\"type\":9}}");
    let text = resolve::<MoreOptions>(&payload, Some(&malformed)).expect_err("lacks its type").to_string();
    assert!(text.contains("malformed"), "{text}");
    let newer = ShapeDocument::from_bytes(b"{\"v\":2}");
    let text = resolve::<MoreOptions>(&payload, Some(&newer)).expect_err("newer").to_string();
    assert!(text.contains("of version 2"), "{text}");
    let text = resolve::<MoreOptions>(&payload, None).expect_err("not kept").to_string();
    assert!(text.contains("run a version that knows the old shape"), "{text}");
}

#[test]
fn a_lone_argument_is_found_by_each_of_its_names() {
    let (payload, before) = left(LoneOther { recipient: "ann".into() });
    let (_, last) = left(Lone { to: "ann".into() });
    let joined = |one: &ShapeLookup, other: &ShapeLookup| {
        one.as_ref().unwrap().joined(other.as_ref().unwrap()).ok_or_else(String::new)
    };
    for lookup in [joined(&before, &last), joined(&last, &before)] {
        assert_eq!(resolve(&payload, Some(&lookup)), Ok(Two { to: "ann".into(), n: None }));
    }
}
