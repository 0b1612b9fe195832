//! A `Secret` is shown by `--raw` alone, however long its payload is.

use std::time::Duration;

use asynq_runtime::{Client, job, prelude::*, task::SchedulerEntry};
use asynq_tests::{Build as _, task};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

use crate::fixture::{Answer, on_both_brokers};

const PIN: &str = "the-pin-4711";
const HOUR: Duration = Duration::from_secs(3600);

#[job(name = "cli:pay")]
async fn pay(pin: Secret<String>, to: String) -> JobResult {
    let _ = (pin, to);
    Ok(())
}

/// Returns the payload in an answer, which does not contain the secret, neither as text nor as base64.
fn payload(answer: &Answer) -> Value {
    fn is_harmless(value: &Value) {
        match value {
            Value::String(text) => {
                let bytes = STANDARD.decode(text).unwrap_or_default();
                let is_in = |bytes: &[u8]| bytes.windows(PIN.len()).any(|part| part == PIN.as_bytes());
                assert!(!is_in(text.as_bytes()) && !is_in(&bytes), "{text}");
            }
            Value::Array(values) => values.iter().for_each(is_harmless),
            Value::Object(fields) => fields.values().for_each(is_harmless),
            _ => {}
        }
    }
    let value: Value = serde_json::from_str(&answer.out).unwrap_or_else(|error| panic!("{error}\n{answer}"));
    is_harmless(&value);
    value.get(0).unwrap_or(&value)["payload"].clone()
}

on_both_brokers! {
    async fn a_cut_payload_hides_its_secret(cli) {
        let client = Client::new(cli.t.another_broker().await);
        let task = pay::job(Secret::new(PIN.to_owned()), "ann").task_id("t1").enqueue(&client).await.unwrap();
        for line in ["task ls -q default -s pending", "task inspect -q default t1"] {
            let cut = payload(&cli.run(&format!("{line} --json --max-payload 20")).await);
            assert_eq!((&cut["encoding"], &cut["cut"]), (&"arguments".into(), &true.into()), "{cut}");
            assert_eq!(cut["data"], r#"{"pin":"***","to":"a"#, "{cut}");
            let raw = cli.run(&format!("{line} --json --raw")).await;
            assert!(raw.out.contains(&STANDARD.encode(&task.payload)), "{raw}");
        }
    }

    async fn arguments_that_are_too_long_to_be_read_have_no_data(cli) {
        let client = Client::new(cli.t.another_broker().await);
        let small = pay::job(Secret::new(PIN.to_owned()), "ann").task_id("t1").enqueue(&client).await.unwrap();
        let mut long = task("long");
        long.message.r#type = "cli:pay".into();
        long.message.payload = [&small.payload[..], &vec![b'x'; 1024 * 1024]].concat().into();
        cli.t.enqueue(long).await;
        for most in [20, 1024 * 1024, 4 * 1024 * 1024] {
            let cut = payload(&cli.run(&format!("task inspect -q default long --json --max-payload {most}")).await);
            assert_eq!((&cut["encoding"], &cut["cut"]), (&"arguments".into(), &true.into()), "{most}");
            assert!(cut["data"].is_null() && cut["bytes"].as_u64() > Some(1024 * 1024), "{most}");
        }
    }

    async fn a_payload_that_its_shape_does_not_read_has_no_data(cli) {
        let client = Client::new(cli.t.another_broker().await);
        let whole = pay::job(Secret::new(PIN.to_owned()), "ann").task_id("t1").enqueue(&client).await.unwrap();
        let mut damaged = task("damaged");
        damaged.message.r#type = "cli:pay".into();
        damaged.message.payload = whole.payload.slice(..whole.payload.len() - 1);
        cli.t.enqueue(damaged).await;
        cli.run("task delete -q default t1 --yes").await;
        for line in ["task ls -q default -s pending", "task inspect -q default damaged"] {
            let hidden = payload(&cli.run(&format!("{line} --json")).await);
            assert_eq!((&hidden["encoding"], &hidden["cut"]), (&"arguments".into(), &true.into()), "{hidden}");
            assert!(hidden["data"].is_null() && hidden["bytes"].as_u64() > Some(12), "{hidden}");
        }
        let text = cli.run("task inspect -q default damaged").await;
        assert!(text.out.contains("hidden, as any") && text.out.contains("--json --raw shows the bytes"), "{text}");
        let raw = cli.run("task inspect -q default damaged --json --raw").await;
        assert!(raw.out.contains("\"encoding\": \"base64\""), "{raw}");
    }

    async fn a_message_that_cannot_be_read_is_shown_by_raw_alone(cli) {
        let mut whole = task("t1").with_payload(PIN);
        whole.message.r#type = "undecodable".into();
        cli.t.enqueue(whole).await;
        for line in ["task ls -q default -s pending", "task inspect -q default t1"] {
            let text = cli.run(line).await;
            assert!(!text.out.contains(PIN) && text.out.contains("hidden, as any of its bytes may be secret"), "{text}");
            assert!(payload(&cli.run(&format!("{line} --json")).await)["data"].is_null());
            let raw = cli.json(&format!("{line} --raw")).await;
            assert_eq!(raw.get(0).unwrap_or(&raw)["payload"]["data"], PIN, "{raw}");
        }
    }

    async fn a_periodic_entry_shows_its_arguments_by_their_shape(cli) {
        let client = Client::new(cli.t.another_broker().await);
        let task = pay::job(Secret::new(PIN.to_owned()), "ann").task_id("t1").enqueue(&client).await.unwrap();
        let entry = SchedulerEntry {
            id: "e".into(),
            spec: "@hourly".into(),
            task_type: "cli:pay".into(),
            task_payload: task.payload.clone(),
            ..SchedulerEntry::default()
        };
        cli.t.broker().show_entries("host:1:x", &[entry], HOUR).await.unwrap();
        let listed = payload(&cli.run("cron ls --json").await);
        assert_eq!(listed["data"].to_string(), r#"{"pin":"***","to":"ann"}"#, "{listed}");
        let table = cli.run("cron ls").await;
        assert!(table.out.contains(r#"{"pin":"***","to":"ann"}"#), "{table}");
    }
}
