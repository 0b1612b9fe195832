//! Commands that change tasks and queues.

use std::time::Duration;

use asynq_runtime::{Client, RawTask, TaskState};
use asynq_tests::{Build as _, Persistence, RedisServer, lock_key, patient, queue, task, task_id};

use crate::fixture::{self, Setting, assert_written, on_both_brokers};

const HOUR: Duration = Duration::from_secs(3600);

on_both_brokers! {
    async fn queues_are_paused_and_go_on(cli) {
        cli.t.seed_pending(&["one"]).await;
        assert_written("queue_pause", &[
            cli.run("queue pause default future").await,
            cli.run("queue pause default --json").await,
            cli.run("queue unpause default").await,
            cli.run("queue resume default --json").await,
        ]);
        assert!(!cli.t.broker().queue_stats(&queue("future")).await.unwrap().paused, "no producer enqueued to it");
        assert!(!cli.t.broker().queue_stats(&queue("default")).await.unwrap().paused);
    }

    async fn a_command_on_several_names_that_is_stopped_lists_what_it_did(cli) {
        let t = &cli.t;
        t.seed_pending(&["one", "two", "three"]).await;
        for lock in ["a", "b"] {
            t.store.leave_lock(&queue("default"), &lock_key(lock), &task_id("missing"), t.now() + HOUR);
        }
        for (line, rows) in [("task archive -q default one two three --json", 2), ("lock rm -q default --stuck --yes --json", 1)] {
            let words: Vec<&str> = line.split(' ').collect();
            let stopped = cli.run_in(Setting { stop_after: Some(rows), ..Setting::default() }, &words).await;
            assert_eq!(stopped.code, 130, "{stopped}");
            assert!(stopped.err.contains(&format!("stopped: {rows} of {} were tried", rows + 1)), "{stopped}");
            let answered: serde_json::Value = serde_json::from_str(&stopped.out).unwrap();
            assert_eq!(answered.as_array().unwrap().len(), rows, "{answered}");
        }
        assert_eq!(t.broker().queue_stats(&queue("default")).await.unwrap().archived, 2);
        assert_eq!(cli.json("lock ls -q default").await.as_array().unwrap().len(), 1);
        // One name has nothing to stop before: no handler takes the signal, which ends the process.
        for line in ["task archive -q default three", "lock rm -q default --stuck --yes"] {
            let words: Vec<&str> = line.split(' ').collect();
            let done = cli.run_in(Setting { stop_after: Some(0), ..Setting::default() }, &words).await;
            assert_eq!(done.code, 0, "{done}");
        }
    }

    async fn a_name_that_is_given_twice_counts_once(cli) {
        cli.t.seed_pending(&["one"]).await;
        let archived = cli.run("task archive -q default one one --json").await;
        assert_eq!(archived.code, 0, "{archived}");
        let asked = cli.run_typing("n\n", "task delete -q default one one --json").await;
        assert!(asked.code == 3 && asked.err.contains("Delete task one of queue default?"), "{asked}");
        let missing = cli.run("lock rm -q default nix nix --yes --json").await;
        assert_eq!(missing.code, 1, "{missing}");
        for answer in [asked, missing] {
            let rows: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
            assert_eq!(rows.as_array().unwrap().len(), 1, "{answer}");
        }
        let asked = cli.run_typing("y\n", "queue rm default default --force").await;
        assert_eq!(asked.code, 0, "{asked}");
        assert!(asked.err.contains("Delete queue default with its counters and 1 task?"), "{asked}");
    }

    async fn queues_are_deleted_after_a_question(cli) {
        cli.t.seed_pending(&["one", "two"]).await;
        cli.t.enqueue(task("later").in_queue("low").after(HOUR)).await;
        assert_written("queue_rm", &[
            cli.run("queue rm default --yes").await,
            cli.run("queue rm default --force").await,
            cli.run_typing("n\n", "queue rm default --force").await,
            cli.run_typing("", "queue rm default --force").await,
            cli.run_typing("y\n", "queue rm default --force").await,
            cli.run("queue remove low -f -y --json").await,
            cli.run("queue rm low --yes").await,
            cli.run("queue ls").await,
        ]);
    }

    async fn stuck_locks_are_listed_and_freed_after_a_question(cli) {
        let t = &cli.t;
        t.enqueue(task("waits").locked(&lock_key("a"), 600)).await;
        t.store.leave_lock(&queue("default"), &lock_key("b"), &task_id("missing"), t.now() + HOUR);
        let listed = cli.json("lock ls -q default").await;
        assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
        for (limit, has_more) in [(1, true), (2, false)] {
            let listed = cli.run(&format!("lock ls -q default --limit {limit}")).await;
            assert_eq!(listed.err.contains("--limit shows more"), has_more, "{listed}");
        }
        let stuck = cli.json("lock ls -q default --stuck").await;
        assert_eq!((&stuck[0]["lock"], &stuck[0]["holder"]), (&"email:send:b".into(), &"missing".into()));
        assert!(stuck[0]["state"].is_null() && stuck.as_array().unwrap().len() == 1, "{stuck}");
        let output = cli.run("lock ls -q default --stuck").await;
        assert!(output.out.contains("email:send:b") && output.out.contains("gone"), "{output}");
        assert_eq!(cli.run_typing("n\n", "lock rm -q default --stuck").await.code, 3);
        assert_eq!(cli.run_typing("y\n", "lock rm -q default --stuck").await.code, 0);
        assert_eq!(cli.json("lock ls -q default --stuck").await.as_array().unwrap().len(), 0);
        let none = cli.run("lock rm -q default email:send:b --yes").await;
        assert!(none.code == 1 && none.err.contains("no lock \"email:send:b\" is held"), "{none}");
        let answer = cli.run("lock rm -q default email:send:a --yes --json").await;
        assert!(answer.code == 0 && answer.out.contains("\"holder\": \"waits\""), "{answer}");
        t.enqueue(task("equal").locked(&lock_key("a"), 600)).await;
    }

    /// No command knows the jobs of a program: the shape that an enqueue kept says how to read and write the arguments.
    async fn arguments_are_shown_and_edited_by_the_shape_that_the_broker_keeps(cli) {
        use asynq_runtime::{Client, prelude::*};

        #[job(name = "cli:transfer")]
        async fn transfer(to: String, cents: u64, pin: Secret<String>) -> JobResult {
            let _ = (to, cents, pin);
            Ok(())
        }

        let client = Client::new(cli.t.another_broker().await);
        let secret = Secret::new("4711".to_owned());
        transfer::job("ann", 700_u64, secret).task_id("t1").process_in("1h").enqueue(&client).await.unwrap();

        let output = cli.run("task inspect -q default t1").await;
        let arguments = r#"{"cents":700,"pin":"***","to":"ann"}"#;
        assert!(output.out.contains(arguments) && !output.out.contains("4711"), "{output}");
        let listed = cli.run("task ls -q default -s scheduled").await;
        assert!(listed.out.contains("\"cents\":700") && !listed.out.contains("4711"), "{listed}");
        let json = cli.json("task ls -q default -s scheduled").await;
        assert_eq!(json[0]["payload"]["encoding"], "arguments", "{json}");
        assert_eq!(json[0]["payload"]["data"].to_string(), arguments);
        assert_eq!(cli.json("task inspect -q default t1 --raw").await["payload"]["encoding"], "base64");

        let refused = cli.run_words(&["task", "edit", "-q", "default", "t1", "-y", "-l", r#"{"to":"bob","cents":-1}"#]).await;
        assert_eq!(refused.code, 1, "{refused}");
        let expected = "the arguments do not fit `cli:transfer`: `cents`: expected an integer from 0 to 18446744073709551615, \
                        found a number; write {to: str, cents: u64, pin: str}";
        assert!(refused.err.contains(expected), "{refused}");
        let new = r#"{"to":"bob","cents":900,"pin":"0815"}"#;
        let edited = cli.run_words(&["task", "edit", "-q", "default", "t1", "-y", "--json", "-l", new]).await;
        let bytes = client.inspector().task("default", "t1").await.unwrap().payload.len();
        assert!(edited.code == 0 && edited.out.contains(&format!("\"bytes\": {bytes}")), "{edited}");
        let read = |job: &mut transfer| assert_eq!((job.cents, job.pin.expose().as_str()), (900, "0815"));
        client.inspector().edit::<transfer>("default", "t1", read).await.unwrap();
    }

    async fn a_deploy_is_checked_against_the_tasks_that_wait(cli) {
        use asynq_runtime::{Client, Registry, job::JobsLock, prelude::*};

        mod old {
            use asynq_runtime::prelude::*;

            #[job(name = "cli:invoice")]
            pub(super) async fn invoice(euros: u32) -> JobResult {
                let _ = euros;
                Ok(())
            }
        }

        #[job(name = "cli:invoice")]
        async fn invoice(euros: u32, note: Option<String>) -> JobResult {
            let _ = (euros, note);
            Ok(())
        }

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.lock");
        let words = ["deploy", "check", file.to_str().unwrap()];
        let new = JobsLock::default().with(&Registry::only::<(invoice,)>().unwrap());
        std::fs::write(&file, new.to_string()).unwrap();
        let client = Client::new(cli.t.another_broker().await);
        invoice::job(1_u32, None).task_id("a").enqueue(&client).await.unwrap();
        let fine = cli.run_words(&words).await;
        assert!(fine.code == 0 && fine.out.contains("{euros: u32, note: str?}"), "{fine}");

        for id in ["b", "c"] {
            old::invoice::job(2_u32).task_id(id).process_in("1h").enqueue(&client).await.unwrap();
        }
        let stranded = cli.run_words(&words).await;
        assert!(stranded.code == 1 && stranded.err.contains("2 waiting tasks would be requeued"), "{stranded}");
        assert!(stranded.out.contains("IN FILE") && stranded.out.contains("is not in the file"), "{stranded}");
        let elsewhere = cli.run_words(&[&words[..], &["-q", "elsewhere"]].concat()).await;
        assert!(elsewhere.code == 0 && elsewhere.err.contains("there is no queue `elsewhere` yet"), "{elsewhere}");
        let twice = cli.run_words(&[&words[..], &["-q", "default", "-q", "default"]].concat()).await;
        assert!(twice.code == 1 && twice.err.contains("2 waiting tasks would be requeued"), "{twice}");
        let output = cli.run_words(&[&words[..], &["--json"]].concat()).await;
        let answer: serde_json::Value = serde_json::from_str(&output.out).unwrap();
        let readable: Vec<_> = answer.as_array().unwrap().iter().map(|row| (&row["tasks"], &row["readable"])).collect();
        let (one, two) = (serde_json::json!([1, true]), serde_json::json!([2, false]));
        assert!(readable.contains(&(&one[0], &one[1])) && readable.contains(&(&two[0], &two[1])), "{answer}");

        let both = new.with(&Registry::only::<(old::invoice,)>().unwrap());
        std::fs::write(&file, both.to_string()).unwrap();
        assert_eq!(cli.run_words(&words).await.code, 0);
        std::fs::write(&file, "not a lock").unwrap();
        let refused = cli.run_words(&words).await;
        assert!(refused.code == 2 && refused.err.contains("jobs.lock: line 1 cannot be read"), "{refused}");
    }

    async fn a_queue_with_running_tasks_stays(cli) {
        cli.t.seed_active("busy").await;
        let answer = cli.run("queue rm default --force --yes").await;
        assert_eq!(answer.code, 1);
        assert!(answer.err.contains("has 1 running tasks; pause it"), "{answer}");
        assert_eq!(cli.t.state_of("busy").await, Some(TaskState::Active));
    }

    async fn tasks_are_changed_one_by_one(cli) {
        cli.t.seed_every_state().await;
        assert_written("task_one", &[
            cli.run("task run -q default -i archived").await,
            cli.run("task run -q default scheduled active retry").await,
            cli.run("task archive -q default pending --json").await,
            cli.run("task archive -q default -i pending").await,
            cli.run("task delete -q default -i completed").await,
            cli.run_typing("yes\n", "task delete -q default -i completed").await,
            cli.run("task rm -q default pending nobody --yes").await,
            cli.run("task move -q default retry scheduled --to low").await,
            cli.run("task move -q default archived --to low --json").await,
            cli.run("task cancel active nobody").await,
            cli.run("task cancel active --json").await,
        ]);
        assert_eq!(cli.t.state_of("completed").await, None);
        assert_eq!(cli.t.broker().queue_stats(&queue("low")).await.unwrap().pending, 3);
    }

    async fn a_task_that_no_worker_runs_is_ended_by_cancel(cli) {
        cli.t.seed_active("orphan").await;
        cli.t.let_leases_pass();
        let answer = cli.run("task cancel orphan").await;
        assert_eq!(answer.out, "no worker ran task orphan in default: it was ended there\n");
        assert_eq!(cli.t.state_of("orphan").await, Some(TaskState::Retry));
        cli.t.seed_active("unreadable").await;
        cli.t.store.overwrite_message(&queue("default"), &task_id("unreadable"), b"\xff");
        cli.t.let_leases_pass();
        let answer = cli.run("task cancel unreadable").await;
        assert!(answer.code == 0 && answer.out.ends_with("unreadable in default: it was ended there\n"), "{answer}");
        assert_eq!(cli.t.state_of("unreadable").await, Some(TaskState::Archived));
    }

    async fn all_tasks_of_a_state_are_changed_together(cli) {
        let ids: Vec<String> = (0..250).map(|n| format!("t{n:03}")).collect();
        for id in &ids {
            cli.t.enqueue(task(id).after(HOUR)).await;
        }
        cli.t.seed_group("mails", &["one", "two"]).await;
        cli.t.seed_group("notes", &["three"]).await;
        assert_written("task_many", &[
            cli.run("task run-all -q default -s scheduled").await,
            cli.run("task archive-all -q default -s pending").await,
            cli.run_typing("y\n", "task archiveall -q default -s pending").await,
            cli.run("task runall -q default -s aggregating -g notes --yes").await,
            cli.run("task delete-all -q default -s pending --yes").await,
            cli.run("task deleteall -q default -s aggregating -g mails --yes --json").await,
            cli.run("task delete-all -q default -s archived --yes --json").await,
            cli.run("task delete-all -q default -s archived").await,
            cli.run("task run-all -q default -s pending").await,
            cli.run("task run-all -q default -s completed").await,
            cli.run("task archive-all -q default -s active --yes").await,
            cli.run("task run-all -q default -s aggregating -g none").await,
            cli.run("task run-all -q default -s archived -g mails").await,
        ]);
    }

    async fn tasks_of_a_group_do_not_run_by_themselves_without_a_yes(cli) {
        cli.t.seed_group("mails", &["one", "two"]).await;
        let line = "task run-all -q default -s aggregating";
        let refused = cli.run(line).await;
        let question = "Run by themselves, and not with their group, 2 aggregating tasks of queue default?";
        assert!(refused.code == 3 && refused.err.contains(question), "{refused}");
        assert_eq!(cli.t.state_of("one").await, Some(TaskState::Aggregating));
        assert_eq!(cli.run_typing("y\n", line).await.code, 0);
        assert_eq!(cli.t.state_of("one").await, Some(TaskState::Pending));
    }

    async fn ctrl_c_stops_between_two_slices_and_reports_the_progress(cli) {
        let ids: Vec<String> = (0..1250).map(|n| format!("t{n:04}")).collect();
        cli.t.seed_pending(&ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let words = ["task", "delete-all", "-q", "default", "-s", "pending", "--yes"];
        let stopped = cli.run_in(Setting { stop_after: Some(1), ..Setting::default() }, &words).await;
        assert_eq!(cli.t.broker().queue_stats(&queue("default")).await.unwrap().pending, 1150);
        let json = [&words[..], &["--json"]].concat();
        let stopped_json = cli.run_in(Setting { stop_after: Some(1), ..Setting::default() }, &json).await;
        assert_eq!(cli.t.broker().queue_stats(&queue("default")).await.unwrap().pending, 1050);
        assert_written("task_many_stopped", &[stopped, stopped_json, cli.run_words(&words).await]);
    }

    async fn ctrl_c_while_a_queue_is_deleted_leaves_it_running_and_the_rest_findable(cli) {
        // A later stop leaves the deletion further on: the queue paused, some slices deleted, the queue itself deleted.
        for wake_ups in 0.. {
            let name = format!("q{wake_ups}");
            let tasks = (0..250).map(|n| task(&format!("t{n:03}")).in_queue(&name)).collect();
            for answer in cli.t.broker().enqueue(tasks).await {
                answer.unwrap();
            }
            let words = ["queue", "rm", &name, "--force", "--yes"];
            let stopped = cli.run_in(Setting { stop_after: Some(wake_ups), ..Setting::default() }, &words).await;
            if stopped.code == 0 {
                assert!(wake_ups > 0, "the signal came first: {stopped}");
                break;
            }
            assert_eq!(stopped.code, 130, "{stopped}");
            let stats = cli.t.broker().queue_stats(&queue(&name)).await.unwrap();
            assert!(!stats.paused, "{stats:?}");
            let is_reported = stopped.err.contains(&format!("stopped: queue {name} is still there with "));
            assert!(is_reported && stopped.err.contains("the same command goes on"), "{stopped}");
            let again = cli.run_words(&words).await;
            assert_eq!(again.code, 0, "the same command goes on: {again}");
        }
    }

    async fn a_stopped_deletion_tells_of_a_pause_from_before(cli) {
        cli.t.seed_pending(&["one"]).await;
        assert_eq!(cli.run("queue pause default").await.code, 0);
        let words = ["queue", "rm", "default", "--force", "--yes"];
        let stopped = cli.run_in(Setting { stop_after: Some(0), ..Setting::default() }, &words).await;
        let expected = "queue default is still there with 1 task, paused as it was before; the same command goes on";
        assert!(stopped.code == 130 && stopped.err.contains(expected), "{stopped}");
    }

    async fn ctrl_c_keeps_the_queues_whose_turn_had_not_come(cli) {
        let mut is_between = false;
        // A later stop comes while a later queue is deleted.
        for wake_ups in 0.. {
            let [first, second, third] = ["a", "b", "c"].map(|name| format!("{name}{wake_ups}"));
            let tasks = [&first, &second].into_iter().flat_map(|name| (0..150).map(move |n| task(&format!("t{n}")).in_queue(name)));
            for answer in cli.t.broker().enqueue(tasks.chain([task("one").in_queue(&third)]).collect()).await {
                answer.unwrap();
            }
            let words = ["queue", "rm", &first, &second, &third, "--force", "--yes"];
            let stopped = cli.run_in(Setting { stop_after: Some(wake_ups), ..Setting::default() }, &words).await;
            if stopped.code == 0 {
                break;
            }
            assert_eq!(stopped.code, 130, "{stopped}");
            let size = async |name: &str| cli.t.broker().queue_stats(&queue(name)).await.unwrap().size;
            if size(&first).await == 0 && size(&second).await == 150 {
                is_between = true;
                assert!(stopped.err.contains(" of 3 were tried, the others are as they were\n"), "{stopped}");
            }
        }
        assert!(is_between, "no signal came after the first queue");
    }

    async fn several_queues_are_asked_about_at_once(cli) {
        for name in ["low", "other"] {
            cli.t.enqueue(task("one").in_queue(name)).await;
        }
        let answer = cli.run_typing("n\n", "queue rm nowhere low other --force").await;
        assert!(answer.code == 3 && answer.err.contains("queue `nowhere` was not found"), "{answer}");
        assert!(answer.err.contains("Delete queues low, other with their counters and 2 tasks?"), "{answer}");
        assert!(answer.err.ends_with("[y/N] error: nothing was changed\n"), "{answer}");
        assert!(cli.t.broker().queue_stats(&queue("low")).await.unwrap().size > 0);
    }

    async fn tasks_are_enqueued(cli) {
        let all = "task enqueue --type-name mail --payload {} --queue low --id full --retry 3 --timeout 90s --unique 1h \
                   --unique-until success --process-in 10m --retention 2h --group mails --header trace=abc \
                   --deadline 2030-02-01T00:00:00Z --json";
        assert_written("task_enqueue", &[
            cli.run("task enqueue -t mail -l {\"to\":\"a@b.c\"} --id plain").await,
            cli.run("task enqueue -t mail -l {} --id plain").await,
            cli.run("task enqueue --type_name mail --payload [1] --queue low --id late --process_in 11m").await,
            cli.run("task enqueue --type mail --payload 1 --id at --process_at 2030-01-02T04:00:00+01:00").await,
            cli.run(all).await,
            cli.run("task enqueue -t mail -l {} -q low --unique 1h --id again").await,
            cli.run("task enqueue -t mail -l {} -q low --unique 1h --id again2").await,
            cli.run("task enqueue -t mail -l hello").await,
            cli.run("task enqueue -t mail -l hello --raw --id raw").await,
            cli.run("task inspect -q default raw").await,
            cli.run("task ls -q low -s scheduled").await,
        ]);
        let defaults = cli.t.broker().task(&queue("default"), &task_id("plain")).await.unwrap().unwrap();
        assert_eq!((defaults.max_retry, defaults.timeout), (25, Some(Duration::from_secs(1800))));
    }

    async fn a_payload_comes_from_a_file_or_a_pipe(cli) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("payload");
        std::fs::write(&file, b"\x00\xffbinary").unwrap();
        let words = ["task", "enqueue", "-t", "mail", "--id", "file", "--payload-file", file.to_str().unwrap()];
        assert_eq!(cli.run_words(&words).await.code, 0);
        let words = ["task", "enqueue", "-t", "mail", "--id", "pipe", "--payload-file", "-"];
        let setting = Setting { piped: b"\x01piped", ..Setting::default() };
        assert_eq!(cli.run_in(setting, &words).await.code, 0);
        assert_written("task_payload_file", &[
            cli.run("task ls -q default -s pending").await,
            cli.run("task inspect -q default file").await,
            cli.run("task inspect -q default file --json").await,
        ]);
        let missing = cli.run("task enqueue -t mail --payload-file /nowhere/at/all").await;
        assert_eq!((missing.code, missing.out.as_str()), (1, ""));
        assert!(missing.err.starts_with("error: cannot read /nowhere/at/all: No such file"), "{missing}");
    }

    async fn a_payload_is_edited(cli) {
        cli.t.seed_every_state().await;
        assert_written("task_edit", &[
            cli.run("task edit -q default retry -l {\"to\":\"b@c.d\"}").await,
            cli.run_typing("y\n", "task edit -q default retry -l {\"to\":\"b@c.d\"}").await,
            cli.run("task edit -q default -i scheduled -l {} --yes --json").await,
            cli.run("task edit -q default active -l {} --yes").await,
            cli.run("task edit -q default nobody -l {} --yes").await,
            cli.run("task ls -q default -s retry").await,
        ]);
    }
}

#[tokio::test]
async fn a_queue_that_a_broken_deletion_leaves_paused_is_named() {
    let server = RedisServer::start(Persistence::None);
    let client = patient::client(&server.url()).await;
    client.enqueue(RawTask::new("mail", "{}")).await.unwrap();
    // Redis takes the pause, and neither the deletion nor the end of the pause.
    redis::cmd("ACL").arg(&["SETUSER", "default", "-del", "-unlink"]).exec(&mut server.connection()).unwrap();
    let words = ["--url", &server.url(), "queue", "rm", "default", "--force", "--yes"];
    let answer = fixture::run(None, Setting::default(), &words).await;
    assert_ne!(answer.code, 0, "{answer}");
    assert!(client.inspector().queue("default").await.unwrap().paused, "{answer}");
    assert!(answer.err.contains("may be left paused: asynq queue resume -- default\n"), "{answer}");
}

#[tokio::test]
async fn a_queue_that_a_stop_in_an_outage_leaves_paused_is_named() {
    let server = RedisServer::start(Persistence::None);
    let client = patient::client(&server.url()).await;
    let inspector = client.inspector();
    client.enqueue(RawTask::new("mail", "{}")).await.unwrap();
    let set_rights = |rights: [&str; 2]| {
        let words = ["SETUSER", "default", rights[0], rights[1]];
        redis::cmd("ACL").arg(&words).exec(&mut server.connection()).unwrap();
    };
    let words = ["--url", &server.url(), "queue", "rm", "default", "--force", "--yes"];
    // A later stop comes before the pause, before the deletion is refused, and after that.
    let mut paused = Vec::new();
    for wake_ups in 0..24 {
        set_rights(["-del", "-unlink"]);
        let answer = fixture::run(None, Setting { stop_after: Some(wake_ups), ..Setting::default() }, &words).await;
        assert_ne!(answer.code, 0, "{answer}");
        let is_named = answer.err.contains("may be left paused: asynq queue resume -- default\n");
        let is_paused = inspector.queue("default").await.unwrap().paused;
        assert!(is_named || !is_paused, "after {wake_ups} wake-ups: {answer}");
        paused.push(is_paused);
        set_rights(["+del", "+unlink"]);
        inspector.resume("default").await.unwrap();
    }
    assert!(!paused[0] && paused.contains(&true), "{paused:?}: a stop before the pause, and one after it");
}

#[tokio::test]
async fn a_queue_without_rights_keeps_no_other_from_being_paused() {
    let server = RedisServer::start(Persistence::None);
    let client = patient::client(&server.url()).await;
    for name in ["default", "other"] {
        client.enqueue(RawTask::new("mail", "{}").queue(name)).await.unwrap();
    }
    let rights = ["SETUSER", "default", "resetkeys", "~asynq:{default}*", "~asynq:queues"];
    redis::cmd("ACL").arg(&rights).exec(&mut server.connection()).unwrap();
    let words = ["--url", &server.url(), "queue", "pause", "other", "default", "--json"];
    let answer = fixture::run(None, Setting::default(), &words).await;
    assert_eq!(answer.code, 2, "{answer}");
    let rows: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
    assert!(rows[0]["error"].is_string() && rows[1]["error"].is_null(), "{rows}");
    assert!(answer.err.starts_with("error: queue other: "), "{answer}");
}

#[tokio::test]
async fn an_outage_among_several_names_tells_which_it_hit_and_counts_those_that_were_tried() {
    let mut server = RedisServer::start(Persistence::None);
    let commands = [("task run -q default", "task"), ("queue rm --yes", "queue")];
    let mut clients = Vec::new();
    for _ in commands {
        clients.push(Client::connect(&format!("{}?timeout=500ms", server.url())).await.unwrap());
    }
    server.kill();
    for (client, (command, noun)) in clients.into_iter().zip(commands) {
        let words: Vec<&str> = command.split(' ').chain(["one", "two", "three"]).collect();
        let answer = fixture::run(Some(client), Setting::default(), &words).await;
        assert_eq!(answer.code, 2, "{answer}");
        assert!(answer.err.starts_with(&format!("error: {noun} one: ")), "{answer}");
        assert!(answer.err.ends_with("\n1 of 3 were tried, the others are as they were\n"), "{answer}");
    }
}
