//! Contract `Shapes`: a shape is stored by job and fingerprint, for a long time from its last use.

use std::time::Duration;

use asynq_runtime::broker::{LARGEST_SHAPE, NewShape, SHAPE_TTL};
use bytes::Bytes;

use super::Fixture;

fn new(job: &str, fingerprint: Option<u32>, body: impl Into<Bytes>) -> NewShape {
    NewShape { job: job.into(), fingerprint, body: body.into() }
}

async fn stored(t: &Fixture, job: &str, fingerprint: Option<u32>) -> Option<Bytes> {
    t.broker().shape(job, fingerprint).await.unwrap()
}

#[tokio::test]
async fn each_job_and_fingerprint_has_a_shape_of_its_own() {
    let t = Fixture::start().await;
    let shapes = [
        new("mail", Some(1), "a"),
        new("mail", Some(u32::MAX), "b"),
        new("mail", None, "c"),
        new("mail:slow", Some(1), "d"),
        new("Größe *?[x] {y}", Some(0), "e"),
    ];
    t.broker().keep_shapes(&shapes).await.unwrap();
    for NewShape { job, fingerprint, body } in &shapes {
        assert_eq!(stored(&t, job, *fingerprint).await.as_ref(), Some(body), "{job} {fingerprint:?}");
    }
    for (job, fingerprint) in [("mail", Some(2)), ("other", Some(1)), ("mail:slow", None)] {
        assert_eq!(stored(&t, job, fingerprint).await, None, "{job} {fingerprint:?}");
    }
    let another = t.another_broker().await;
    assert_eq!(another.shape("mail", Some(1)).await.unwrap().as_deref(), Some(&b"a"[..]));
}

#[tokio::test]
async fn a_shape_is_replaced_and_a_repeat_is_harmless() {
    let t = Fixture::start().await;
    for body in ["a", "b", "b"] {
        t.broker().keep_shapes(&[new("mail", None, body)]).await.unwrap();
    }
    assert_eq!(stored(&t, "mail", None).await.as_deref(), Some(&b"b"[..]));
    t.broker().keep_shapes(&[]).await.unwrap();
}

#[tokio::test]
async fn a_shape_is_kept_for_its_time_from_its_last_use() {
    let t = Fixture::start().await;
    let almost = SHAPE_TTL - Duration::from_secs(60);
    t.broker().keep_shapes(&[new("mail", Some(1), "a"), new("mail", Some(2), "b")]).await.unwrap();
    t.advance(almost);
    assert!(stored(&t, "mail", Some(1)).await.is_some(), "looked for, and so kept for longer");
    t.advance(Duration::from_secs(120));
    assert!(stored(&t, "mail", Some(1)).await.is_some());
    assert_eq!(stored(&t, "mail", Some(2)).await, None);
    t.broker().keep_shapes(&[new("mail", Some(2), "b")]).await.unwrap();
    t.advance(almost);
    assert!(stored(&t, "mail", Some(2)).await.is_some());
}

#[tokio::test]
async fn a_shape_that_is_too_long_comes_cut_off() {
    let t = Fixture::start().await;
    let longest = vec![b'x'; LARGEST_SHAPE];
    t.broker()
        .keep_shapes(&[new("mail", Some(1), longest.clone()), new("mail", Some(2), vec![0; 300_000])])
        .await
        .unwrap();
    assert_eq!(stored(&t, "mail", Some(1)).await.as_deref(), Some(&longest[..]));
    assert_eq!(stored(&t, "mail", Some(2)).await.map(|body| body.len()), Some(LARGEST_SHAPE + 1));
}

#[tokio::test]
async fn a_process_remembers_the_shapes_that_it_has_stored() {
    let t = Fixture::start().await;
    let memory = t.broker().stored_shapes();
    assert!(memory.is_due("mail", Some(1)));
    memory.note(&[new("mail", Some(1), "a")], true);
    assert!(!memory.is_due("mail", Some(1)) && memory.is_due("mail", Some(2)));
    assert!(t.another_broker().await.stored_shapes().is_due("mail", Some(1)));
}
