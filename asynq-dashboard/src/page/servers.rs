//! `/servers`: the servers that run, and their tasks now.

use asynq_runtime::{
    broker::ServerState,
    task::{Timestamp, WorkerInfo},
};
use axum::extract::State;
use chrono::{DateTime, Utc};
use maud::{Markup, html};

use super::{
    Page, Tab,
    broker::PATIENCE,
    format::{count, counted, when, when_known},
    part::{
        listing::empty,
        text::{cell, id},
    },
};
use crate::{
    failure::Failure,
    path::{UrlQuery, href, segment, with_query},
    span::{PageQuery, Span},
    state::AppState,
};

/// Most running tasks of one server that are listed.
const MOST_RUNNING: usize = 100;
/// Most queues of one server that are listed.
const MOST_QUEUES: usize = 100;
/// Servers on one page.
const PER_PAGE: usize = 200;
/// The meaning of a run that is stuck.
pub(super) const STUCK: &str = "its time is over and its thread has not returned; task and slot wait for it";

/// Answers `/servers`.
pub(crate) async fn get(State(app): State<AppState>, UrlQuery(params): UrlQuery<PageQuery>) -> Result<Page, Failure> {
    let servers = app.inspector.servers().await?;
    let now = app.client.broker().now();
    // A broker that takes no writes does not take the servers' reports either.
    let (mut refuses_writes, mut waiting) = (false, false);
    if servers.is_empty() {
        let report = app.nodes.latest(PATIENCE).await;
        waiting = report.is_none();
        let list = report.and_then(|report| report.value.ok());
        refuses_writes = list.is_some_and(|list| list.nodes.iter().any(|node| node.refuses_writes.is_some()));
    }
    let body = render(&app.config.mount, &servers, params.page, refuses_writes, now);
    Ok(Page::new("Servers", Tab::Servers, body).waiting(waiting))
}

fn render(mount: &str, servers: &[ServerState], page: usize, refuses_writes: bool, now: DateTime<Utc>) -> Markup {
    let span = Span::new(page, PER_PAGE, servers.len() as u64);
    let mut listed: Vec<&ServerState> = servers.iter().collect();
    // Those with a stuck run come first.
    listed.sort_by_cached_key(|server| stuck(server, now) == 0);
    let running: usize = servers.iter().map(|server| server.workers.len()).sum();
    let stuck: usize = servers.iter().map(|server| stuck(server, now)).sum();
    let room: i64 = servers.iter().map(|server| i64::from(server.info.concurrency)).sum();
    html! {
        div.title {
            h1 { "Servers" }
            p { (counted(servers.len() as u64, "server")) ", " (count(running as u64)) " of " (count(u64::try_from(room).unwrap_or(0))) " slots busy" }
            @if stuck > 0 { span.tag.bad { (count(stuck as u64)) " stuck" } }
        }
        @if servers.is_empty() && refuses_writes {
            div.panel { (empty("No server is listed", &html! {
                p { "The broker takes no writes, so that servers which run cannot report it. " code { "asynq doctor" } " says why." }
            })) }
        } @else if servers.is_empty() {
            div.panel { (empty("No server is running", &html! {
                p { "Tasks wait until a worker runs. Start your program as one: " code { "my-program worker" } " or build a " code { "Server" } ". A server is listed within 5 seconds." }
            })) }
        }
        @for server in listed.into_iter().skip(span.offset()).take(PER_PAGE) { (one(mount, server, now)) }
        @if span.last() > 1 { (span.pages(|page| with_query(&href(mount, &["servers"]), &[("page", &page.to_string())]))) }
    }
}

fn one(mount: &str, server: &ServerState, now: DateTime<Utc>) -> Markup {
    let info = &server.info;
    let mut workers: Vec<&WorkerInfo> = server.workers.iter().collect();
    workers.sort_by_key(|worker| (!worker.is_stuck(now), worker.start_time.and_then(Timestamp::to_datetime)));
    html! {
        section.panel.flush id={ "s-" (info.server_id) } {
            div.row {
                h2 { (cell(&info.host)) ":" (info.pid) }
                span.tag.warn[info.status != "active"] { (cell(&info.status)) }
                span.tag { @if info.is_gos() { "Go" } @else { "Rust " (cell(&info.rust_version)) } }
                span.soft { "started " (when_known(now, info.start_time.and_then(Timestamp::to_datetime))) }
                span.grow {}
                span { strong { (count(server.workers.len() as u64)) } " of " (count(u64::try_from(info.concurrency).unwrap_or(0))) " busy" }
            }
            div.row.soft {
                span { @if info.strict_priority { "Strictly in this order:" } @else { "Queues by weight:" } }
                @for (name, weight) in info.weights().into_iter().take(MOST_QUEUES) { a.tag href=(href(mount, &["queues", name])) { (cell(name)) " " (weight) } }
                @if info.queues.len() > MOST_QUEUES { span { (count((info.queues.len() - MOST_QUEUES) as u64)) " more are not listed." } }
                span.grow {}
                span.mono { (cell(&info.server_id)) }
            }
            @if !workers.is_empty() {
                div.scroll { table.cards {
                    thead { tr {
                        th scope="col" { "Runs" } th scope="col" { "Type" } th scope="col" { "Queue" } th scope="col" { "Since" } th scope="col" { "Must end" }
                    } }
                    tbody { @for worker in workers.iter().take(MOST_RUNNING) { (run(mount, worker, now)) } }
                } }
                @if workers.len() > MOST_RUNNING { p.pages { (count((workers.len() - MOST_RUNNING) as u64)) " more run here." } }
            }
        }
    }
}

/// Returns how many runs of the server outlive their deadlines.
fn stuck(server: &ServerState, now: DateTime<Utc>) -> usize {
    server.workers.iter().filter(|worker| worker.is_stuck(now)).count()
}

fn run(mount: &str, worker: &WorkerInfo, now: DateTime<Utc>) -> Markup {
    let time = |at: Option<Timestamp>| at.and_then(Timestamp::to_datetime);
    html! {
        tr id={ "t-" (segment(&worker.queue)) "/" (segment(&worker.task_id)) } {
            th.id scope="row" { a href=(href(mount, &["queues", &worker.queue, "tasks", &worker.task_id])) { (id(&worker.task_id)) } }
            td.short { (cell(&worker.task_type)) }
            td data-l="Queue" { (cell(&worker.queue)) }
            td data-l="Since" { (when_known(now, time(worker.start_time))) }
            td data-l="Must end" {
                @match time(worker.deadline) {
                    Some(at) if at < now => span.alarm { (when(now, at)) },
                    at => (when_known(now, at)),
                }
                @if worker.is_stuck(now) { " " span.tag.bad title=(STUCK) { "stuck" } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use asynq_runtime::task::{QueueWeight, ServerInfo};
    use chrono::TimeDelta;

    use super::*;

    fn server(workers: usize) -> ServerState {
        let info = ServerInfo {
            host: "<web>".into(),
            concurrency: 10,
            status: "active".into(),
            queues: ["low", "high"]
                .iter()
                .zip(1..)
                .map(|(name, weight)| QueueWeight { queue: Some((*name).into()), weight: Some(weight) })
                .collect(),
            ..ServerInfo::default()
        };
        ServerState::new(info, vec![WorkerInfo { task_id: "<t>".into(), ..WorkerInfo::default() }; workers])
    }

    #[test]
    fn running_tasks_are_listed_and_a_long_list_is_cut() {
        let html = render("", &[server(102)], 1, false, DateTime::UNIX_EPOCH).into_string();
        assert!(html.contains("1 server, 102 of 10 slots busy") && html.contains("2 more run here"), "{html}");
        assert!(!html.contains("<web>") && !html.contains("<t>"));
        assert!(html.contains("Go</span>"));
    }

    #[test]
    fn a_run_that_outlives_its_deadline_is_marked_and_stands_first() {
        let now = DateTime::from_timestamp(1_893_553_445, 0).unwrap();
        let at = |seconds| Some(Timestamp::from(now + TimeDelta::seconds(seconds)));
        let mut server = server(2);
        (server.workers[0].start_time, server.workers[0].deadline) = (at(-60), at(-9));
        (server.workers[1].start_time, server.workers[1].deadline) = (at(-30), at(-11));
        server.workers[1].task_id = "late".into();
        let html = render("", &[server], 1, false, now).into_string();
        assert!(html.contains("<span class=\"tag bad\">1 stuck</span>"), "{html}");
        assert_eq!(html.matches(STUCK).count(), 1);
        assert!(html.find("late").unwrap() < html.find("&lt;t&gt;").unwrap());
    }

    #[test]
    fn of_more_servers_than_a_page_has_a_stuck_one_is_first_and_all_are_reached() {
        let now = DateTime::from_timestamp(1_893_553_445, 0).unwrap();
        let mut servers = vec![server(1); PER_PAGE + 1];
        for (n, one) in servers.iter_mut().enumerate() {
            one.info.server_id = format!("id-{n}");
        }
        let at = |seconds| Some(Timestamp::from(now + TimeDelta::seconds(seconds)));
        let late = &mut servers[PER_PAGE].workers[0];
        (late.start_time, late.deadline) = (at(-30), at(-11));
        let page = |number| render("/jobs", &servers, number, false, now).into_string();
        let (first, second) = (page(1), page(2));
        assert!(first.contains(STUCK) && first.contains("id=\"s-id-198\""), "{first}");
        assert!(first.contains("/jobs/servers?page=2") && !first.contains("id=\"s-id-199\""), "{first}");
        assert!(second.contains("id=\"s-id-199\"") && second.contains("201–201 of 201"), "{second}");
        assert_eq!(second.matches("<section").count(), 1, "{second}");
    }

    #[test]
    fn an_empty_list_of_servers_has_a_hint() {
        let page = |refuses_writes| render("", &[], 1, refuses_writes, DateTime::UNIX_EPOCH).into_string();
        assert!(page(false).contains("No server is running"));
        assert!(page(true).contains("The broker takes no writes") && !page(true).contains("No server is running"));
    }

    #[test]
    fn a_row_keeps_its_focus_when_another_run_ends() {
        let html = render("", &[server(1)], 1, false, DateTime::UNIX_EPOCH).into_string();
        assert!(html.contains(r#"<tr id="t-/%3Ct%3E">"#), "{html}");
    }

    #[test]
    fn a_server_says_how_many_of_its_queues_are_not_listed() {
        let mut server = server(0);
        server.info.queues = vec![QueueWeight { queue: Some("q".into()), weight: Some(1) }; 102];
        let html = render("", &[server], 1, false, DateTime::UNIX_EPOCH).into_string();
        assert!(html.contains("2 more are not listed") && html.matches("/queues/q").count() == 100, "{html}");
    }

    #[test]
    fn the_heaviest_queue_is_first() {
        let html = render("", &[server(0)], 1, false, DateTime::UNIX_EPOCH).into_string();
        assert!(html.find("/queues/high").unwrap() < html.find("/queues/low").unwrap(), "{html}");
    }
}
