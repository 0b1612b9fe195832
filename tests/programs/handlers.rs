//! Runs handlers of task types without a Rust function.

use std::sync::{Arc, Mutex};

use asynq_runtime::{broker::Page, prelude::*};

use crate::stage::{Stage, on_both_brokers, queue, until};

on_both_brokers! {
    async fn a_handler_runs_types_without_a_rust_function_by_the_rule_of_gos_mux(stage: &Stage) {
        let ran = Arc::new(Mutex::new(Vec::new()));
        let note = |label: &'static str| {
            let ran = Arc::clone(&ran);
            move |task: RawTask| {
                let ran = Arc::clone(&ran);
                async move {
                    let ctx = task.context();
                    let text = format!("{label} {} {}", task.name(), String::from_utf8_lossy(task.payload()));
                    ctx.write_result_raw(text.clone()).await?;
                    ran.lock().map_err(|_| "poisoned")?.push(text);
                    JobResult::Ok(())
                }
            }
        };
        let server = Server::builder(&stage.url)
            .handle("picture:", note("any image"))
            .handle("picture:crop", note("crops"))
            .concurrency(1)
            .build()
            .await
            .unwrap();
        let client = stage.client().await;
        for name in ["picture:crop", "picture:resize", "picture:crop:square"] {
            let task = RawTask::new(name, &b"{}"[..]).retention("1h");
            client.enqueue(task).await.unwrap();
        }
        let running = server.start().await.unwrap();
        until(&client, "default", |stats| stats.completed == 3).await;
        running.shutdown().await.unwrap();
        let expected = ["crops picture:crop {}", "any image picture:resize {}", "crops picture:crop:square {}"];
        assert_eq!(*ran.lock().unwrap(), expected);
        let completed = client.broker().tasks(&queue("default"), TaskState::Completed, Page::default()).await.unwrap();
        let mut results: Vec<String> =
            completed.into_iter().map(|task| String::from_utf8(task.result.unwrap().to_vec()).unwrap()).collect();
        results.sort();
        assert_eq!(results, ["any image picture:resize {}", "crops picture:crop {}", "crops picture:crop:square {}"]);
    }
}
