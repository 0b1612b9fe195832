//! `deploy check` says yes only after it has looked at every task.

use asynq_runtime::{Registry, broker::NewTask, job, job::JobsLock, prelude::*};
use asynq_tests::{Build as _, RedisStore, Store, archive, default_queue, task, task_id};

use crate::fixture::{Answer, CliFixture, on_both_brokers};

#[job(name = "cli:ship", codec = "json")]
async fn ship(n: u32) -> JobResult {
    let _ = n;
    Ok(())
}

/// A task that the program of `jobs.lock` reads.
fn readable(id: &str) -> NewTask {
    let mut task = task(id).with_payload("{\"n\":1}");
    task.message.r#type = "cli:ship".into();
    task
}

/// Checks against the lock of a program that knows `ship` alone.
async fn check<S: Store>(cli: &CliFixture<S>, flags: &[&str]) -> Answer {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.lock");
    let lock = JobsLock::default().with(&Registry::only::<(ship,)>().unwrap());
    std::fs::write(&file, lock.to_string()).unwrap();
    cli.run_words(&[&["deploy", "check", file.to_str().unwrap()], flags].concat()).await
}

async fn fill<S: Store>(cli: &CliFixture<S>, tasks: usize) {
    for answer in cli.t.broker().enqueue((0..tasks).map(|n| readable(&format!("t{n}"))).collect()).await {
        answer.unwrap();
    }
}

on_both_brokers! {
    async fn a_check_that_ends_at_its_limit_proves_nothing(cli) {
        let nothing = check(&cli, &["--limit", "0"]).await;
        assert!(nothing.code == 0 && nothing.out == "no task waits\n", "{nothing}");
        fill(&cli, 201).await;
        for (limit, more) in [("0", "201 more"), ("1", "200 more"), ("200", "and 1 more")] {
            let cut = check(&cli, &["--limit", limit]).await;
            assert_eq!(cut.code, 1, "{cut}");
            let expected = format!("the check is not complete: at most {limit} tasks");
            assert!(cut.err.contains(&expected) && cut.err.contains(more), "{cut}");
            assert_eq!(cut.out == "no task was looked at\n", limit == "0", "{cut}");
        }
        let whole = check(&cli, &["--limit", "201", "--json"]).await;
        assert!(whole.code == 0 && whole.out.contains("\"tasks\": 201"), "{whole}");
    }

    async fn a_task_that_cannot_be_read_ends_no_look_and_is_told(cli) {
        fill(&cli, 400).await;
        cli.t.enqueue(task("stranger")).await;
        cli.t.store.overwrite_message(&default_queue(), &task_id("t7"), b"\xff");
        let answer = check(&cli, &["--json"]).await;
        assert_eq!(answer.code, 1, "{answer}");
        assert!(answer.err.contains("1 waiting task would be requeued"), "the last task is found: {answer}");
        assert!(answer.out.contains("\"tasks\": 399"), "{answer}");
        assert!(answer.err.contains("the check is not complete: 1 task cannot be read"), "{answer}");
    }

    async fn a_queue_that_cannot_be_read_is_named_and_the_others_are_counted(cli) {
        let Some(go) = cli.t.go() else { return };
        fill(&cli, 1).await;
        cli.t.enqueue(readable("sound").in_queue("low")).await;
        go.put_text("pending");
        let answer = check(&cli, &[]).await;
        assert_eq!(answer.code, 1, "{answer}");
        assert!(answer.out.contains("cli:ship") && answer.out.contains("low"), "{answer}");
        assert!(answer.err.contains("error: queue `default` cannot be read: "), "{answer}");
        let none = check(&cli, &["-q", "default"]).await;
        assert!(none.code == 1 && none.out == "no task was looked at\n", "{none}");
    }

    async fn an_archived_task_is_told_apart_from_those_that_wait(cli) {
        fill(&cli, 1).await;
        let run = cli.t.take_one().await;
        cli.t.settle(&run, archive("boom")).await;
        assert_eq!(check(&cli, &[]).await.code, 0);
        cli.t.enqueue(task("stranger")).await;
        let run = cli.t.take_one().await;
        cli.t.settle(&run, archive("boom")).await;
        let answer = check(&cli, &[]).await;
        assert_eq!(answer.code, 1, "{answer}");
        assert!(answer.err.contains("1 archived task would be requeued and archived again by a run"), "{answer}");
        assert!(!answer.err.contains("waiting"), "{answer}");
        let answer = check(&cli, &["--json"]).await;
        assert_eq!(answer.out.matches("\"archived\": 1").count(), 2, "{answer}");
    }
}

#[tokio::test]
async fn the_tasks_of_very_many_groups_are_counted_and_not_estimated() {
    let cli = CliFixture::<RedisStore>::start().await;
    let (broker, queue) = (cli.t.broker(), default_queue());
    let enqueue = async |tasks: Vec<NewTask>| {
        for answer in broker.enqueue(tasks).await {
            answer.unwrap();
        }
    };
    let grouped = |n: usize, group: &str| readable(&format!("t{n}")).grouped(group);
    enqueue((0..3_000).map(|n| grouped(n, &format!("g{n}"))).collect()).await;
    let mut page = broker.groups(&queue, None, 500).await.unwrap();
    let mut last = page.groups[0].group.clone();
    while let Some(next) = page.next.take() {
        page = broker.groups(&queue, Some(&next), 500).await.unwrap();
        last = page.groups.last().map_or(last, |stats| stats.group.clone());
    }
    // The numbers of a queue estimate the tasks by the first groups that Redis returns.
    enqueue((3_000..3_499).map(|n| grouped(n, last.as_str())).collect()).await;
    assert_eq!(broker.queue_stats(&queue).await.unwrap().aggregating, 3_000);
    let answer = check(&cli, &["--json"]).await;
    assert!(answer.code == 0 && answer.out.contains("\"tasks\": 3499"), "{answer}");
    // A bulk ends at the estimate. The rest was there before it began.
    let answer = cli.run("task run-all -q default -s aggregating --yes").await;
    assert!(answer.code == 0 && answer.err.contains("the command did not reach 499 tasks; ask again"), "{answer}");
}
