//! Programs that are killed in the middle of all their work, again and again.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    fs::{self, File},
    io::Write as _,
    path::PathBuf,
};

use asynq_runtime::broker::{Inspect as _, Maintain as _, RetryOrder};
use asynq_test_support::{eventually, soon};

use super::*;
use crate::child::Program;

/// The child's part until it is killed, on the file `jobs.db` beside its log. The child writes down the tasks that it is about to
/// settle, and the tasks that were accepted and settled, so that the parent can add up.
pub(crate) async fn enqueues_and_settles(log: &Path) {
    let file = log.with_file_name("jobs.db");
    let mut log = File::create(log).unwrap();
    let mut write = |word: &str, ids: &[&str]| {
        let lines: String = ids.iter().map(|id| format!("{word} {id}\n")).collect();
        log.write_all(lines.as_bytes()).unwrap();
    };
    let broker = open_tenacious(&file).await;
    let member = join(&broker).await;
    for round in 0_u64.. {
        let fresh: Vec<_> = (0..8).map(|_| TaskId::random().to_string()).collect();
        let answers = broker.enqueue(fresh.iter().map(|id| task(id)).collect()).await;
        let stored = fresh.iter().zip(&answers).filter(|(_, answer)| answer.is_ok()).map(|(id, _)| &**id);
        write("accepted", &stored.collect::<Vec<_>>());
        let runs = dequeue(&broker, &member, 12).await;
        write("settling", &ids(&runs));
        let outcomes: Vec<_> = runs
            .iter()
            .enumerate()
            .map(|(n, run)| match (round + n as u64) % 20 {
                0 => outcome(run, Action::Requeue),
                1 => {
                    let action =
                        Action::Retry { delay: Duration::ZERO, error: None, counted: false, extra: Extra::default() };
                    outcome(run, action)
                }
                _ => outcome(run, Action::Done),
            })
            .collect();
        for (outcome, settled) in outcomes.iter().zip(broker.settle(&outcomes).await) {
            assert_eq!(settled.unwrap(), Settled::Ok, "no program may take the tasks of a living one");
            if outcome.action == Action::Done {
                write("done", &[outcome.run.id.as_str()]);
            }
        }
        broker.forward(&[queue()], RetryOrder::Last).await.unwrap();
        broker.recover(&[queue()]).await.unwrap();
    }
}

struct Worker {
    program: Program,
    log: PathBuf,
}

fn start(folder: &Path, number: usize) -> Worker {
    let log = folder.join(format!("log-{number}"));
    Worker { program: Program::start("chaos", &log), log }
}

impl Worker {
    /// Kills the program in the middle of its work.
    async fn kill(self) -> PathBuf {
        let has_settled = async || (read(&self.log, "done").len() > 50).then_some(());
        eventually("the child settles tasks", has_settled).await;
        self.program.kill();
        self.log
    }
}

/// Returns the ids after a word, in the lines that were written whole.
fn read(log: &Path, word: &str) -> Vec<String> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().filter_map(|line| line.strip_prefix(word)?.strip_prefix(' ')).map(str::to_owned).collect()
}

#[tokio::test]
async fn programs_killed_in_the_middle_lose_nothing_and_settle_nothing_twice() {
    let (folder, file) = new_file();
    let broker = open(&file).await;
    let mut workers: VecDeque<_> = (0..3).map(|number| start(folder.path(), number)).collect();
    let mut logs = Vec::new();
    let rounds = std::env::var("ASYNQ_TEST_CHAOS_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(8);
    for round in 0..rounds + workers.len() {
        logs.push(workers.pop_front().unwrap().kill().await);
        if round < rounds {
            workers.push_back(start(folder.path(), 3 + round));
        }
    }

    // No lease has lapsed. The lock files of the dead programs are free.
    soon(async { while broker.recover(&[queue()]).await.unwrap().more {} }).await;
    assert_eq!(broker.queue_stats(&queue()).await.unwrap().active, 0);
    let member = join(&broker).await;
    let mut done: BTreeMap<String, usize> = BTreeMap::new();
    let mut size = broker.queue_stats(&queue()).await.unwrap().size;
    loop {
        broker.forward(&[queue()], RetryOrder::Last).await.unwrap();
        let runs = dequeue(&broker, &member, 256).await;
        if runs.is_empty() {
            break;
        }
        let outcomes: Vec<_> = runs.iter().map(|run| outcome(run, Action::Done)).collect();
        for (run, settled) in runs.iter().zip(broker.settle(&outcomes).await) {
            assert_eq!(settled.unwrap(), Settled::Ok);
            *done.entry(run.key.id.to_string()).or_default() += 1;
        }
        let left = broker.queue_stats(&queue()).await.unwrap().size;
        assert!(left < size, "{left} of {size} tasks are left after {} were done", runs.len());
        size = left;
    }
    let (mut accepted, mut settling) = (HashSet::new(), HashSet::new());
    for log in &logs {
        accepted.extend(read(log, "accepted"));
        settling.extend(read(log, "settling"));
        for id in read(log, "done") {
            *done.entry(id).or_default() += 1;
        }
    }
    let twice: Vec<_> = done.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "settled twice: {twice:?}");
    // A program that was killed between the commit and its note has settled a task without a note.
    let unsaid: Vec<_> = accepted.iter().filter(|id| !done.contains_key(*id)).collect();
    let lost: Vec<_> = unsaid.iter().filter(|id| !settling.contains(**id)).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    assert!(unsaid.len() <= 12 * logs.len(), "{} unsaid", unsaid.len());
    let stats = broker.queue_stats(&queue()).await.unwrap();
    assert_eq!(stats.size, 0);
    assert!(stats.processed_total >= done.len() as u64);
    println!("{} kills, {} accepted, {} done without saying so", logs.len(), accepted.len(), unsaid.len());
    broker.close().await;
    super::others::check_whole(&file);
}
