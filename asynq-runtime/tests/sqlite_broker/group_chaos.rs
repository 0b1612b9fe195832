//! Programs that are killed while they take sets and end them (RELIABILITY F16).

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::Write as _,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
};

use asynq_runtime::{
    broker::{Broker as _, GroupRules, Groups as _, Inspect as _, Page, SetOutcome, TaskSet},
    task::{GroupName, TaskState},
};

use super::*;

/// Set in a child process: the file it works on, and where it writes what was accepted.
const CHILD: &str = "ASYNQ_TEST_SQLITE_GROUP_CHAOS";

fn group() -> GroupName {
    GroupName::new("g").unwrap()
}

/// What is made of a set says which tasks it is made of.
fn sum(set: &TaskSet) -> NewTask {
    let mut sum = task(set.task_id(0).as_str());
    let ids: Vec<_> = set.members.iter().map(|member| member.id.as_str()).collect();
    sum.message.payload = ids.join(" ").into_bytes().into();
    sum.id_is_ours = true;
    sum
}

/// Not a test: what each child does until it is killed.
#[tokio::test]
async fn child_process() {
    let Some(log) = std::env::var_os(CHILD).map(PathBuf::from) else { return };
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

fn start(folder: &Path, number: usize) -> (Child, PathBuf) {
    let log = folder.join(format!("log-{number}"));
    let process = Command::new(std::env::current_exe().unwrap())
        .args(["group_chaos::child_process", "--exact", "--test-threads=1"])
        .env(CHILD, &log)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    (process, log)
}

#[tokio::test]
async fn programs_killed_amid_their_sets_make_every_task_a_part_of_one_thing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.db");
    open(&file).await.close().await;
    let rounds = std::env::var("ASYNQ_TEST_CHAOS_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(6);
    let mut workers: Vec<_> = (0..3).map(|number| start(folder.path(), number)).collect();
    let mut logs = Vec::new();
    for round in 0..rounds + workers.len() {
        thread::sleep(Duration::from_millis(200));
        let (mut process, log) = workers.remove(0);
        assert!(process.try_wait().unwrap().is_none(), "no child may end by itself");
        process.kill().unwrap();
        process.wait().unwrap();
        logs.push(log);
        if round < rounds {
            workers.push(start(folder.path(), 3 + round));
        }
    }

    let later = ManualClock::new(chrono::Utc::now() + TaskSet::DEADLINE + Duration::from_secs(1));
    let broker = SqliteBroker::open(&url(&file), SqliteOptions::with_clock(later)).await.unwrap();
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
    for waiting in broker.group_tasks(&queue(), &group(), page).await.unwrap() {
        *parts.entry(waiting.id.to_string()).or_default() += 1;
    }
    let twice: Vec<_> = parts.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "part of two things: {twice:?}");
    let accepted: BTreeSet<String> = logs
        .iter()
        .flat_map(|log| {
            let text = fs::read_to_string(log).unwrap_or_default();
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            whole.lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    let lost: Vec<_> = accepted.iter().filter(|id| !parts.contains_key(*id)).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    assert!(sums > 0);
    println!("{} kills, {} accepted, {sums} aggregated, {reclaimed} sets reclaimed", logs.len(), accepted.len());
    broker.close().await;
    super::others::check_whole(&file);
}
