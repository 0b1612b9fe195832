//! `stats`: the tasks of every queue by state, and the servers that run.

use std::time::Duration;

use asynq_grammar::duration;

use super::{
    super::{
        env::Settings,
        table::{Table, clean},
    },
    AppError, print, print_json,
};
use crate::{broker::QueueStats, client::Client, connect::DEFAULT_URL, inspector::Statistics, task::ServerInfo};

pub(in super::super) async fn stats(settings: Settings, as_json: bool) -> Result<(), AppError> {
    let client = Client::connect_existing(settings.url.as_deref().unwrap_or(DEFAULT_URL)).await?;
    let statistics = client.inspector().statistics().await?;
    if as_json { print_json(&statistics.to_json()) } else { print(to_text(&statistics)) }?;
    match statistics.unreadable.len() {
        0 if statistics.servers_unreadable.is_some() => Err(AppError::UnreadableServers),
        0 => Ok(()),
        queues => Err(AppError::Unreadable { queues }),
    }
}

fn to_text(statistics: &Statistics) -> String {
    let Statistics { broker, queues, unreadable, servers, servers_unreadable, queues_left_out, .. } = statistics;
    let mut text = format!("{broker}\n\n");
    if queues.is_empty() && unreadable.is_empty() {
        text.push_str(
            "no queues yet: nothing was ever enqueued here, or another tool removed their names: see `asynq doctor`\n",
        );
    } else {
        text.push_str(&queue_table(queues).to_string());
    }
    for queue in unreadable {
        text.push_str(&clean(&format!("queue {} cannot be read: {}", queue.name, queue.error)));
        text.push('\n');
    }
    if *queues_left_out > 0 {
        text.push_str(&format!("and {queues_left_out} more queues\n"));
    }
    text.push('\n');
    if let Some(reason) = servers_unreadable {
        text.push_str(&clean(&format!("the list of servers cannot be read: {reason}")));
        text.push('\n');
    } else if servers.is_empty() {
        text.push_str("no worker is listed\n");
    } else {
        text.push_str(&server_table(servers).to_string());
    }
    text
}

fn queue_table(queues: &[QueueStats]) -> Table {
    let counts = Statistics::QUEUE_COLUMNS;
    let headings: Vec<&str> =
        ["QUEUE"].into_iter().chain(counts.iter().map(|(heading, _)| *heading)).chain(["WAITING", ""]).collect();
    let mut table = Table::new(&headings).right(1..=counts.len() + 1);
    for q in queues {
        let waiting = if q.pending == 0 && q.latency.is_zero() { "-".to_owned() } else { rounded(q.latency) };
        let paused = if q.paused { "paused" } else { "" };
        let cells = [q.name.to_string()].into_iter().chain(counts.iter().map(|(_, count)| count(q).to_string()));
        table.row(cells.chain([waiting, paused.to_owned()]));
    }
    table
}

fn server_table(servers: &[ServerInfo]) -> Table {
    let mut table = Table::new(&["WORKER", "STATUS", "BUSY", "QUEUES"]).right([2]);
    for info in servers {
        let queues: Vec<String> = info.weights().iter().map(|(queue, weight)| format!("{queue}={weight}")).collect();
        table.row([
            format!("{}:{}", info.host, info.pid),
            info.status.clone(),
            format!("{}/{}", info.active_worker_count, info.concurrency),
            queues.join(" "),
        ]);
    }
    table
}

/// Returns a span as text for people, of whole seconds from one second on.
fn rounded(span: Duration) -> String {
    match span {
        span if span < Duration::from_secs(1) => duration::format(span),
        span => duration::format(Duration::from_secs(span.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::{
        broker::ServerState,
        task::{QueueName, QueueWeight},
    };

    fn statistics() -> Statistics {
        let at = DateTime::from_timestamp(1_893_553_445, 0).unwrap();
        let mut low = QueueStats::empty(QueueName::new("low").unwrap(), at);
        low.paused = true;
        let mut default = QueueStats::empty(QueueName::new("default").unwrap(), at);
        (default.size, default.pending, default.archived) = (1234, 1200, 34);
        (default.processed, default.failed, default.latency) = (99, 5, Duration::from_millis(61_999));
        let info = ServerInfo {
            host: "web-1".into(),
            pid: 42,
            concurrency: 10,
            queues: [("low", 1), ("default", 3)]
                .map(|(queue, weight)| QueueWeight { queue: Some(queue.into()), weight: Some(weight) })
                .into(),
            status: "active".into(),
            active_worker_count: 1,
            ..ServerInfo::default()
        };
        let servers = vec![ServerState::new(info, Vec::new())];
        Statistics::of("sqlite://asynq.db".into(), at, vec![default, low], servers)
    }

    #[test]
    fn the_table_reads_at_a_glance() {
        let mut statistics = statistics();
        let text = to_text(&statistics);
        assert_eq!(
            text,
            "sqlite://asynq.db\n\
             \n\
             QUEUE    PENDING  ACTIVE  SCHEDULED  RETRY  ARCHIVED  COMPLETED  GROUPED  RUNS TODAY  FAILED  WAITING\n\
             default     1200       0          0      0        34          0        0          99       5     1m1s\n\
             low            0       0          0      0         0          0        0           0       0        -  paused\n\
             \n\
             WORKER    STATUS  BUSY  QUEUES\n\
             web-1:42  active  1/10  default=3 low=1\n"
        );
        statistics.queues_left_out = 7;
        assert!(
            to_text(&statistics).contains("low            0") && to_text(&statistics).contains("and 7 more queues\n")
        );
        (statistics.queues, statistics.servers) = (Vec::new(), Vec::new());
        let nothing = to_text(&statistics);
        assert!(nothing.contains("no queues yet") && nothing.contains("no worker is listed"), "{nothing}");
        statistics.servers_unreadable = Some("h:1: no answer".to_owned());
        let unknown = to_text(&statistics);
        assert!(unknown.ends_with("\nthe list of servers cannot be read: h:1: no answer\n"), "{unknown}");
        assert!(!unknown.contains("no worker is listed"), "{unknown}");
    }
}
