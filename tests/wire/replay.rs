//! Repeats Go's calls through our contract.

mod repairs;
pub(crate) mod schedulers;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use asynq_runtime::{
    Client,
    broker::{
        Action, Broker, GroupRules, Member, NewTask, RetryOrder, Run, ServerName, SetOutcome, Settled, TaskSet,
        UniqueLock, Wanted, When,
    },
    clock::{Clock, ManualClock},
    task::{Extra, GroupName, QueueName, QueueWeight, ServerInfo, TaskMessage, WorkerInfo},
};
use asynq_tests::{
    Build as _, Dumped, PINNED, RedisStore, Seeded as _, Store as _, default_queue, group, members, queue, task,
    task_id,
};
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value as Json;

use crate::wire::{
    golden::{Scenario, base64, message, raw},
    options::{duration, instant, raw_task},
};

/// A scenario under replay.
pub(crate) struct Replay {
    pub(crate) scenario: Scenario,
    pub(crate) broker: Arc<dyn Broker>,
    client: Client,
    began: Instant,
    store: RedisStore,
    clock: ManualClock,
    member: Member,
    runs: BTreeMap<String, Run>,
    last: String,
    set: Option<TaskSet>,
    /// The calls whose answer from us differs from Go's.
    pub(crate) answers: Vec<String>,
}

impl Replay {
    pub(crate) async fn start(scenario: Scenario) -> Self {
        let store = RedisStore::start().await;
        let clock = ManualClock::new(PINNED);
        let given = scenario.pinned.then(|| Arc::new(clock.clone()) as Arc<dyn Clock>);
        let broker = store.connect(given).await;
        let name = ServerName { host: "host-1".into(), pid: 4242, server_id: "replay".into() };
        let member = Member { name, number: 0 };
        let client = Client::new(broker.clone());
        let (began, runs, last, answers) = (Instant::now(), BTreeMap::new(), String::new(), Vec::new());
        Self { scenario, broker, client, began, store, clock, member, runs, last, set: None, answers }
    }

    /// The data of Redis now, and the longest time for which its keys have been ageing.
    pub(crate) fn dump(&self) -> (BTreeMap<String, Dumped>, Duration) {
        (self.store.keys(), self.began.elapsed())
    }

    fn now(&self) -> DateTime<Utc> {
        if self.scenario.pinned { self.clock.now() } else { Utc::now() }
    }

    /// Repeats one of Go's calls and compares the answer.
    pub(crate) async fn call(&mut self, call: &Json) {
        let op = call["op"].as_str().unwrap();
        let refused = call["error"].as_str();
        let args = &call["args"];
        let ours = match op {
            "advance_clock" => {
                self.clock.advance(duration(args.as_str().unwrap()));
                None
            }
            "Enqueue" => self.enqueue(self.plain(args)).await,
            "EnqueueUnique" => {
                let ttl = duration(args["ttl"].as_str().unwrap());
                self.enqueue(locked(self.plain(&args["msg"]), ttl)).await
            }
            "Schedule" | "ScheduleUnique" if args["msg"].is_object() => {
                let at = instant(args["process_at"].as_str().unwrap(), self.now());
                let mut new = self.plain(&args["msg"]);
                new.when = When::At(at);
                new.group = group_of(&new.message);
                // Go's argument is the time until the lock ends, ours is the time for which the lock outlives the due time.
                if let Some(ttl) = args["ttl"].as_str() {
                    new = locked(new, duration(ttl) - (at - self.now()).to_std().unwrap());
                }
                self.enqueue(new).await
            }
            "Client.Enqueue" => self.client_enqueue(call).await,
            "Client.BatchEnqueueContext" => self.batch(call).await,
            "Dequeue" => self.dequeue(call).await,
            "Done" => self.settle(args, Action::Done).await,
            "Done (again)" => self.settle(args, Action::Done).await,
            "MarkAsComplete" => {
                // The result that a job wrote during its run, where the scenario has no call for that.
                let result = self.scenario.result(self.run(args).key.id.as_str());
                self.settle(args, Action::Complete { result }).await
            }
            "Requeue" => self.settle(args, Action::Requeue).await,
            "Retry" => self.settle(args, self.retry(args)).await,
            "Archive" => {
                let error = self.error_of(args);
                let answer = self.settle(args, Action::Archive { error, extra: Extra::default() }).await;
                // Go trims the archive in the same script.
                let age = Duration::from_secs(90 * 86_400);
                self.broker.trim_archive(&default_queue(), age, 10_000, 500).await.unwrap();
                answer
            }
            "ForwardIfReady" => {
                while self.broker.forward(&[default_queue()], RetryOrder::Last).await.unwrap().more {}
                None
            }
            "AddToGroup" => {
                let new = self.grouped_task(args);
                self.enqueue(new).await
            }
            "AggregationCheck" => {
                self.aggregation_check(args, &call["result"]).await;
                None
            }
            "ReadAggregationSet" => {
                let set = self.set.as_ref().unwrap();
                assert_eq!(call["result"]["ids"], serde_json::json!(members(set)));
                assert_eq!(instant(call["result"]["deadline"].as_str().unwrap(), self.now()), set.deadline);
                None
            }
            "DeleteAggregationSet" => {
                let set = self.set.take().unwrap();
                self.broker.finish_set(&set, &SetOutcome::default()).await.unwrap();
                None
            }
            "ReclaimStaleAggregationSets" => {
                self.broker.reclaim_sets(&queue(args.as_str().unwrap())).await.unwrap();
                None
            }
            "WriteResult" => {
                let run = &self.runs[args["id"].as_str().unwrap()];
                let result = raw(&args["data"]).into();
                refusal(self.broker.write_result(&run.key, &result).await.unwrap())
            }
            "DeleteExpiredCompletedTasks" | "DeleteExpiredCompletedTasks(batch=100) one second early" => {
                self.broker.delete_expired(&default_queue(), 100).await.unwrap();
                None
            }
            "Pause" => (!self.broker.pause(&queue(args.as_str().unwrap())).await.unwrap()).then(|| "paused".into()),
            "Unpause" => (!self.broker.resume(&queue(args.as_str().unwrap())).await.unwrap()).then(|| "running".into()),
            "WriteServerState" => {
                self.write_server_state(args).await;
                None
            }
            "ClearServerState" => {
                let name = ServerName { server_id: FIRST_SERVER.into(), ..self.member.name.clone() };
                self.broker.leave(&Member { name, number: 0 }).await.unwrap();
                None
            }
            "GetTaskInfo" | "CurrentStats" | "ListActive" | "ListLeaseExpired" => self.read(op, call).await,
            "WriteSchedulerEntries" => self.write_scheduler_entries(args).await,
            "RecordSchedulerEnqueueEvent" => self.record_enqueue(args).await,
            "(test) record 1005 events" => self.record_many(1005).await,
            "(test) ZCARD" => self.count_history(&call["result"]),
            "ListSchedulerEnqueueEvents size=3 page=0" => self.newest_enqueues(3, &call["result"]).await,
            _ if op.starts_with("(test)") => {
                self.generator_command(op, call);
                None
            }
            "HistoricalStats" => self.history(call).await,
            other => self.repair(other, call).await,
        };
        if refused.is_some() != ours.is_some() {
            let verdict = |text: Option<&str>| text.map_or_else(|| "yes".into(), |text| format!("no ({text})"));
            self.answers.push(format!(
                "{op} {}: Go says {}, we say {}",
                short(args),
                verdict(refused),
                verdict(ours.as_deref())
            ));
        }
    }

    fn plain(&self, args: &Json) -> NewTask {
        // Golden arguments may name a task alone; then its message comes from Go's dump.
        let message =
            if args["type"].is_string() { message(args) } else { self.scenario.message(id_of(args)).unwrap() };
        let mut new = task(&message.id).in_queue(&message.queue);
        new.message = message;
        new
    }

    async fn enqueue(&self, new: NewTask) -> Option<String> {
        self.broker.enqueue(vec![new]).await.remove(0).err().map(|refused| refused.to_string())
    }

    async fn aggregation_check(&mut self, args: &Json, expected: &Json) {
        assert_eq!(instant(args["t"].as_str().unwrap(), self.now()), self.now());
        let span = |name: &str| duration(args[name].as_str().unwrap());
        let rules = GroupRules {
            grace: span("grace"),
            max_delay: Some(span("max_delay")).filter(|delay| !delay.is_zero()),
            max_size: args["max_size"].as_u64().map(|size| size as usize).filter(|size| *size > 0),
        };
        let set = self.broker.claim_set(&default_queue(), &group("grp"), &rules).await.unwrap();
        assert_eq!(expected["created"], set.is_some());
        self.set = set.or(self.set.take());
    }

    /// Enqueues through our own client, so that its defaults, rounding and unique keys are compared with Go's, too.
    async fn client_enqueue(&self, call: &Json) -> Option<String> {
        // A nil task cannot be expressed in Rust.
        if call["args"].is_string() {
            return Some("cannot be written".into());
        }
        match self.client.enqueue(raw_task(&call["args"])).await {
            Err(refused) => Some(refused.to_string()),
            // Where Go refuses, the answers differ and there is nothing to compare.
            Ok(_) if call["error"].is_string() => None,
            Ok(info) => {
                let go = &call["result"];
                assert_eq!(go["id"], info.id.as_str());
                assert_eq!(go["queue"], info.queue.as_str());
                assert_eq!(go["state"], info.state.as_str());
                assert_eq!(go["max_retry"], info.max_retry);
                assert_eq!(go["retried"], info.retried);
                assert_eq!(go["timeout_ns"].as_u64(), Some(info.timeout.unwrap_or_default().as_nanos() as u64));
                assert_eq!(go["deadline_is_zero"], info.deadline.is_none());
                assert_eq!(go["group"].as_str().unwrap_or_default(), info.group.unwrap_or_default());
                if let Some(unknown) = go["next_process_at_is_zero"].as_bool() {
                    assert_eq!(unknown, info.next_process_at.is_none());
                }
                None
            }
        }
    }

    async fn batch(&mut self, call: &Json) -> Option<String> {
        let items = call["args"].as_array().unwrap().iter().zip(call["result"].as_array().unwrap());
        // Go refuses some items of a batch for reasons of its own; a nil task cannot be expressed in Rust.
        let sent: Vec<&Json> = items.filter(|(_, answer)| answer["error"].is_null()).map(|(item, _)| item).collect();
        let answers = self.client.enqueue_many(sent.iter().map(|item| raw_task(item))).await.unwrap();
        for (item, answer) in sent.iter().zip(answers) {
            if let Err(refused) = answer {
                let name = item["type"].as_str().unwrap();
                self.answers.push(format!("batch item {name}: Go says yes, we say no ({refused})"));
            }
        }
        None
    }

    async fn dequeue(&mut self, call: &Json) -> Option<String> {
        let names: Vec<QueueName> =
            call["args"].as_array().unwrap().iter().map(|q| queue(q.as_str().unwrap())).collect();
        for queue in names {
            // Go stops at the first task, and we take from all queues; so this asks one queue at a time.
            let wanted = Wanted { queue: queue.clone(), n: 1 };
            let Some(run) = self.broker.dequeue(&self.member, &[wanted]).await.unwrap().pop() else { continue };
            let info = self.broker.task(&queue, &run.key.id).await.unwrap().unwrap();
            let expected = &call["result"];
            assert_eq!(expected["task_id"], run.key.id.as_str(), "{call}");
            assert_eq!(expected["queue"], queue.as_str(), "{call}");
            let lease = instant(expected["lease_expires"].as_str().unwrap(), self.now());
            assert_eq!(info.lease_until.unwrap().timestamp(), lease.timestamp(), "{call}");
            self.last = run.key.id.to_string();
            self.runs.insert(self.last.clone(), run);
            return None;
        }
        Some("nothing to take".into())
    }

    fn run(&self, args: &Json) -> &Run {
        let id = id_of(args);
        &self.runs[if self.runs.contains_key(id) { id } else { &self.last }]
    }

    async fn settle(&self, args: &Json, action: Action) -> Option<String> {
        let settlement = self.run(args).ends_with(action);
        refusal(self.broker.settle(&[settlement]).await.remove(0).unwrap())
    }

    /// The error of a call, or the error in Go's last dump.
    fn error_of(&self, args: &Json) -> String {
        let left = self.scenario.message(self.run(args).key.id.as_str());
        args["err"].as_str().map(str::to_owned).or_else(|| Some(left?.error_msg)).unwrap()
    }

    fn retry(&self, args: &Json) -> Action {
        let id = self.run(args).key.id.to_string();
        let given = args["process_at"].as_str().or_else(|| args.as_str().filter(|text| text.starts_with('+')));
        let delay = match given {
            Some(at) => (instant(at, self.now()) - self.now()).to_std().unwrap(),
            None => self.delay_left(&id),
        };
        let counted = args["is_failure"].as_bool().unwrap_or(true);
        Action::Retry { delay, error: Some(self.error_of(args)), counted, extra: Extra::default() }
    }

    /// The delay in Go's last dump, from now.
    fn delay_left(&self, id: &str) -> Duration {
        let asynq_tests::Value::Zset(members) = &self.scenario.end["asynq:{default}:retry"].value else { panic!() };
        let (_, score) = members.iter().find(|(member, _)| member == id.as_bytes()).unwrap();
        let due = DateTime::from_timestamp(score.parse().unwrap(), 0).unwrap();
        // Go truncated the fraction.
        (due + TimeDelta::nanoseconds(self.now().timestamp_subsec_nanos().into()) - self.now()).to_std().unwrap()
    }

    async fn write_server_state(&self, args: &Json) {
        let server = &args["server"];
        let server_id = args["server_id"].as_str().or(server["ServerID"].as_str()).unwrap_or(FIRST_SERVER);
        let workers: Vec<WorkerInfo> = args["workers"].as_array().into_iter().flatten().map(worker).collect();
        let info = ServerInfo {
            host: "host-1".into(),
            pid: 4242,
            server_id: server_id.into(),
            concurrency: 10,
            queues: vec![QueueWeight { queue: Some("default".into()), weight: Some(3) }],
            strict_priority: true,
            status: "active".into(),
            start_time: Some((PINNED - TimeDelta::hours(1)).into()),
            active_worker_count: workers.len() as i32,
            ..ServerInfo::default()
        };
        let name = ServerName { server_id: server_id.into(), ..self.member.name.clone() };
        let member = self.broker.join(&name, &info).await.unwrap();
        self.broker.beat(&member, &info, &workers).await.unwrap();
    }

    async fn read(&mut self, op: &str, call: &Json) -> Option<String> {
        let expected = &call["result"];
        match op {
            "GetTaskInfo" => {
                let id = task_id(call["args"].as_str().unwrap());
                let info = self.broker.task(&default_queue(), &id).await.unwrap().unwrap();
                assert_eq!(expected["state"], info.state.as_str());
                assert_eq!(raw(&expected["result"]), info.result.unwrap_or_default());
                assert_eq!(expected["completed_at"].as_i64(), info.completed_at.map(|at| at.timestamp()));
            }
            "CurrentStats" if call["error"].is_string() => {
                let stats = self.broker.queue_stats(&queue(call["args"].as_str().unwrap())).await.unwrap();
                assert_eq!(stats.size, 0, "a queue that does not exist is all zero for us");
                return Some("unknown".into());
            }
            "CurrentStats" => {
                let s = self.broker.queue_stats(&default_queue()).await.unwrap();
                let ours = [
                    ("Size", s.size),
                    ("Pending", s.pending),
                    ("Active", s.active),
                    ("Scheduled", s.scheduled),
                    ("Retry", s.retry),
                    ("Archived", s.archived),
                    ("Completed", s.completed),
                    ("Aggregating", s.aggregating),
                    ("Processed", s.processed),
                    ("Failed", s.failed),
                    ("ProcessedTotal", s.processed_total),
                    ("FailedTotal", s.failed_total),
                    ("Latency", s.latency.as_nanos() as u64),
                ];
                for (name, n) in ours {
                    assert_eq!(expected[name].as_u64(), Some(n), "{name}");
                }
                assert_eq!(expected["Paused"], s.paused);
            }
            "ListActive" => {
                let ours = self.broker.queue_stats(&default_queue()).await.unwrap().active;
                let theirs = expected.as_array().unwrap().len() as u64;
                if ours != theirs {
                    self.answers.push(format!("ListActive: Go says {theirs}, we say {ours}"));
                }
            }
            _ => assert_eq!(
                expected.as_u64(),
                Some(self.broker.recover(&[default_queue()]).await.unwrap().tasks.len() as u64)
            ),
        }
        None
    }

    /// Commands that the generator sent around the library.
    fn generator_command(&self, op: &str, call: &Json) {
        const MOST: &[u8] = b"9223372036854775807";
        let set = |key: &[u8], value: &[u8]| self.store.command::<()>(&[b"SET", key, value]);
        match op {
            "(test) DEL task hash" => self.store.command::<()>(&[b"DEL", b"asynq:{default}:t:t1"]),
            "(test) SET processed=maxint64" => set(b"asynq:{default}:processed", MOST),
            "(test) SET processed=maxint64, failed=77" => {
                set(b"asynq:{default}:processed", MOST);
                set(b"asynq:{default}:failed", b"77");
            }
            "(test) ZCARD completed" => {
                let n: i64 = self.store.command(&[b"ZCARD", b"asynq:{default}:completed"]);
                assert_eq!(call["result"], n);
            }
            "(test) seed archived 'old' at cutoff-1" => {
                self.seed_archived("old", (self.now() - TimeDelta::days(90)).timestamp() - 1);
            }
            "(test) seed archived old0,old1,old2 at cutoff-1, cutoff, cutoff+1" => {
                let cutoff = call["args"]["cutoff_unix"].as_i64().unwrap();
                for (i, id) in ["old0", "old1", "old2"].into_iter().enumerate() {
                    self.seed_archived(id, cutoff - 1 + i as i64);
                }
            }
            other => panic!("{other} is not known"),
        }
    }

    fn seed_archived(&self, id: &str, at: i64) {
        let message = TaskMessage {
            r#type: "x".into(),
            id: id.into(),
            queue: "default".into(),
            retry: 25,
            timeout: 1800,
            ..TaskMessage::default()
        };
        let key = format!("asynq:{{default}}:t:{id}");
        self.store.command::<()>(&[b"HSET", key.as_bytes(), b"msg", &message.encode(), b"state", b"archived"]);
        self.store.command::<()>(&[b"ZADD", b"asynq:{default}:archived", at.to_string().as_bytes(), id.as_bytes()]);
    }

    /// Takes the only pending task.
    pub(crate) async fn take(&mut self) -> Run {
        let wanted = Wanted { queue: default_queue(), n: 1 };
        self.broker.dequeue(&self.member, &[wanted]).await.unwrap().pop().expect("a task is pending")
    }
}

const FIRST_SERVER: &str = "11111111-2222-3333-4444-555555555555";

fn id_of(args: &Json) -> &str {
    args["id"].as_str().or(args.as_str()).unwrap_or_default()
}

fn group_of(message: &TaskMessage) -> Option<GroupName> {
    (!message.group_key.is_empty()).then(|| group(&message.group_key))
}

fn locked(mut new: NewTask, ttl: Duration) -> NewTask {
    new.unique = Some(UniqueLock { key: new.message.unique_key.clone(), ttl });
    new
}

fn refusal(settled: Settled) -> Option<String> {
    (settled != Settled::Ok).then(|| format!("{settled:?}"))
}

pub(crate) fn worker(fields: &Json) -> WorkerInfo {
    let text = |name: &str| fields[name].as_str().unwrap().to_owned();
    let time = |name: &str| Some(instant(&text(name), PINNED).into());
    WorkerInfo {
        host: text("Host"),
        pid: fields["PID"].as_i64().unwrap() as i32,
        server_id: text("ServerID"),
        task_id: text("ID"),
        task_type: text("Type"),
        task_payload: base64(&text("Payload")).into(),
        queue: text("Queue"),
        start_time: time("Started"),
        deadline: time("Deadline"),
    }
}

fn short(args: &Json) -> String {
    match args {
        Json::String(text) => text.clone(),
        Json::Object(fields) if fields.contains_key("options") => fields["options"].to_string(),
        other => other.to_string(),
    }
}
