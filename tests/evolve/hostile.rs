//! A stored shape is data from outside: with any bytes in it, the task waits, its payload stays, and the error says why.

use asynq_runtime::{Client, JobDescriptor, PreparedTask, Registry, broker::NewShape, prelude::*};
use asynq_tests::{Fixture, RedisStore, SqliteStore, Store, default_queue, task_id};

use crate::stage::{self, Became, Log};

mod before {
    use super::*;

    #[job]
    pub(crate) async fn hostile(log: State<Log>, to: String, n: u32) -> JobResult {
        let _ = (log, to, n);
        Ok(())
    }
}

mod after {
    use super::*;

    #[job]
    pub(crate) async fn hostile(
        ctx: &JobContext,
        log: State<Log>,
        to: String,
        n: u32,
        note: Option<String>,
    ) -> JobResult {
        log.lock().unwrap().insert(ctx.id().to_string(), format!("{:?}", (to, n, note)));
        Ok(())
    }
}

fn fingerprint() -> u32 {
    let registry = Registry::only::<(before::hostile,)>().unwrap();
    registry.get("hostile").unwrap().fingerprint().value
}

async fn a_shape_of_any_kind_loses_no_task_on<S: Store>() {
    let huge = format!("{{\"v\":1,\"root\":{{\"seq\":\"{}\"}}}}", "x".repeat(300_000));
    let deep = format!("{{\"v\":1,\"root\":{}\"unseen\"{}}}", "{\"seq\":".repeat(5000), "}".repeat(5000));
    for (body_text, expected) in [
        ("", "run a version that knows the old shape"),
        ("not a shape", "malformed"),
        ("\u{0}\u{1}\u{2}", "malformed"),
        ("{}", "malformed"),
        ("{\"v\":7}", "of version 7"),
        ("{\"v\":1,\"root\":{\"type\":3}}", "lacks one of its types"),
        ("{\"v\":1,\"root\":{\"seq\":{\"tuple\":[]}}}", "bytes more than its shape"),
        ("{\"v\":1,\"root\":{\"type\":0},\"types\":[{\"newtype\":{\"type\":0}}]}", "nested deeper than"),
        (
            "{\"v\":1,\"root\":{\"tuple\":[{\"is\":\"u64\"},{\"is\":\"u64\"},{\"is\":\"f64\"}]}}",
            "does not have the shape that it claims",
        ),
        ("{\"v\":1,\"root\":{\"tuple\":[{\"is\":\"str\"},{\"is\":\"u8\"}]}}", "invalid type: a sequence"),
        ("{\"v\":1,\"root\":{\"any\":\"Value\"}}", "known in part only"),
        (&deep, "malformed"),
        (&huge, "longer than"),
    ] {
        let t = Fixture::<S>::real_time().await;
        let client = Client::new(t.another_broker().await);
        let task: PreparedTask = before::hostile { to: "ann".into(), n: 2 }.into();
        let payload = task.payload().to_vec();
        client.enqueue(task.task_id("a")).await.unwrap();
        let body = body_text.to_owned().into_bytes();
        let shape = NewShape { job: "hostile".into(), fingerprint: Some(fingerprint()), body: body.into() };
        t.broker().keep_shapes(&[shape], |new, _| Some(new.body.clone())).await.unwrap();
        let jobs = vec![JobDescriptor::of::<after::hostile>(file!(), line!())];
        let log = stage::run(t.another_broker().await, jobs, &["a".to_owned()]).await;
        let became = stage::became(t.broker(), &log, "a").await;
        let body_text = body_text.get(..60).unwrap_or(body_text);
        let Became::Waits(why) = became else { panic!("{body_text}: {became:?}") };
        assert!(why.contains(expected), "{body_text}: {why}");
        let waiting = t.broker().task(&default_queue(), &task_id("a")).await.unwrap().unwrap();
        assert_eq!(waiting.payload, payload, "{body_text}: its bytes are untouched");
    }
}

#[tokio::test]
async fn a_shape_of_any_kind_loses_no_task_on_redis() {
    a_shape_of_any_kind_loses_no_task_on::<RedisStore>().await;
}

#[tokio::test]
async fn a_shape_of_any_kind_loses_no_task_on_sqlite() {
    a_shape_of_any_kind_loses_no_task_on::<SqliteStore>().await;
}
