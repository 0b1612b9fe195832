//! Edits of payloads, typed and raw, with the unique locks that belong to them.

use std::time::Duration;

use asynq_runtime::{
    Bytes, Inspector, TaskId,
    broker::NewShape,
    inspector::{InspectError, TaskChange},
    prelude::*,
};
use asynq_tests::task;
use tokio::runtime::Handle;

use super::Fixture;

/// A job that is unique by one of its arguments.
#[job(name = "edit:mail", codec = "json", unique = "1h", unique_by = "to")]
async fn mail(to: String, subject: String) -> JobResult {
    let _ = (to, subject);
    Ok(())
}

/// A job that is unique by all of its arguments, in our own codec.
#[job(name = "edit:double", unique = "1h")]
async fn double(n: u64) -> JobResult {
    let _ = n;
    Ok(())
}

/// A job whose arguments only JSON can carry.
#[job(name = "edit:loose")]
async fn loose(value: serde_json::Value, n: Option<u32>) -> JobResult {
    let _ = (value, n);
    Ok(())
}

/// A job with arguments for which JSON may have null.
#[job(name = "edit:nulls")]
async fn nulls(n: u32, note: Option<Option<u32>>, celsius: Option<f64>) -> JobResult {
    let _ = (n, note, celsius);
    Ok(())
}

async fn world() -> (Fixture, Client, Inspector) {
    let t = Fixture::start().await;
    let client = Client::new(t.shared());
    let inspector = client.inspector();
    (t, client, inspector)
}

/// The task whose lock refuses an equal one.
async fn holder(client: &Client, to: &str) -> Option<String> {
    let later = mail::job(to, "probe").process_in("9h").task_id(format!("probe-{to}"));
    match later.enqueue(client).await {
        Ok(_) => None,
        Err(error) => Some(error.existing_id().unwrap().to_string()),
    }
}

#[tokio::test]
async fn arguments_are_changed_with_their_type() {
    let (_t, client, inspector) = world().await;
    let task = double::enqueue(&client, 21).await.unwrap();
    inspector.edit::<double>("default", &task.id, |job| job.n = 42).await.unwrap();
    let same = double::enqueue(&client, 42).await.unwrap_err();
    assert_eq!(same.existing_id(), Some(&task.id), "the lock of the new arguments is held");
    double::enqueue(&client, 21).await.unwrap();

    let seen = inspector.task("default", &task.id).await.unwrap();
    assert_eq!(inspector.arguments::<double>(&seen).await.unwrap().n, 42);
    inspector.edit::<double>("default", &task.id, |job| assert_eq!(job.n, 42)).await.unwrap();
    assert_eq!(inspector.task("default", &task.id).await.unwrap(), seen, "an edit without a change leaves no trace");
}

#[tokio::test]
async fn the_lock_goes_with_the_argument_that_it_was_made_of() {
    let (_t, client, inspector) = world().await;
    let task = mail::job("ann", "Hi").task_id("t1").enqueue(&client).await.unwrap();
    inspector.edit::<mail>("default", &task.id, |job| job.subject = "Hello".into()).await.unwrap();
    assert_eq!(holder(&client, "ann").await.as_deref(), Some("t1"), "the other argument does not matter");
    inspector.edit::<mail>("default", &task.id, |job| job.to = "bob".into()).await.unwrap();
    assert_eq!(holder(&client, "bob").await.as_deref(), Some("t1"));
    assert_eq!(holder(&client, "ann").await, None, "the old one is free");
    let seen = inspector.task("default", &task.id).await.unwrap();
    assert_eq!(seen.payload, r#"{"to":"bob","subject":"Hello"}"#);
}

#[tokio::test]
async fn an_edit_by_the_descriptor_of_a_job_moves_its_lock_and_checks_what_can_be_encoded() {
    let (_t, client, inspector) = world().await;
    let task = mail::job("ann", "Hi").task_id("t1").enqueue(&client).await.unwrap();
    let registry = Registry::only::<(mail, loose, double)>().unwrap();
    let job = registry.get("edit:mail").unwrap();
    let new = job.prepare(&serde_json::json!({ "to": "bob", "subject": "Hi" })).unwrap();
    inspector.edit_prepared("default", &task.id, job, &new).await.unwrap();
    assert_eq!(holder(&client, "bob").await.as_deref(), Some("t1"));
    assert_eq!(holder(&client, "ann").await, None, "the old one is free");

    let before = inspector.task("default", &task.id).await.unwrap();
    let job = registry.get("edit:loose").unwrap();
    let new = job.prepare(&serde_json::json!({ "value": 7 })).unwrap();
    let error = inspector.edit_prepared("default", &task.id, job, &new).await.unwrap_err();
    assert!(error.to_string().contains("codec = \"json\""), "{error}");
    let other = registry.get("edit:double").unwrap();
    let new = other.prepare(&serde_json::json!(7)).unwrap();
    let error = inspector.edit_prepared("default", &task.id, other, &new).await.unwrap_err();
    assert!(matches!(error, InspectError::OtherJob { expected: "edit:double", .. }), "{error}");
    assert_eq!(inspector.task("default", &task.id).await.unwrap(), before);
}

#[tokio::test]
async fn an_argument_that_json_does_not_have_is_not_changed_by_an_edit_of_another() {
    let (_t, client, inspector) = world().await;
    let registry = Registry::only::<(nulls,)>().unwrap();
    let job = registry.get("edit:nulls").unwrap();
    for (note, celsius, is_edited) in
        [(None, None, true), (Some(Some(7)), Some(0.5), true), (Some(None), None, false), (None, Some(f64::NAN), false)]
    {
        let task = nulls::enqueue(&client, 1, note, celsius).await.unwrap();
        let before = inspector.task("default", &task.id).await.unwrap().payload;
        let mut arguments = job.show(&before).unwrap();
        arguments["n"] = 2.into();
        let new = job.prepare(&arguments).unwrap();
        let edited = inspector.edit_prepared("default", &task.id, job, &new).await;
        if is_edited {
            edited.unwrap();
            let read = |job: &mut nulls| assert!((job.n, job.note, job.celsius) == (2, note, celsius));
            inspector.edit::<nulls>("default", &task.id, read).await.unwrap();
        } else {
            let error = edited.unwrap_err().to_string();
            assert!(error.starts_with("invalid `arguments`: JSON has null for a `Some` of nothing"), "{error}");
            assert_eq!(inspector.task("default", &task.id).await.unwrap().payload, before);
        }
    }
}

#[tokio::test]
async fn an_equal_task_is_not_made_by_editing() {
    let (_t, client, inspector) = world().await;
    mail::job("ann", "Hi").task_id("t1").enqueue(&client).await.unwrap();
    mail::job("bob", "Hi").task_id("t2").enqueue(&client).await.unwrap();
    let error = inspector.edit::<mail>("default", "t2", |job| job.to = "ann".into()).await.unwrap_err();
    assert!(matches!(&error, InspectError::Duplicate { holder: Some(id) } if id == "t1"), "{error}");
    assert_eq!(inspector.task("default", "t2").await.unwrap().payload, r#"{"to":"bob","subject":"Hi"}"#);
    assert_eq!(holder(&client, "bob").await.as_deref(), Some("t2"));
}

#[tokio::test]
async fn raw_bytes_move_a_lock_of_the_whole_payload_and_keep_any_other() {
    let (_t, client, inspector) = world().await;
    let raw = |payload: &'static str| RawTask::new("go:job", payload).unique("1h");
    client.enqueue(raw("one").task_id("t1")).await.unwrap();
    inspector.edit_raw("default", "t1", "two").await.unwrap();
    assert_eq!(inspector.task("default", "t1").await.unwrap().payload, "two");
    let same = client.enqueue(raw("two")).await.unwrap_err();
    assert!(matches!(same, EnqueueError::Duplicate { holder: Some(id) } if id == "t1"));
    client.enqueue(raw("one")).await.unwrap();

    mail::job("ann", "Hi").task_id("t2").enqueue(&client).await.unwrap();
    inspector.edit_raw("default", "t2", r#"{"to":"bob","subject":"Hi"}"#).await.unwrap();
    assert_eq!(holder(&client, "ann").await.as_deref(), Some("t2"), "this program does not know how it was made");
}

#[tokio::test]
async fn every_state_but_active_and_completed_can_be_edited() {
    let (t, _client, inspector) = world().await;
    t.seed_every_state().await;
    for state in ["pending", "scheduled", "retry", "archived"] {
        inspector.edit_raw("default", state, "new").await.unwrap();
        let task = inspector.task("default", state).await.unwrap();
        assert_eq!((task.payload, task.state.as_str()), (Bytes::from("new"), state));
    }
    for fixed in [TaskState::Active, TaskState::Completed] {
        let error = inspector.edit_raw("default", fixed.as_str(), "new").await.unwrap_err();
        assert!(
            matches!(error, InspectError::Unfit { change: TaskChange::Edit, state, .. } if state == fixed),
            "{error}"
        );
    }
}

#[tokio::test]
async fn reasons_against_an_edit_are_distinguished() {
    let (t, client, inspector) = world().await;
    t.enqueue(task("other")).await;
    let error = inspector.edit::<mail>("default", "other", |_| ()).await.unwrap_err();
    assert_eq!(error.to_string(), "task `other` is a `email:send`, not a `edit:mail`");
    client.enqueue(RawTask::new("edit:mail", "{").task_id("broken")).await.unwrap();
    let error = inspector.edit::<mail>("default", "broken", |_| ()).await.unwrap_err();
    assert!(matches!(error, InspectError::Payload(_)), "{error}");
    let error = inspector.edit::<mail>("default", "none", |_| ()).await.unwrap_err();
    assert!(matches!(error, InspectError::TaskNotFound { .. }), "{error}");
    let small = client.clone().payload_limit(10).inspector();
    let error = small.edit_raw("default", "other", "eleven byte").await.unwrap_err();
    assert!(matches!(error, InspectError::TooLarge { size: 11, limit: 10 }), "{error}");
    small.edit_raw("default", "other", "ten bytes!").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_begins_anew_after_a_faster_change() {
    let (_t, client, inspector) = world().await;
    double::job(1).task_id("t1").process_in(Duration::from_secs(60)).enqueue(&client).await.unwrap();
    let other = async |n: u64| inspector.edit::<double>("default", "t1", |job| job.n = n).await.unwrap();
    let mut seen = Vec::new();
    let edit = inspector.edit::<double>("default", "t1", |job| {
        seen.push(job.n);
        if seen.len() == 1 {
            tokio::task::block_in_place(|| Handle::current().block_on(other(10)));
        }
        job.n += 1;
    });
    edit.await.unwrap();
    assert_eq!(seen, [1, 10]);
    let error = double::enqueue(&client, 11).await.unwrap_err();
    assert_eq!(error.existing_id().map(TaskId::as_str), Some("t1"), "both edits are in it");

    let mut n = 100;
    let never = inspector.edit::<double>("default", "t1", |job| {
        n += 1;
        tokio::task::block_in_place(|| Handle::current().block_on(other(n)));
        job.n = 7;
    });
    let error = never.await.unwrap_err();
    assert_eq!(error.to_string(), "task `t1` was changed by others at every one of 8 tries; try again later");
}

#[tokio::test]
async fn an_edit_of_the_arguments_that_were_seen_leaves_those_of_another_program() {
    let (_t, client, inspector) = world().await;
    client.enqueue(RawTask::new("go:job", "seen").task_id("t1")).await.unwrap();
    let mine = inspector.clone().edits_only(&inspector.task("default", "t1").await.unwrap());
    inspector.edit_raw("default", "t1", "theirs").await.unwrap();
    let error = mine.edit_raw("default", "t1", "mine").await.unwrap_err();
    assert!(matches!(error, InspectError::Contended { .. }), "{error}");
    assert_eq!(inspector.task("default", "t1").await.unwrap().payload, "theirs");
    inspector.edit_raw("default", "t1", "seen").await.unwrap();
    mine.edit_raw("default", "t1", "mine").await.unwrap();
}

/// A worker could not read a task without format byte and fingerprint, and would archive it.
#[tokio::test]
async fn the_header_of_a_typed_payload_is_not_edited_away() {
    let t = Fixture::start().await;
    let client = Client::new(t.shared());
    let inspector = client.inspector();
    let typed = double::job(21).task_id("typed").enqueue(&client).await.unwrap();
    let error = inspector.edit_raw_in_shape("default", "typed", "22").await.unwrap_err();
    assert!(matches!(error, InspectError::HeaderLost { .. }), "{error}");
    assert_eq!(inspector.task("default", "typed").await.unwrap().payload, typed.payload);
    let same_shape = [&typed.payload[..5], &[22]].concat();
    inspector.edit_raw_in_shape("default", "typed", same_shape).await.unwrap();
    inspector.edit::<double>("default", "typed", |job| assert_eq!(job.n, 22)).await.unwrap();

    client.enqueue(RawTask::new("x", "{}").task_id("raw")).await.unwrap();
    inspector.edit_raw_in_shape("default", "raw", "[]").await.unwrap();
}

/// The shape that the enqueue stored is enough: no reader here has the job.
#[tokio::test]
async fn arguments_of_an_unknown_job_are_shown_and_edited_by_their_shape() {
    #[job(name = "edit:transfer", unique = "1h")]
    async fn transfer(to: String, cents: u64, pin: Secret<String>, note: Option<String>) -> JobResult {
        let _ = (to, cents, pin, note);
        Ok(())
    }

    let t = Fixture::start().await;
    let client = Client::new(t.another_broker().await);
    let args = || transfer::job("ann", 700_u64, Secret::new("4711".to_owned()), None);
    args().task_id("t1").process_in("1h").enqueue(&client).await.unwrap();

    let inspector = Client::new(t.another_broker().await).inspector();
    let read = async || {
        let task = inspector.task("default", "t1").await.unwrap();
        let reader = inspector.argument_reader([(&*task.r#type, &task.payload[..])]).await;
        reader.read(&task.r#type, None, &task.payload)
    };
    let arguments = serde_json::json!({ "to": "ann", "cents": 700, "pin": "***", "note": null });
    assert_eq!(read().await, Some(Ok(arguments.clone())));

    let edit = async |json: serde_json::Value| inspector.edit_arguments("default", "t1", &json).await;
    let error = edit(serde_json::json!({ "to": "bob", "cents": "700", "pin": "1" })).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the arguments do not fit `edit:transfer`: `cents`: expected an integer from 0 to 18446744073709551615, found a text; \
         write {to: str, cents: u64, pin: str, note: str?}"
    );
    let error = edit(arguments).await.unwrap_err();
    assert!(error.to_string().contains("`pin`: a secret is shown as ***"), "{error}");
    edit(serde_json::json!({ "to": "bob", "cents": 800, "pin": "0815", "note": "rent" })).await.unwrap();
    inspector
        .edit::<transfer>("default", "t1", |job| {
            let read = (job.to.as_str(), job.cents, job.pin.expose().as_str(), job.note.as_deref());
            assert_eq!(read, ("bob", 800, "0815", Some("rent")), "the worker reads the written payload");
        })
        .await
        .unwrap();
    args().enqueue(&client).await.expect("the lock of the old arguments is free");

    // A malformed shape, and a missing one.
    let payload = inspector.task("default", "t1").await.unwrap().payload;
    let fingerprint = u32::from_le_bytes(payload[1..5].try_into().unwrap());
    let shape = NewShape { job: "edit:transfer".into(), fingerprint: Some(fingerprint), body: "{}".into() };
    t.broker().keep_shapes(&[shape], |new, _| Some(new.body.clone())).await.unwrap();
    let unknown = RawTask::new("edit:transfer", &b"\x01\x00\x00\x00\x00payload"[..]).task_id("t2");
    client.enqueue(unknown).await.unwrap();
    for (id, reason) in [("t1", "the kept shape is malformed"), ("t2", "the broker keeps no shape of it")] {
        let inspector = Client::new(t.another_broker().await).inspector();
        let before = inspector.task("default", id).await.unwrap().payload;
        let error = inspector.edit_arguments("default", id, &serde_json::json!({})).await.unwrap_err();
        assert!(matches!(error, InspectError::NoShape { .. }) && error.to_string().contains(reason), "{error}");
        assert_eq!(inspector.task("default", id).await.unwrap().payload, before);
    }
}

/// A running task cannot be edited.
#[tokio::test]
async fn arguments_are_read_with_their_type_in_any_state() {
    let (t, client, inspector) = world().await;
    client.enqueue(mail::job("ann", "Hi").task_id("t1")).await.unwrap();
    t.take_one().await;
    let task = inspector.task("default", "t1").await.unwrap();
    assert_eq!(task.state, TaskState::Active);
    let job: mail = inspector.arguments(&task).await.unwrap();
    assert_eq!((job.to.as_str(), job.subject.as_str()), ("ann", "Hi"));

    let error = inspector.arguments::<double>(&task).await.map(|job| job.n).unwrap_err();
    assert_eq!(error.to_string(), "task `t1` is a `edit:mail`, not a `edit:double`");
}

/// A worker of this program runs such a task, and most repairs come right after a deploy.
#[tokio::test]
async fn arguments_of_an_earlier_version_are_edited_by_the_job_of_today() {
    mod earlier {
        use super::*;

        #[job(name = "edit:grown")]
        pub(super) async fn grown(to: String) -> JobResult {
            let _ = to;
            Ok(())
        }
    }
    #[job(name = "edit:grown")]
    async fn grown(to: String, #[serde(default)] copies: u32) -> JobResult {
        let _ = (to, copies);
        Ok(())
    }
    #[job(name = "edit:grew", alias = "edit:grown")]
    async fn grew(to: String, #[serde(default)] copies: u32, note: Option<String>) -> JobResult {
        let _ = (to, copies, note);
        Ok(())
    }

    let t = Fixture::start().await;
    let client = async || Client::new(t.another_broker().await);
    let task = earlier::grown::job("ann").task_id("t1").process_in("1h");
    task.enqueue(&client().await).await.unwrap();
    let inspector = client().await.inspector();
    let waiting = inspector.task("default", "t1").await.unwrap();
    let today = inspector.arguments::<grown>(&waiting).await.unwrap();
    assert_eq!((today.to.as_str(), today.copies), ("ann", 0));
    let change = |job: &mut grown| {
        job.to = "bob".into();
        job.copies += 2;
    };
    inspector.edit::<grown>("default", "t1", change).await.unwrap();
    let read = |job: &mut grown| assert_eq!((job.to.as_str(), job.copies), ("bob", 2));
    inspector.edit::<grown>("default", "t1", read).await.unwrap();

    // A program that does not know today's shape finds it on the broker, also by the earlier name of the job.
    let shown = async || {
        let task = inspector.task("default", "t1").await.unwrap();
        let reader = client().await.inspector().argument_reader([(&*task.r#type, &task.payload[..])]).await;
        reader.read(&task.r#type, None, &task.payload)
    };
    assert_eq!(shown().await, Some(Ok(serde_json::json!({ "to": "bob", "copies": 2 }))));
    inspector.edit::<grew>("default", "t1", |job| job.note = Some("new".into())).await.unwrap();
    assert_eq!(shown().await, Some(Ok(serde_json::json!({ "to": "bob", "copies": 2, "note": "new" }))));
}

/// A second task with the new argument would be accepted, and one with the old argument refused.
#[tokio::test]
async fn a_lock_that_an_earlier_version_made_of_other_bytes_is_not_left_behind() {
    mod earlier {
        use super::*;

        #[job(name = "edit:charge", unique = "1h", unique_by = "account")]
        pub(super) async fn charge(account: u32, note: String) -> JobResult {
            let _ = (account, note);
            Ok(())
        }
    }
    #[job(name = "edit:charge", unique = "1h", unique_by = "account")]
    async fn charge(account: i64, note: String) -> JobResult {
        let _ = (account, note);
        Ok(())
    }

    let (_t, client, inspector) = world().await;
    earlier::charge::job(5_u32, "rent").task_id("t1").process_in("1h").enqueue(&client).await.unwrap();
    let refused = async || {
        let before = inspector.task("default", "t1").await.unwrap();
        let error = inspector.edit::<charge>("default", "t1", |job| job.account = 6).await.unwrap_err().to_string();
        assert!(error.contains("the name of the task's unique lock was made of other bytes"), "{error}");
        assert_eq!(inspector.task("default", "t1").await.unwrap(), before);
    };
    refused().await;
    // Another argument leaves the lock where it is, and the task then has today's shape.
    inspector.edit::<charge>("default", "t1", |job| job.note = "food".into()).await.unwrap();
    refused().await;
    let equal = earlier::charge::job(5_u32, "other").enqueue(&client).await.unwrap_err();
    assert_eq!(equal.existing_id().map(TaskId::as_str), Some("t1"));
}

/// The fingerprint is the same with and without the secret.
#[tokio::test]
async fn an_argument_that_has_become_secret_stays_so_when_an_older_program_keeps_its_shape() {
    mod older {
        use super::*;

        #[job(name = "edit:import")]
        pub(super) async fn import(account: String, token: String) -> JobResult {
            let _ = (account, token);
            Ok(())
        }
    }
    #[job(name = "edit:import")]
    async fn import(account: String, token: Secret<String>) -> JobResult {
        let _ = (account, token);
        Ok(())
    }

    let t = Fixture::start().await;
    let client = async || Client::new(t.another_broker().await);
    let old = |id: &str| older::import::job("ann", "t0k3n").task_id(id).process_in("1h");
    let token = async |inspector: &Inspector| {
        let task = inspector.task("default", "t1").await.unwrap();
        let reader = inspector.argument_reader([(&*task.r#type, &task.payload[..])]).await;
        reader.read(&task.r#type, None, &task.payload).unwrap().unwrap()["token"].clone()
    };
    old("t1").enqueue(&client().await).await.unwrap();
    assert_eq!(token(&client().await.inspector()).await, "t0k3n");
    let new = import::job("bob", Secret::new("t0k3n".to_owned())).process_in("1h");
    new.enqueue(&client().await).await.unwrap();
    assert_eq!(token(&client().await.inspector()).await, "***");
    old("t2").enqueue(&client().await).await.unwrap();
    assert_eq!(token(&client().await.inspector()).await, "***");
}
