//! Warns at the start of a server of settings that do not go with its jobs, with other servers or with the tasks that wait.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use asynq_grammar::{nearest, shell};

use super::{Server, queues::Entry, retry_backoff::RetryBackoff, server_context::ServerContext};
use crate::task::QueueName;

/// Most queues of one server that are asked for groups.
const MOST_ASKED: usize = 100;
/// Longest pause before queues are asked again that could not be asked.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Warns where a panic cannot be caught: a program is built with one strategy for panics, this crate included.
pub(super) fn panics_abort() {
    if cfg!(panic = "abort") {
        log!(
            warn,
            "this program is built with panic = \"abort\": a job that panics ends the worker, and each task that runs there has one \
             crash more; leave that line out of the profile in Cargo.toml"
        );
    }
}

/// Warns of jobs whose tasks this server does not take, or whose groups it leaves to others.
pub(super) fn unserved_jobs(server: &Server) {
    let served = &server.parts.config.queues;
    let of_jobs: HashSet<&str> = server.registry().iter().map(|job| job.options.queue).collect();
    let mut unserved: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for job in server.registry().iter() {
        let queue = job.options.queue;
        if !served.iter().any(|entry| entry.pattern.matches(queue)) {
            unserved.entry(queue).or_default().push(job.name);
        } else if let Some(group) = job.options.group
            && !server.parts.aggregations.takes(group, job.name)
        {
            log!(
                warn,
                job = job.name,
                group,
                "this worker does not aggregate the job: its tasks wait in their group for a worker that does"
            );
        }
    }
    for (queue, jobs) in unserved {
        let advice = advice(mistaken(queue, served, &of_jobs));
        log!(warn, queue, jobs = jobs.join(", "), "this worker does not serve the queue of these jobs: {advice}");
    }
}

/// Says what to do about a queue that is not served; `mistaken` may only look like a slip, such as the queue of a job that is left out.
fn advice(mistaken: Option<(&str, String)>) -> String {
    let hint = mistaken.map(|(name, meant)| format!("it serves `{name}`; did you mean `{meant}`? Else, "));
    hint.unwrap_or_default() + "unless another worker serves that queue, add it to --queues or by App::queue"
}

/// Returns the name of a served queue that no job of this worker names, and what may be meant by it: this queue, written otherwise.
fn mistaken<'e>(queue: &str, served: &'e [Entry], of_jobs: &HashSet<&str>) -> Option<(&'e str, String)> {
    let names = served.iter().filter(|entry| entry.pattern.is_exact()).map(|entry| entry.pattern.as_str());
    names.filter(|name| !of_jobs.contains(name)).find_map(|name| {
        // Sidekiq writes a weight behind a colon.
        let weight = name.strip_prefix(queue).and_then(|rest| rest.strip_prefix(':')?.parse::<u32>().ok());
        let meant = match weight {
            Some(weight) => format!("{queue}={weight}"),
            None => nearest(name, [queue])?.to_owned(),
        };
        Some((name, meant))
    })
}

/// Warns of archives that are larger than a Go server lets them be. The script by which it archives a task deletes all tasks beyond
/// its own limits, and fails half way where there are thousands.
pub(super) async fn gos_archive(context: &ServerContext) {
    let archives = &context.config.archives;
    if archives.is_empty() {
        return;
    }
    let Ok(servers) = context.answer(context.broker.servers()).await else { return };
    let gos = servers.iter().filter(|server| server.info.is_gos()).flat_map(|server| &server.info.queues);
    if let Some(queue) = gos.filter_map(|served| served.queue.as_deref()).find(|queue| archives.exceed_gos(queue)) {
        log!(
            warn,
            queue,
            "a Go server serves a queue with a larger archive than Go's: when it archives a task it deletes those beyond 10,000 or \
             older than 90 days, and fails where they are thousands; keep to its limits"
        );
    }
}

/// Warns of tasks that wait in groups where this server aggregates nothing: a version of the program without the aggregation may be
/// the only one that is left. Asks each queue until it answers once, also those that a pattern finds later, until it is dropped. While
/// the broker is away, a pass ends with the first queue: the others are away with it.
pub(super) async fn left_groups(context: Arc<ServerContext>) {
    let mut asked: HashSet<QueueName> = HashSet::new();
    let mut retry_backoff = RetryBackoff::new("warnings", LONGEST_PAUSE);
    while context.aggregations.is_empty() && asked.len() < MOST_ASKED {
        let queues = context.queues.now();
        let fresh: Vec<_> = queues.names().iter().filter(|queue| !asked.contains(*queue)).take(MOST_ASKED).collect();
        let mut failed = None;
        for queue in fresh {
            let page = context.answer(context.broker.groups(queue, None, 1)).await;
            match page.as_ref().err().filter(|error| error.is_unavailable()) {
                Some(error) => failed = Some(error.clone()),
                // Any other error would come again.
                None => _ = asked.insert(queue.clone()),
            }
            if failed.is_some() && !context.broker.has_parts() {
                break;
            }
            if let Some(first) = page.iter().flat_map(|page| &page.groups).next() {
                log!(
                    warn,
                    %queue,
                    group = %first.group,
                    "tasks wait in groups, and this worker aggregates nothing: if no other worker does, and their job does the work by \
                     itself, too, `{}` runs each",
                    run_each(queue)
                );
            }
        }
        let Some(error) = failed else {
            retry_backoff.on_success();
            context.queues.changed(&queues).await;
            continue;
        };
        tokio::select! {
            () = context.queues.changed(&queues) => {}
            () = tokio::time::sleep(retry_backoff.on_error(&error)) => {}
        }
    }
}

/// Returns the command that runs each grouped task of the queue by itself.
fn run_each(queue: &QueueName) -> String {
    format!("asynq task run-all --queue={} --state aggregating", shell::quote(queue.as_str()))
}

#[cfg(test)]
mod tests {
    use asynq_grammar::{Pattern, names::check_queue};

    use super::*;

    #[test]
    fn the_advice_holds_also_where_the_served_queue_is_not_a_slip() {
        let add = "unless another worker serves that queue, add it to --queues or by App::queue";
        assert_eq!(advice(None), add);
        let expected = format!("it serves `mail`; did you mean `mails`? Else, {add}");
        assert_eq!(advice(Some(("mail", "mails".to_owned()))), expected);
    }

    #[test]
    fn the_name_of_a_queue_is_one_word_of_a_command() {
        let queue = QueueName::from_wire("a b; c");
        assert_eq!(run_each(&queue), "asynq task run-all --queue='a b; c' --state aggregating");
    }

    #[test]
    fn a_served_queue_that_is_a_slip_for_that_of_a_job_is_found() {
        let of_jobs = HashSet::from(["critical", "mail", "mails"]);
        for (served, expected) in [
            ("critcal", Some("critical")),
            ("critical:6", Some("critical=6")),
            ("critical:x", Some("critical")),
            ("low", None),
            // It is the queue of another job.
            ("mail", None),
            ("critica*", None),
        ] {
            let pattern = Pattern::new(served, check_queue).unwrap();
            let entries = [Entry { pattern, weight: 1, limit: None }];
            let expected = expected.map(|meant| (served, meant.to_owned()));
            assert_eq!(mistaken("critical", &entries, &of_jobs), expected);
            assert_eq!(mistaken("mails", &entries, &of_jobs), None, "{served}");
        }
    }
}
