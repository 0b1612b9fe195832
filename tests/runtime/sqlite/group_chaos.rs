//! Programs that are killed while they take sets and end them.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs::{self, File},
    io::Write as _,
    path::PathBuf,
};

use asynq_runtime::{
    broker::{GroupRules, Groups as _, Inspect as _, Page, SetOutcome, TaskSet},
    task::TaskState,
};

use asynq_test_support::eventually;

use super::*;
use crate::child::Program;

/// Makes a task of a set that names the tasks which it is made of.
fn sum(set: &TaskSet) -> NewTask {
    let mut sum = task(set.task_id(0).as_str());
    let ids: Vec<_> = set.members.iter().map(|member| member.id.as_str()).collect();
    sum.message.payload = ids.join(" ").into_bytes().into();
    sum.id_is_ours = true;
    sum
}

/// The child's part until it is killed, on the file `jobs.db` beside its log of accepted tasks.
pub(crate) async fn aggregates(log: &Path) {
    let broker = open(&log.with_file_name("jobs.db")).await;
    let mut log = File::create(log).unwrap();
    let rules = GroupRules { max_delay: Some(Duration::ZERO), max_size: Some(5), ..GroupRules::default() };
    for round in 0_u64.. {
        let fresh: Vec<_> = (0..8).map(|_| TaskId::random().to_string()).collect();
        let tasks = fresh.iter().map(|id| NewTask { group: Some(group()), ..task(id) }).collect();
        assert!(broker.enqueue(tasks).await.iter().all(Result::is_ok));
        log.write_all(fresh.iter().map(|id| format!("{id}\n")).collect::<String>().as_bytes()).unwrap();
        for n in 0..2 {
            let Some(set) = broker.claim_set(&queue(), &group(), &rules).await.unwrap() else { continue };
            if (round + n) % 7 == 0 {
                broker.release_set(&set).await.unwrap();
            } else {
                let outcome = SetOutcome { made: vec![sum(&set)], ..SetOutcome::default() };
                broker.finish_set(&set, &outcome).await.unwrap();
            }
        }
    }
}

fn start(folder: &Path, number: usize) -> (Program, PathBuf) {
    let log = folder.join(format!("log-{number}"));
    (Program::start("group_chaos", &log), log)
}

/// Returns the ids of accepted tasks, in the lines that were written whole.
fn accepted(log: &Path) -> Vec<String> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn programs_killed_amid_their_sets_make_every_task_a_part_of_one_thing() {
    let (folder, file) = new_file();
    open(&file).await.close().await;
    let rounds = std::env::var("ASYNQ_TEST_CHAOS_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(6);
    let mut workers: VecDeque<_> = (0..3).map(|number| start(folder.path(), number)).collect();
    let mut logs = Vec::new();
    for round in 0..rounds + workers.len() {
        let (program, log) = workers.pop_front().unwrap();
        // Each round enqueues eight tasks, and then two sets are taken.
        eventually("the child aggregates", async || (accepted(&log).len() > 40).then_some(())).await;
        program.kill();
        logs.push(log);
        if round < rounds {
            workers.push_back(start(folder.path(), 3 + round));
        }
    }

    let later = ManualClock::new(chrono::Utc::now() + TaskSet::DEADLINE + Duration::from_secs(1));
    let broker = SqliteBroker::open(&url(&file), with_clock(later)).await.unwrap();
    let reclaimed = broker.reclaim_sets(&queue()).await.unwrap();
    assert!(reclaimed <= logs.len(), "each program had one set at most: {reclaimed}");
    let page = Page { number: 1, size: usize::MAX };
    let mut parts: BTreeMap<String, usize> = BTreeMap::new();
    for sum in broker.tasks(&queue(), TaskState::Pending, page).await.unwrap() {
        for id in String::from_utf8(sum.payload.to_vec()).unwrap().split(' ') {
            *parts.entry(id.to_owned()).or_default() += 1;
        }
    }
    let sums = parts.len();
    for waiting in broker.list(&queue(), TaskState::Aggregating, Some(&group()), page, None).await.unwrap() {
        *parts.entry(waiting.id.to_string()).or_default() += 1;
    }
    let twice: Vec<_> = parts.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "part of two things: {twice:?}");
    let accepted: BTreeSet<String> = logs.iter().flat_map(|log| accepted(log)).collect();
    let lost: Vec<_> = accepted.iter().filter(|id| !parts.contains_key(*id)).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    assert!(sums > 0);
    println!("{} kills, {} accepted, {sums} aggregated, {reclaimed} sets reclaimed", logs.len(), accepted.len());
    broker.close().await;
    super::others::check_whole(&file);
}
