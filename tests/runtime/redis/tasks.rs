//! Tasks, runs and outcomes in few words.

use std::{sync::Arc, time::Duration};

use asynq_runtime::{
    broker::{
        Action, Consume, Maintain, Member, NewTask, Produce, RetryOrder, Run, ServerName, Settle, Settled, Settlement,
        Wanted, redis::RedisBroker,
    },
    clock::ManualClock,
    task::{Extra, QueueName, TaskId},
};
use asynq_test_support::{Calls, eventually, soon};
use redis::{AsyncCommands, aio::MultiplexedConnection};

use super::server::{Server, patient};

/// Longer than any test lasts: a wait with this limit that ends was woken.
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);

pub(crate) fn queue() -> QueueName {
    QueueName::new("default").unwrap()
}

pub(crate) fn id(id: &str) -> TaskId {
    TaskId::new(id).unwrap()
}

pub(crate) fn member(name: &str) -> Member {
    Member { name: ServerName { host: "h".into(), pid: 1, server_id: name.into() }, number: 0 }
}

pub(crate) fn task(id: &str) -> NewTask {
    let mut task = asynq_tests::task(id);
    task.message.r#type = "email".into();
    task.message.payload = "hello".into();
    task.id_is_ours = true;
    task
}

pub(crate) async fn put(broker: &RedisBroker, ids: &[&str]) {
    for outcome in broker.enqueue(ids.iter().map(|id| task(id)).collect()).await {
        outcome.unwrap();
    }
}

pub(crate) async fn take(broker: &RedisBroker, member: &Member, n: usize) -> Vec<Run> {
    broker.dequeue(member, &[Wanted { queue: queue(), n }]).await.unwrap()
}

pub(crate) fn ids(runs: &[Run]) -> Vec<&str> {
    runs.iter().map(|run| run.key.id.as_str()).collect()
}

pub(crate) fn settlement(run: &Run, action: Action) -> Settlement {
    let message = Arc::new(run.message.clone().unwrap());
    Settlement { run: run.key.clone(), message, action, resend: false }
}

pub(crate) async fn settle(broker: &RedisBroker, run: &Run, action: Action) -> Settled {
    broker.settle(&[settlement(run, action)]).await.remove(0).unwrap()
}

pub(crate) fn retry(delay: Duration) -> Action {
    Action::Retry { delay, error: Some("boom".into()), counted: true, extra: Extra::default() }
}

pub(crate) fn archive() -> Action {
    Action::Archive { error: "dead".into(), extra: Extra::default() }
}

pub(crate) fn every_action() -> [Action; 5] {
    [
        Action::Done,
        Action::Complete { result: Some("r".into()) },
        retry(Duration::from_secs(60)),
        archive(),
        Action::Requeue,
    ]
}

/// Returns every key of the queue with its contents.
pub(crate) async fn dump(connection: &mut MultiplexedConnection) -> Vec<(String, Vec<u8>)> {
    let mut keys: Vec<String> = connection.keys("asynq:*").await.unwrap();
    keys.sort();
    let mut found = Vec::new();
    for key in keys {
        found.push((key.clone(), redis::cmd("DUMP").arg(&key).query_async(connection).await.unwrap()));
    }
    found
}

/// Returns a broker whose clock stands still.
pub(crate) async fn with_clock(server: &Server) -> (RedisBroker, ManualClock) {
    let clock = ManualClock::default();
    let mut options = patient();
    options.clock = Some(Arc::new(clock.clone()));
    (server.broker_with(options).await, clock)
}

/// Waits until a delayed task is due, and moves it to pending. A wait may end early by as much as the broker's idea of Redis's
/// clock is off, which is half a round trip; Redis itself moves nothing before its time.
pub(crate) async fn forward_when_due(broker: &RedisBroker) {
    let moves = async {
        loop {
            broker.wait_for_due(&[queue()], HOUR).await.unwrap();
            if broker.forward(&[queue()], RetryOrder::Last).await.unwrap().moved == 1 {
                return;
            }
        }
    };
    soon(moves).await;
}

/// Returns how many keys Redis would announce changes of.
pub(crate) async fn tracked_keys(redis: &mut MultiplexedConnection) -> u64 {
    let info: String = redis::cmd("INFO").arg("stats").query_async(redis).await.unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("tracking_total_keys:")).unwrap();
    line.trim().parse().unwrap()
}

/// Waits until Redis would announce changes of `keys` keys: then a waiter has asked, and sleeps.
pub(crate) async fn until_tracked(redis: &mut MultiplexedConnection, keys: u64) {
    let goal = format!("Redis tracks {keys} keys");
    eventually(&goal, async || (tracked_keys(redis).await >= keys).then_some(())).await;
}

/// An entry of the log of slow calls: number, time, microseconds, the command, address and name of the client.
type SlowCall = (i64, i64, i64, Vec<Vec<u8>>, String, String);

/// Returns the words of the newest script in the log of slow calls.
pub(crate) async fn newest_script(redis: &mut MultiplexedConnection) -> Vec<Vec<u8>> {
    newest_call(redis, "EVALSHA").await
}

/// Returns the words of the newest call of this command in the log of slow calls, which keeps 32 words and 128 bytes of each.
pub(crate) async fn newest_call(redis: &mut MultiplexedConnection, command: &str) -> Vec<Vec<u8>> {
    let log = redis::cmd("SLOWLOG").arg("GET").arg(50).query_async::<Vec<SlowCall>>(redis).await.unwrap();
    let call = log.into_iter().map(|(_, _, _, words, ..)| words).find(|words| words[0] == command.as_bytes()).unwrap();
    assert!(call.len() < 32 && call.iter().all(|word| word.len() < 128), "{call:?}");
    call
}

/// Returns how many scripts Redis has run by their digests.
pub(crate) async fn scripts(redis: &mut MultiplexedConnection) -> u64 {
    calls(redis, "evalsha").await
}

/// Returns how often Redis has run this command, including calls by scripts.
pub(crate) async fn calls(redis: &mut MultiplexedConnection, command: &str) -> u64 {
    calls_by_command(redis).await.of(command)
}

/// Returns how many commands Redis has run, including calls by scripts; without those by which a test looks at Redis.
pub(crate) async fn commands(redis: &mut MultiplexedConnection) -> u64 {
    calls_by_command(redis).await.sum()
}

/// Runs `call`, and returns how many scripts and commands it cost.
pub(crate) async fn cost<T>(redis: &mut MultiplexedConnection, call: impl Future<Output = T>) -> (T, u64, u64) {
    let before = (scripts(redis).await, commands(redis).await);
    let result = call.await;
    (result, scripts(redis).await - before.0, commands(redis).await - before.1)
}

/// Returns how often Redis has run each command, including calls by scripts.
pub(crate) async fn calls_by_command(redis: &mut MultiplexedConnection) -> Calls {
    Calls::read(&redis::cmd("INFO").arg("commandstats").query_async::<String>(redis).await.unwrap())
}

/// Has Redis refuse writes beyond so many bytes; "0" means without a limit.
pub(crate) async fn limit_memory(redis: &mut MultiplexedConnection, bytes: &str) {
    redis::cmd("CONFIG").arg(&["SET", "maxmemory", bytes]).exec_async(redis).await.unwrap();
}
