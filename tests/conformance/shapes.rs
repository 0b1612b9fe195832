//! Contract `Shapes`: a shape is stored by job and fingerprint, for a long time from its last use.

use std::{collections::BTreeSet, time::Duration};

use asynq_runtime::broker::{LARGEST_SHAPE, NewShape, SHAPE_TTL};
use bytes::Bytes;
use futures_util::future::join_all;

use super::Fixture;

fn new(job: &str, fingerprint: Option<u32>, body: impl Into<Bytes>) -> NewShape {
    NewShape { job: job.into(), fingerprint, body: body.into() }
}

/// Keeps `shapes` in place of those that are kept.
async fn keep(t: &Fixture, shapes: &[NewShape]) {
    t.broker().keep_shapes(shapes, |new, _| Some(new.body.clone())).await.unwrap();
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
    keep(&t, &shapes).await;
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
        keep(&t, &[new("mail", None, body)]).await;
    }
    assert_eq!(stored(&t, "mail", None).await.as_deref(), Some(&b"b"[..]));
    keep(&t, &[]).await;
}

#[tokio::test]
async fn shapes_that_programs_keep_at_one_time_are_joined() {
    let t = Fixture::start().await;
    let letters: Vec<String> = ('a'..='d').map(String::from).collect();
    let brokers = join_all(letters.iter().map(|_| t.another_broker())).await;
    let keeping = letters.iter().zip(&brokers).map(async |(letter, another)| {
        let shapes = [new("mail", Some(1), letter.clone()), new("bye", None, letter.clone())];
        let join = |new: &NewShape, kept: &[u8]| {
            let all: BTreeSet<u8> = kept.iter().chain(&new.body).copied().collect();
            Some(Bytes::from_iter(all)).filter(|all| all != kept)
        };
        another.keep_shapes(&shapes, join).await.unwrap();
    });
    join_all(keeping).await;
    for (job, fingerprint) in [("mail", Some(1)), ("bye", None)] {
        assert_eq!(stored(&t, job, fingerprint).await.as_deref(), Some(&b"abcd"[..]), "{job}");
    }
}

#[tokio::test]
async fn a_shape_that_stays_as_it_is_is_kept_for_longer() {
    let t = Fixture::start().await;
    let almost = SHAPE_TTL - Duration::from_secs(60);
    keep(&t, &[new("mail", Some(1), "a")]).await;
    for _ in 0..2 {
        t.advance(almost);
        t.broker().keep_shapes(&[new("mail", Some(1), "b")], |_, _| None).await.unwrap();
    }
    assert_eq!(stored(&t, "mail", Some(1)).await.as_deref(), Some(&b"a"[..]));
}

#[tokio::test]
async fn a_shape_is_kept_for_its_time_from_its_last_use() {
    let t = Fixture::start().await;
    let almost = SHAPE_TTL - Duration::from_secs(60);
    keep(&t, &[new("mail", Some(1), "a"), new("mail", Some(2), "b"), new("bye", Some(1), "c")]).await;
    t.advance(almost);
    assert!(stored(&t, "mail", Some(1)).await.is_some(), "looked for, and so kept for longer");
    t.advance(Duration::from_secs(120));
    assert!(stored(&t, "mail", Some(1)).await.is_some());
    assert_eq!((stored(&t, "mail", Some(2)).await, stored(&t, "bye", Some(1)).await), (None, None));
    keep(&t, &[new("mail", Some(2), "b")]).await;
    t.advance(almost);
    assert!(stored(&t, "mail", Some(2)).await.is_some());
}

#[tokio::test]
async fn a_shape_that_is_too_long_comes_cut_off() {
    let t = Fixture::start().await;
    let longest = vec![b'x'; LARGEST_SHAPE];
    keep(&t, &[new("mail", Some(1), longest.clone()), new("mail", Some(2), vec![0; 300_000])]).await;
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
