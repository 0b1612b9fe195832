//! The changes that developers make to a job, in both codecs, forward and rolled back.

use std::fmt::Write as _;

use asynq_runtime::{JobDescriptor, PreparedTask, prelude::*};
use asynq_tests::{Fixture, RedisCluster, RedisStore, SqliteStore, Store, StoreOn};
use serde::Deserialize;

use crate::{
    arguments::*,
    stage::{self, Became, Log},
};

/// A version of a job.
pub(crate) struct Version {
    task: fn() -> PreparedTask,
    pub(crate) job: JobDescriptor,
}

pub(crate) struct Change {
    pub(crate) name: &'static str,
    pub(crate) codec: &'static str,
    pub(crate) before: Version,
    pub(crate) after: Version,
    /// The arguments with which the new program runs the old task; `None` where the task must wait.
    pub(crate) forward: Option<&'static str>,
    /// The arguments with which the old program runs the new task; `None` where the task must wait.
    rollback: Option<&'static str>,
}

/// Each change has two jobs, `$postcard` and `$json`, in two versions. The arguments stand with the values that are
/// enqueued, and a run is shown as a tuple of its arguments; `of_json` is for JSON where the result differs, as it has no shape.
macro_rules! changes {
    ($($name:literal $postcard:ident $json:ident
        before [$($old_option:tt)*] ($($(#[$old_meta:meta])* $old:ident: $old_type:ty = $old_value:expr),* $(,)?)
        after [$($new_option:tt)*] ($($(#[$new_meta:meta])* $new:ident: $new_type:ty = $new_value:expr),* $(,)?)
        forward $forward:expr $(, of_json $json_forward:expr)?, rollback $rollback:expr $(, of_json $json_rollback:expr)?;
    )*) => {
        $(mod $postcard {
            pub(crate) mod before {
                use super::super::*;
                changes!(@job $postcard "postcard" [$($old_option)*] ($($(#[$old_meta])* $old: $old_type),*));
                changes!(@job $json "json" [$($old_option)*] ($($(#[$old_meta])* $old: $old_type),*));
            }
            pub(crate) mod after {
                use super::super::*;
                changes!(@job $postcard "postcard" [$($new_option)*] ($($(#[$new_meta])* $new: $new_type),*));
                changes!(@job $json "json" [$($new_option)*] ($($(#[$new_meta])* $new: $new_type),*));
            }
        })*

        fn changes() -> Vec<Change> {
            vec![$(
                changes!(@change $name, "postcard" $postcard $postcard ($($old = $old_value),*) ($($new = $new_value),*) $forward, $rollback),
                changes!(@change $name, "json" $postcard $json ($($old = $old_value),*) ($($new = $new_value),*)
                    changes!(@last $forward $(, $json_forward)?), changes!(@last $rollback $(, $json_rollback)?)),
            )*]
        }
    };
    (@last $one:expr) => { $one };
    (@last $of_postcard:expr, $of_json:expr) => { $of_json };
    (@job $name:ident $codec:literal [$($option:tt)*] ($($(#[$meta:meta])* $argument:ident: $type:ty),*)) => {
        #[job(codec = $codec, $($option)*)]
        pub(crate) async fn $name(ctx: &JobContext, log: State<Log>, $($(#[$meta])* $argument: $type),*) -> JobResult {
            log.lock().unwrap().insert(ctx.id().to_string(), format!("{:?}", ($($argument,)*)));
            Ok(())
        }
    };
    (@change $name:expr, $codec:literal $module:ident $job:ident
        ($($old:ident = $old_value:expr),*) ($($new:ident = $new_value:expr),*) $forward:expr, $rollback:expr
    ) => {
        Change {
            name: $name,
            codec: $codec,
            before: Version {
                task: || $module::before::$job { $($old: $old_value),* }.into(),
                job: JobDescriptor::of::<$module::before::$job>(file!(), line!()),
            },
            after: Version {
                task: || $module::after::$job { $($new: $new_value),* }.into(),
                job: JobDescriptor::of::<$module::after::$job>(file!(), line!()),
            },
            forward: $forward,
            rollback: $rollback,
        }
    };
}

#[derive(Debug, Deserialize)]
struct InvoiceV1 {
    euros: u32,
    #[expect(dead_code, reason = "it is part of the old shape")]
    customer: String,
}

fn from_v1(old: InvoiceV1) -> upgrade::after::upgrade {
    upgrade::after::upgrade { cents: u64::from(old.euros) * 100 }
}

changes! {
    "an Option is added at the end" add_option add_option_json
        before [] (to: String = ann(), n: u32 = 1)
        after [] (to: String = ann(), n: u32 = 1, note: Option<String> = Some("x".into()))
        forward Some(r#"("ann", 1, None)"#), rollback Some(r#"("ann", 1)"#);
    "an Option is added in front" add_in_front add_in_front_json
        before [] (to: String = ann(), n: u32 = 1)
        after [] (note: Option<String> = None, to: String = ann(), n: u32 = 1)
        forward Some(r#"(None, "ann", 1)"#), rollback Some(r#"("ann", 1)"#);
    "an argument with a default is added" add_default add_default_json
        before [] (to: String = ann(), n: u32 = 1)
        after [] (to: String = ann(), #[serde(default)] urgent: bool = true, n: u32 = 1)
        forward Some(r#"("ann", false, 1)"#), rollback Some(r#"("ann", 1)"#);
    "an argument without a default is added" add_required add_required_json
        before [] (to: String = ann(), n: u32 = 1)
        after [] (to: String = ann(), n: u32 = 1, from: String = "bob".into())
        forward None, rollback Some(r#"("ann", 1)"#);
    "an argument is removed" remove remove_json
        before [] (to: String = ann(), n: u32 = 1, from: String = "bob".into())
        after [] (to: String = ann(), n: u32 = 1)
        forward Some(r#"("ann", 1)"#), rollback None;
    "arguments change places" reorder reorder_json
        before [] (to: String = ann(), n: u32 = 1, m: u32 = 2)
        after [] (m: u32 = 2, n: u32 = 1, to: String = ann())
        forward Some(r#"(2, 1, "ann")"#), rollback Some(r#"("ann", 1, 2)"#);
    "an argument is renamed" rename rename_json
        before [] (to: String = ann(), n: u32 = 1)
        after [] (recipient: String = ann(), n: u32 = 1)
        forward None, rollback None;
    "an argument is renamed, with an alias" alias alias_json
        before [] (to: String = ann(), n: u32 = 1)
        after [] (#[serde(alias = "to")] recipient: String = ann(), n: u32 = 1)
        forward Some(r#"("ann", 1)"#), rollback Some(r#"("ann", 1)"#), of_json None;
    "an argument is renamed in the code alone" keep_name keep_name_json
        before [] (to: String = ann(), n: u32 = 1)
        after [] (#[serde(rename = "to")] recipient: String = ann(), n: u32 = 1)
        forward Some(r#"("ann", 1)"#), rollback Some(r#"("ann", 1)"#);
    "an integer becomes wider" widen widen_json
        before [] (to: String = ann(), n: u32 = 1)
        after [] (to: String = ann(), n: u64 = 1)
        forward Some(r#"("ann", 1)"#), rollback Some(r#"("ann", 1)"#);
    "an integer becomes narrower than its value" narrow narrow_json
        before [] (to: String = ann(), n: u32 = 300)
        after [] (to: String = ann(), n: u8 = 30)
        forward None, rollback Some(r#"("ann", 30)"#);
    "an integer gets a sign" sign sign_json
        before [] (to: String = ann(), n: u32 = 1)
        after [] (to: String = ann(), n: i64 = -1)
        forward Some(r#"("ann", 1)"#), rollback None;
    "an integer becomes a fraction" float float_json
        before [] (to: String = ann(), n: u32 = 1)
        after [] (to: String = ann(), n: f64 = 1.5)
        forward Some(r#"("ann", 1.0)"#), rollback None;
    "an argument becomes optional" optional optional_json
        before [] (to: String = ann(), n: u32 = 1)
        after [] (to: String = ann(), n: Option<u32> = None)
        forward Some(r#"("ann", Some(1))"#), rollback None;
    "an optional argument becomes mandatory" mandatory mandatory_json
        before [] (to: String = ann(), n: Option<u32> = Some(1))
        after [] (to: String = ann(), n: u32 = 2)
        forward Some(r#"("ann", 1)"#), rollback Some(r#"("ann", Some(2))"#);
    "one argument becomes two" second second_json
        before [] (to: String = ann())
        after [] (to: String = ann(), n: Option<u32> = Some(1))
        forward Some(r#"("ann", None)"#), rollback Some(r#"("ann",)"#);
    "one optional argument becomes two" second_of_option second_of_option_json
        before [] (note: Option<String> = None)
        after [] (note: Option<String> = None, n: Option<u32> = Some(1))
        forward Some("(None, None)"), rollback Some("(None,)");
    "one struct becomes two arguments" second_of_struct second_of_struct_json
        before [] (item: Item = item())
        after [] (item: Item = item(), #[serde(default)] n: u32 = 1)
        forward Some(r#"(Item { name: "pen", price: 3 }, 0)"#), rollback Some(r#"(Item { name: "pen", price: 3 },)"#);
    "a job without arguments gets an Option" first_option first_option_json
        before [] ()
        after [] (note: Option<String> = Some("x".into()))
        forward Some("(None,)"), rollback Some("()");
    "a job without arguments gets two Options" first_two first_two_json
        before [] ()
        after [] (a: Option<u8> = Some(1), b: Option<u8> = None)
        forward Some("(None, None)"), rollback Some("()");
    "a job without arguments gets a mandatory one" first_required first_required_json
        before [] ()
        after [] (n: u32 = 1)
        forward None, rollback Some("()");
    "one argument with a name of its own becomes two" second_of_renamed second_of_renamed_json
        before [] (#[serde(rename = "to")] recipient: String = ann())
        after [] (#[serde(rename = "to")] recipient: String = ann(), n: Option<u32> = Some(1))
        forward Some(r#"("ann", None)"#), rollback Some(r#"("ann",)"#);
    "two arguments become one with a name of its own" first_of_renamed first_of_renamed_json
        before [] (#[serde(rename = "to")] recipient: String = ann(), n: Option<u32> = Some(1))
        after [] (#[serde(rename = "to")] recipient: String = ann())
        forward Some(r#"("ann",)"#), rollback Some(r#"("ann", None)"#);
    "two arguments become one of another name, with an alias" first_of_alias first_of_alias_json
        before [] (to: String = ann(), n: Option<u32> = Some(1))
        after [] (#[serde(alias = "to")] recipient: String = ann())
        forward Some(r#"("ann",)"#), rollback Some(r#"("ann", None)"#);
    "two arguments become one of another name" first_renamed first_renamed_json
        before [] (to: String = ann(), n: Option<u32> = Some(1))
        after [] (recipient: String = ann())
        forward None, rollback None;
    "one argument becomes two of its type" either_renamed either_renamed_json
        before [] (to: String = ann())
        after [] (from: String = ann(), recipient: String = ann())
        forward None, rollback None;
    "the only argument is renamed" rename_only rename_only_json
        before [] (to: String = ann())
        after [] (recipient: String = ann())
        forward Some(r#"("ann",)"#), rollback Some(r#"("ann",)"#);
    "one argument becomes two of other names" second_renamed second_renamed_json
        before [] (to: String = ann())
        after [] (recipient: String = ann(), n: Option<u32> = None)
        forward None, rollback None;
    "a text becomes a number" kind kind_json
        before [] (to: String = ann(), n: u32 = 1)
        after [] (to: u64 = 7, n: u32 = 1)
        forward None, rollback None;
    "a nested struct gets an Option" nested nested_json
        before [] (items: Vec<Item> = vec![item(), item()], n: u32 = 1)
        after [] (items: Vec<ItemWithNote> = vec![item_with_note()], n: u32 = 1)
        forward Some(r#"([ItemWithNote { note: None, name: "pen", price: 3 }, ItemWithNote { note: None, name: "pen", price: 3 }], 1)"#),
        rollback Some(r#"([Item { name: "pen", price: 3 }], 1)"#);
    "a nested field is renamed with an alias and widened" nested_alias nested_alias_json
        before [] (item: Option<Item> = Some(item()), n: u32 = 1)
        after [] (item: Option<ItemInEuros> = Some(ItemInEuros { name: "pen".into(), euros: 3 }), n: u32 = 1)
        forward Some(r#"(Some(ItemInEuros { name: "pen", euros: 3 }), 1)"#),
        rollback Some(r#"(Some(Item { name: "pen", price: 3 }), 1)"#), of_json None;
    "variants change places" variants variants_json
        before [] (state: State2 = State2::Paid(7), n: u32 = 1)
        after [] (state: StateReordered = StateReordered::Sent { to: ann() }, n: u32 = 1)
        forward Some("(Paid(7), 1)"), rollback Some(r#"(Sent { to: "ann" }, 1)"#);
    "a variant is added, and fields of variants" more_variants more_variants_json
        before [] (state: State2 = State2::Sent { to: ann() }, n: u32 = 1)
        after [] (state: StateWithMore = StateWithMore::Cancelled, n: u32 = 1)
        forward Some(r#"(Sent { to: "ann", by: None }, 1)"#), rollback None;
    "a variant is renamed, with an alias" rename_variant rename_variant_json
        before [] (state: State2 = State2::Paid(7), n: u32 = 1)
        after [] (state: StateRenamed = StateRenamed::Settled(7), n: u32 = 1)
        forward Some("(Settled(7), 1)"), rollback None;
    "an argument beside an enum whose variants have aliases" beside_aliases beside_aliases_json
        before [] (state: StateRenamed = StateRenamed::Settled(7), n: u32 = 1)
        after [] (state: StateRenamed = StateRenamed::Settled(7), n: u32 = 1, note: Option<String> = None)
        forward None, of_json Some("(Settled(7), 1, None)"), rollback None, of_json Some("(Settled(7), 1)");
    "a unit variant is renamed behind a number" rename_unit_behind rename_unit_behind_json
        before [] (n: u32 = 1, state: Delivery = Delivery::Cancelled)
        after [] (n: u32 = 1, state: DeliveryRenamed = DeliveryRenamed::Cancelled)
        forward Some("(1, Cancelled)"), rollback None, of_json Some("(1, Cancelled)");
    "a newtype variant is renamed behind a number" rename_newtype_behind rename_newtype_behind_json
        before [] (n: u32 = 1, state: Money = Money::Lost(7))
        after [] (n: u32 = 1, state: MoneyRenamed = MoneyRenamed::Lost(7))
        forward Some("(1, Lost(7))"), rollback None, of_json Some("(1, Lost(7))");
    "an argument behind an enum of unit variants with aliases" behind_unit_aliases behind_unit_aliases_json
        before [] (n: u32 = 1, state: DeliveryRenamed = DeliveryRenamed::Cancelled)
        after [] (n: u32 = 1, state: DeliveryRenamed = DeliveryRenamed::Cancelled, note: Option<String> = None)
        forward None, of_json Some("(1, Cancelled, None)"), rollback None, of_json Some("(1, Cancelled)");
    "an argument behind an enum of newtype variants with aliases" behind_newtype_aliases behind_newtype_aliases_json
        before [] (n: u32 = 1, state: MoneyRenamed = MoneyRenamed::Lost(7))
        after [] (n: u32 = 1, state: MoneyRenamed = MoneyRenamed::Lost(7), note: Option<String> = None)
        forward None, of_json Some("(1, Lost(7), None)"), rollback None, of_json Some("(1, Lost(7))");
    "a newtype is put around" newtype newtype_json
        before [] (to: String = ann(), n: u32 = 1)
        after [] (to: Address = Address(ann()), n: u32 = 1)
        forward Some(r#"(Address("ann"), 1)"#), rollback Some(r#"("ann", 1)"#);
}

/// Changes of the job itself, with types that the table above cannot express.
mod upgrade {
    pub(crate) mod before {
        use super::super::*;
        changes!(@job upgrade "postcard" [name = "invoice"] (euros: u32, customer: String));
        changes!(@job upgrade_json "json" [name = "invoice_json"] (euros: u32, customer: String));
    }
    pub(crate) mod after {
        use super::super::*;
        changes!(@job upgrade "postcard" [name = "invoice", upgrade = from_v1] (cents: u64));
        changes!(@job upgrade_json "json" [name = "invoice_json", upgrade = [from_v1_json]] (cents: u64));

        fn from_v1_json(old: InvoiceV1) -> upgrade_json {
            upgrade_json { cents: from_v1(old).cents }
        }
    }
}

mod renamed_job {
    pub(crate) mod before {
        use super::super::*;
        changes!(@job renamed_job "postcard" [name = "send_mail"] (to: String, n: u32));
        changes!(@job renamed_job_json "json" [name = "send_mail_json"] (to: String, n: u32));
    }
    pub(crate) mod after {
        use super::super::*;
        changes!(@job renamed_job "postcard" [alias = "send_mail"] (to: String, n: u64, note: Option<String>));
        changes!(@job renamed_job_json "json" [alias = ["send_mail_json", "older"]] (to: String, n: u64, note: Option<String>));
    }
}

/// The name of the function is part of a fingerprint that is known in part.
mod renamed_function {
    pub(crate) mod before {
        use super::super::*;
        changes!(@job send_order "postcard" [] (order: OrderId, n: u32));
        changes!(@job send_order_json "json" [] (order: OrderId, n: u32));
    }
    pub(crate) mod after {
        use super::super::*;
        changes!(@job deliver "postcard" [alias = "send_order"] (order: OrderId, n: u32));
        changes!(@job deliver_json "json" [alias = "send_order_json"] (order: OrderId, n: u32));
        pub(crate) use {deliver as send_order, deliver_json as send_order_json};
    }
}

mod codec {
    pub(crate) mod before {
        use super::super::*;
        changes!(@job codec "postcard" [] (to: String, n: u32));
        changes!(@job codec_json "json" [] (to: String, n: u32));
    }
    pub(crate) mod after {
        use super::super::*;
        changes!(@job codec "json" [] (to: String, n: u64, note: Option<String>));
        changes!(@job codec_json "postcard" [] (to: String, n: u64, note: Option<String>));
    }
}

fn changes_of_jobs() -> Vec<Change> {
    const UPGRADE: &str = "an upgrade is written";
    const RENAMED: &str = "the job is renamed, with an alias";
    const CHECKED: &str = "a job that is partly checked is renamed";
    const CODEC: &str = "the codec becomes the other one";
    vec![
        changes!(@change UPGRADE, "postcard" upgrade upgrade
            (euros = 7, customer = ann()) (cents = 700) Some("(700,)"), None),
        changes!(@change UPGRADE, "json" upgrade upgrade_json
            (euros = 7, customer = ann()) (cents = 700) Some("(700,)"), None),
        changes!(@change RENAMED, "postcard" renamed_job renamed_job
            (to = ann(), n = 1) (to = ann(), n = 1, note = None) Some(r#"("ann", 1, None)"#), None),
        changes!(@change RENAMED, "json" renamed_job renamed_job_json
            (to = ann(), n = 1) (to = ann(), n = 1, note = None) Some(r#"("ann", 1, None)"#), None),
        changes!(@change CHECKED, "postcard" renamed_function send_order
            (order = order_id(), n = 1) (order = order_id(), n = 1) Some(r#"(OrderId("order-7"), 1)"#), None),
        changes!(@change CHECKED, "json" renamed_function send_order_json
            (order = order_id(), n = 1) (order = order_id(), n = 1) Some(r#"(OrderId("order-7"), 1)"#), None),
        changes!(@change CODEC, "postcard" codec codec
            (to = ann(), n = 1) (to = ann(), n = 1, note = None) Some(r#"("ann", 1, None)"#), Some(r#"("ann", 1)"#)),
        changes!(@change CODEC, "json" codec codec_json
            (to = ann(), n = 1) (to = ann(), n = 1, note = None) Some(r#"("ann", 1, None)"#), Some(r#"("ann", 1)"#)),
    ]
}

/// Every change, once for each codec.
pub(crate) fn all() -> Vec<Change> {
    changes().into_iter().chain(changes_of_jobs()).collect()
}

/// Runs all changes in one direction: a server of one version runs the tasks of the other.
async fn play<S: Store>(changes: &[Change], forward: bool, table: &mut String) -> usize {
    let t = Fixture::<S>::real_time().await;
    let ids: Vec<String> = (0..changes.len()).map(|i| format!("t{i}")).collect();
    let (mut tasks, mut jobs) = (Vec::new(), Vec::new());
    for (id, change) in ids.iter().zip(changes) {
        let (old, new) = if forward { (&change.before, &change.after) } else { (&change.after, &change.before) };
        tasks.push((id.clone(), (old.task)()));
        jobs.push(new.job);
    }
    stage::enqueue(t.another_broker().await, tasks).await;
    let log = stage::run(t.another_broker().await, jobs, &ids).await;
    let mut wrong = 0;
    let direction = if forward { "forward" } else { "rollback" };
    for (id, change) in ids.iter().zip(changes) {
        let expected = if forward { change.forward } else { change.rollback };
        let became = stage::became(t.broker(), &log, id).await;
        let is_right = match (&became, expected) {
            (Became::Ran(arguments), Some(expected)) => arguments == expected,
            (Became::Waits(why), None) => !why.is_empty(),
            _ => false,
        };
        wrong += usize::from(!is_right);
        let mark = if is_right { "" } else { "  <-- WRONG" };
        let became = match became {
            Became::Ran(arguments) => format!("ran{arguments}"),
            Became::Waits(why) => format!("waits: {why}"),
            Became::Lost(how) => format!("LOST: {how}"),
        };
        let Change { name, codec, .. } = change;
        let _ = writeln!(table, "{:7} {direction:8} {codec:8} {name:46} {became}{mark}", S::KIND);
    }
    wrong
}

async fn every_change_runs_or_waits_on<S: Store>() {
    let changes = all();
    let mut table = String::new();
    let mut wrong = play::<S>(&changes, true, &mut table).await;
    wrong += play::<S>(&changes, false, &mut table).await;
    println!("{table}{}: {} changes, forward and rolled back: {wrong} wrong", S::KIND, changes.len());
    assert!(changes.len() >= 70 && wrong == 0, "{table}");
}

#[tokio::test]
async fn every_change_runs_or_waits_on_redis() {
    every_change_runs_or_waits_on::<RedisStore>().await;
}

#[tokio::test]
async fn every_change_runs_or_waits_on_a_cluster() {
    every_change_runs_or_waits_on::<StoreOn<RedisCluster>>().await;
}

#[tokio::test]
async fn every_change_runs_or_waits_on_sqlite() {
    every_change_runs_or_waits_on::<SqliteStore>().await;
}
