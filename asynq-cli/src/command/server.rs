//! `server ls`: the servers that run.

use asynq_runtime::{
    broker::ServerState,
    inspector::Statistics,
    task::{ServerInfo, Timestamp},
};
use chrono::{DateTime, Utc};
use clap::Subcommand;
use serde_json::Value;

use crate::{
    error::CliError,
    session::Session,
    show::{Cell, Style, Table, ago, short_name},
    unlisted,
};

/// Looks at the servers that work
#[derive(Debug, Subcommand)]
pub(crate) enum Server {
    /// Lists the servers that live, ours and Go's, by host and process id
    ///
    /// With --json: an array of the objects in `servers` of `stats --json`, with `since`, `deadline` and `stuck` in each
    /// of `tasks`.
    #[command(name = "ls", alias = "list")]
    Ls,
}

impl Server {
    pub(super) async fn run(self, session: &mut Session) -> Result<(), CliError> {
        let Self::Ls = self;
        let client = session.client().await?;
        let states = client.inspector().servers().await?;
        let now = client.broker().now();
        let hidden = if states.is_empty() { unlisted::reason_of(&client).await? } else { None };
        let value: Vec<Value> = states.iter().map(|state| to_json(state, now)).collect();
        session.answer(&value, |style| {
            if states.is_empty() {
                return format!("{}\n", unlisted::no_server(hidden));
            }
            let stuck = |state: &ServerState| state.workers.iter().filter(|worker| worker.is_stuck(now)).count();
            table(states.iter().map(|state| (&state.info, stuck(state))), now, style)
        })
    }
}

/// Returns a table of servers with their states and loads; each server comes with the number of its stuck runs.
pub(super) fn table<'a>(
    servers: impl Iterator<Item = (&'a ServerInfo, usize)>,
    now: DateTime<Utc>,
    style: Style,
) -> String {
    let mut table = Table::new(style, &["HOST", "PID", "STATE", "ACTIVE", "QUEUES", "STARTED", "VERSION"])
        .right([1, 3])
        .wrapped([4]);
    for (info, stuck) in servers {
        let started = info.start_time.and_then(Timestamp::to_datetime);
        let weights = info.weights().into_iter();
        let queues: Vec<String> = weights.map(|(queue, weight)| format!("{}={weight}", short_name(queue))).collect();
        let state = Cell::from(&info.status);
        table.row([
            Cell::from(&info.host),
            info.pid.into(),
            if info.status == "active" { state.good() } else { state.warning() },
            match (format!("{}/{}", info.active_worker_count, info.concurrency), stuck) {
                (busy, 0) => busy.into(),
                (busy, stuck) => Cell::from(format!("{busy}, {stuck} stuck")).bad(),
            },
            queues.join(" ").into(),
            started.map(|at| ago(now, at)).unwrap_or_default().into(),
            match &*info.rust_version {
                "" => "Go".into(),
                version => format!("Rust {version}").into(),
            },
        ]);
    }
    table.into_text()
}

/// Returns the fields of a server in `Statistics`, and for each task also its start, its deadline, and whether its run
/// is stuck.
fn to_json(state: &ServerState, now: DateTime<Utc>) -> Value {
    let mut runs: Vec<_> = state.workers.iter().collect();
    runs.sort_by(|a, b| (&a.queue, &a.task_id).cmp(&(&b.queue, &b.task_id)));
    Statistics::server_to_json(&state.info, runs.into_iter().map(|run| Statistics::run_to_json(run, now)))
}

#[cfg(test)]
mod tests {
    use asynq_runtime::task::{QueueWeight, WorkerInfo};
    use chrono::TimeDelta;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_weights_of_queues_are_written_as_queues_reads_them() {
        let queues = [("low", 1), ("critical", 6)]
            .map(|(queue, weight)| QueueWeight { queue: Some(queue.into()), weight: Some(weight) });
        let info = ServerInfo { queues: queues.into(), ..ServerInfo::default() };
        let text = table([(&info, 0)].into_iter(), DateTime::UNIX_EPOCH, Style::default());
        assert!(text.contains("critical=6 low=1"), "{text}");
    }

    #[test]
    fn a_long_name_of_a_queue_is_cut_before_its_weight() {
        let queues = vec![QueueWeight { queue: Some("q".repeat(300)), weight: Some(1) }];
        let info = ServerInfo { queues, ..ServerInfo::default() };
        let text = table([(&info, 0)].into_iter(), DateTime::UNIX_EPOCH, Style::default());
        assert!(text.contains(&format!(" {}…=1", "q".repeat(59))), "{text}");
    }

    #[test]
    fn a_run_that_is_stuck_is_marked_in_the_table_and_in_json() {
        let now = DateTime::from_timestamp(1_893_553_445, 0).unwrap();
        let run = |id: &str, left| WorkerInfo {
            task_id: id.into(),
            deadline: Some((now + TimeDelta::seconds(left)).into()),
            ..WorkerInfo::default()
        };
        let info = ServerInfo { active_worker_count: 2, concurrency: 10, ..ServerInfo::default() };
        let text = |stuck| table([(&info, stuck)].into_iter(), now, Style::default());
        assert!(text(0).contains("2/10 ") && text(1).contains("2/10, 1 stuck"), "{}", text(1));
        let json = to_json(&ServerState::new(info.clone(), vec![run("a", 5), run("b", -60)]), now);
        assert_eq!([&json["tasks"][0]["stuck"], &json["tasks"][1]["stuck"]], [&json!(false), &json!(true)]);
    }
}
