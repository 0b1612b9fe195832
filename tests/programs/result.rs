//! Runs a job with one struct as its argument, in JSON as Go reads it, and reads its result.

use asynq_runtime::prelude::*;

use crate::stage::{Stage, on_both_brokers, tasks, until};

mod as_written {
    #![allow(missing_docs, unreachable_pub)]
    include!("as_written/result.rs");

    pub(crate) async fn call(client: &Client) -> Result<(), Box<dyn std::error::Error>> {
        produce(client).await
    }
}

on_both_brokers! {
    async fn tasks_of_rust_and_go_run_and_their_results_are_stored(stage: &Stage) {
        let client = stage.client().await;
        as_written::call(&client).await.unwrap();
        let waiting = tasks(&client, "default", TaskState::Pending).await;
        assert_eq!(waiting[0].r#type, "image:resize");
        assert_eq!(waiting[0].payload, r#"{"path":"cat.png","width":80}"#);

        let as_go_does = RawTask::new("image:resize", r#"{"width": 90, "path": "dog.png"}"#).retention("1h");
        let from_go = client.enqueue(as_go_does).await.unwrap();

        let jobs = Registry::only::<(as_written::resize,)>().unwrap();
        let running = Server::builder(&stage.url).registry(jobs).build().await.unwrap().start().await.unwrap();
        until(&client, "default", |queue| queue.completed == 2).await;
        running.shutdown().await.unwrap();

        assert_eq!(client.result::<as_written::resize>(&waiting[0].id).await.unwrap(), 80);
        assert_eq!(client.result::<as_written::resize>(from_go.id.as_str()).await.unwrap(), 90);
        let info = client.inspector().task("default", &from_go.id).await.unwrap();
        assert_eq!(info.result.as_deref(), Some(&b"90"[..]), "as Go writes it");
    }
}
