//! One test per golden scenario: the same calls, then the same data in Redis.

use std::{collections::BTreeMap, time::Duration};

use asynq_runtime::{
    broker::{Action, Page, Settled},
    prelude::*,
    task::{Extra, ServerInfo, TaskMessage},
};
use asynq_tests::{Dumped, PATIENCE, Persistence, RedisServer, Seeded as _, Value, soon, task, task_id};
use bytes::Bytes;

use crate::wire::{
    compare::{Compared, Volatile, differences},
    golden::Scenario,
    replay::Replay,
};

/// The name of the dump that a scenario took after so many calls.
fn step(scenario: &str, calls: usize) -> Option<&'static str> {
    match (scenario, calls) {
        ("b06_mark_complete_result", 3) => Some("after_write_result"),
        ("b15_schedule_forward", 2) => Some("after_schedule"),
        ("b15_schedule_forward", 7) => Some("after_first_forward"),
        ("b32_counter_overflow", 4) => Some("after_done"),
        ("b20_aggregation_grace_delete", 5) => Some("after_check"),
        ("b28_inspector_single_ops", 17) => Some("before_moves"),
        ("b28_inspector_single_ops", 21) => Some("after_moves"),
        ("b29_inspector_bulk_ops", 3) => Some("after_run_all_scheduled"),
        ("b29_inspector_bulk_ops", 4) => Some("after_archive_all_pending"),
        ("b38_completed_mutations", 12) => Some("after_mutations"),
        ("b25_server_state_idle_clear", 1) => Some("after_write"),
        _ => None,
    }
}

/// The differences from Go after the same calls, answers included.
async fn replayed(name: &str) -> Vec<String> {
    let mut replay = Replay::start(Scenario::load(name)).await;
    let volatile = match name {
        "c07_process_in" => Volatile::Scores,
        _ if replay.scenario.pinned => Volatile::Nothing,
        _ => Volatile::EnqueueTime,
    };
    let end = Compared { scenario: name, step: None, volatile };
    let (mut found, mut seen) = (Vec::new(), Vec::new());
    let mut calls = replay.scenario.calls.clone();
    if name == "b28_inspector_single_ops" {
        // The file has these calls in another order than that of the run: Go's own dequeue takes the second.
        calls.swap(0, 1);
    }
    for (i, call) in calls.iter().enumerate() {
        soon(replay.call(call)).await;
        if let Some(step) = step(name, i + 1) {
            let compared = Compared { step: Some(step), ..end };
            found.extend(differences(compared, &replay.scenario.between(step), replay.dump()));
            seen.push(step.to_owned());
        }
    }
    seen.sort();
    assert_eq!(seen, replay.scenario.steps(), "every dump between calls is compared");
    found.extend(differences(end, &replay.scenario.end, replay.dump()));
    found.extend(replay.answers);
    found
}

/// The differences from the end of a server's scenario when the broker gets that server's outcome.
async fn ended(name: &str) -> Vec<String> {
    let mut replay = Replay::start(Scenario::load(name)).await;
    let server = ServerInfo { host: "h".into(), pid: 1, server_id: "s".into(), ..ServerInfo::default() };
    let address = asynq_runtime::broker::ServerName { host: "h".into(), pid: 1, server_id: "s".into() };
    let member = replay.broker.join(&address, &server).await.unwrap();
    let enqueue = replay.scenario.calls[0].clone();
    replay.call(&enqueue).await;
    let run = replay.take().await;
    let left = replay.scenario.message(run.key.id.as_str());
    let error = || left.as_ref().unwrap().error_msg.clone();
    let extra = Extra::default;
    if matches!(name, "s02_success_with_result" | "s03_result_without_retention") {
        let result = replay.scenario.result(run.key.id.as_str()).unwrap_or(Bytes::from_static(b"42"));
        assert_eq!(replay.broker.write_result(&run.key, &result).await.unwrap(), Settled::Ok);
    }
    let action = match name {
        "s02_success_with_result" => Action::Complete { result: None },
        "s06_skip_retry" => Action::Archive { error: error(), extra: extra() },
        "s11_shutdown_requeue" => Action::Requeue,
        "s04_handler_error_retry" | "s05_handler_panic" | "s08_mux_not_found" | "s09_timeout" => {
            Action::Retry { delay: Duration::from_secs(3600), error: Some(error()), counted: true, extra: extra() }
        }
        _ => Action::Done,
    };
    let settled = replay.broker.settle(&[run.ends_with(action)]).await.remove(0).unwrap();
    assert_eq!(settled, Settled::Ok);
    replay.broker.leave(&member).await.unwrap();
    differences(at_the_end(name), &replay.scenario.end, replay.dump())
}

/// The end of a scenario whose whole server had a real clock.
fn at_the_end(scenario: &str) -> Compared<'_> {
    Compared { scenario, step: None, volatile: Volatile::Times }
}

const PAUSED: &str = "asynq:{default}:paused";

/// The differences from the end of a group that a server aggregated.
async fn aggregated(name: &str) -> Vec<String> {
    let mut replay = Replay::start(Scenario::load(name)).await;
    let (pause, enqueues) = replay.scenario.calls.clone().split_last().map(|(p, e)| (p.clone(), e.to_vec())).unwrap();
    assert_eq!((pause["op"].as_str(), enqueues.len()), (Some("Inspector.PauseQueue"), 3));
    for call in &enqueues {
        replay.call(call).await;
    }
    let queue = task("any").queue;
    assert!(replay.broker.pause(&queue).await.unwrap());

    // As in the generator's program: the payloads joined, with the type `agg:` and the group.
    let registry = Registry::only::<(nothing,)>().unwrap();
    let server = Server::builder("").broker(replay.broker.clone()).registry(registry).group_grace("1s");
    let server = server.aggregate("grp", |group, tasks| {
        let payloads: Vec<_> = tasks.iter().map(|task| String::from_utf8_lossy(&task.payload)).collect();
        Ok::<_, std::io::Error>(RawTask::new(format!("agg:{group}"), payloads.join(",")))
    });
    let running = server.build().await.unwrap().start().await.unwrap();
    let pending = async {
        let (aggregated, mut passes) = (&running.signals().aggregated, 0);
        while replay.broker.queue_stats(&queue).await.unwrap().pending == 0 {
            passes += 1;
            aggregated.reached(passes).await;
        }
    };
    soon(pending).await;
    running.shutdown().await.unwrap();

    let page = Page { number: 1, size: 2 };
    let made = replay.broker.tasks(&queue, TaskState::Pending, page).await.unwrap();
    assert!(made.len() == 1 && made[0].id.as_str().starts_with("agg:"), "{made:?}");
    let (mut dump, elapsed) = replay.dump();
    rename(&mut dump, made[0].id.as_str(), "agg1");
    // Go's pause happened at a real time.
    dump.get_mut(PAUSED).unwrap().value = replay.scenario.end[PAUSED].value.clone();
    let mut found = differences(at_the_end(name), &replay.scenario.end, (dump, elapsed));
    found.append(&mut replay.answers);
    found
}

/// Gives the aggregated task the id from the generator; our id is made of the set's.
fn rename(dump: &mut BTreeMap<String, Dumped>, from: &str, to: &str) {
    if let Some(task) = dump.remove(&format!("asynq:{{default}}:t:{from}")) {
        dump.insert(format!("asynq:{{default}}:t:{to}"), task);
    }
    for dumped in dump.values_mut() {
        match &mut dumped.value {
            Value::List(items) => {
                for item in items.iter_mut().filter(|item| *item == from.as_bytes()) {
                    *item = to.into();
                }
            }
            Value::Hash(fields) => {
                if let Some(bytes) = fields.get_mut(&b"msg"[..]) {
                    let mut message = TaskMessage::decode(bytes.clone().into()).unwrap();
                    assert_eq!(message.id, from);
                    message.id = to.to_owned();
                    *bytes = message.encode();
                }
            }
            _ => {}
        }
    }
}

#[job]
async fn nothing() {}

macro_rules! scenarios {
    ($how:ident: $($name:ident)*) => {
        pub(crate) const NAMES: &[&str] = &[$(stringify!($name)),*];

        $(#[tokio::test] async fn $name() {
            deviations::check(stringify!($name), super::$how(stringify!($name)).await);
        })*
    };
}

/// Scenarios that are replayed call by call.
mod calls {
    use crate::wire::deviations;

    scenarios! { replayed:
        b01_enqueue b02_dequeue b03_dequeue_order_paused b04_done b06_mark_complete_result b07_delete_expired_completed
        b08_retry_failure b09_retry_not_failure b10_archive b11_archive_trim_age b13_archive_trim_inspector_leak b14_requeue b15_schedule_forward
        b16_schedule_unique b18_scheduled_group_forward b19_aggregation_max_size b20_aggregation_grace_delete b22_aggregation_reclaim b24_server_state b25_server_state_idle_clear b26_scheduler_state b27_scheduler_history_trim b28_inspector_single_ops b29_inspector_bulk_ops b31_stats_history
        b32_counter_overflow b34_remove_queue_completed_only b35_ghost_id b36_all_fields_message b37_archive_all_variants b38_completed_mutations c01_enqueue_default c02_enqueue_all_options
        c03_enqueue_unique c04_unique_nil_payload c05_unique_empty_payload c06_task_id_conflict c07_process_in
        c08_process_at_pinned c10_group c12_group_delayed c13_headers c14_retention c15_batch_enqueue c17_enqueue_errors
    }
}

/// Scenarios of a whole server, whose end a broker alone can produce.
mod ends {
    use crate::wire::deviations;

    scenarios! { ended:
        s01_heartbeat_active_worker s02_success_with_result s03_result_without_retention s04_handler_error_retry
        s05_handler_panic s06_skip_retry s07_revoke_task s08_mux_not_found s09_timeout s11_shutdown_requeue
    }
}

/// Scenarios of a whole server that aggregates.
mod groups {
    use crate::wire::deviations;

    scenarios! { aggregated: s13_aggregated }
}

/// s17: a Go server receives the bare id on the cancel channel.
#[tokio::test(flavor = "multi_thread")]
async fn s17_cli_cancel_channel() {
    let golden = crate::wire::golden::file("s17_cli_cancel_channel");
    let call = &golden["calls"][0];
    let server = RedisServer::start(Persistence::None);
    let broker = asynq_tests::patient::broker(&server.url(), None).await;
    let mut connection = server.connection();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut listener = connection.as_pubsub();
    listener.subscribe(call["result"]["channel"].as_str().unwrap()).unwrap();

    broker.cancel(&task_id(call["args"].as_str().unwrap())).await.unwrap();

    let received = tokio::task::block_in_place(|| listener.get_message()).unwrap();
    assert_eq!(call["result"]["payload"], received.get_payload::<String>().unwrap());
}

/// Golden files that another place compares, with that place.
const ELSEWHERE: [(&str, &str); 1] = [("pure_retry_delay", "asynq-runtime/src/server/testdata/pure_retry_delay.json")];

/// Every file of the golden folder is used.
#[test]
fn every_golden_file_is_used() {
    let known: Vec<&str> = calls::NAMES
        .iter()
        .chain(ends::NAMES)
        .chain(groups::NAMES)
        .chain(&["s17_cli_cancel_channel"])
        .chain(&crate::wire::pure_encodings::FILES)
        .chain(&crate::wire::probes::FILES)
        .chain(&crate::wire::cron::FILES)
        .chain(&crate::wire::schedulers::FILES)
        .copied()
        .chain(ELSEWHERE.iter().map(|(name, _)| *name))
        .collect();
    let mut sorted = known.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), known.len(), "no file is listed twice");
    let copied: Vec<String> = files(&crate::wire::golden::folder());
    for name in &copied {
        assert!(known.contains(&name.as_str()), "{name} is copied but not used");
    }
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (name, place) in ELSEWHERE {
        assert!(root.join(place).is_file(), "{name} is not at {place}");
    }
}

/// The names of the JSON files of a folder; none where there is no folder.
fn files(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let json = entries.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    json.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}
