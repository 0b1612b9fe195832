//! The beats of servers, and the clocks of the hosts on which servers run, as the list of servers shows them.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    thread,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use asynq_runtime::{
    broker::{Broker, Member, Presence, redis::RedisBroker},
    task::{QueueWeight, ServerInfo, WorkerInfo},
};
use asynq_test_support::{Log, eventually};
use chrono::{TimeDelta, Utc};
use prost::Message as _;
use redis::aio::MultiplexedConnection;

use super::{
    server::{FRESH, Server, patient},
    tasks::*,
};

/// The tolerance that tells a clock that is set wrong from a busy machine.
const CLOSE: TimeDelta = TimeDelta::seconds(20);

fn is_about(ahead: Option<TimeDelta>, seconds: i64) -> bool {
    ahead.is_some_and(|ahead| (ahead - TimeDelta::seconds(seconds)).abs() < CLOSE)
}

#[tokio::test]
async fn a_server_of_ours_reports_the_clock_offset_of_its_host() {
    let server = Server::start(&[]);
    let right = server.broker().await;
    let through = async |seconds| {
        let url = ahead_of(&server, Arc::new(AtomicI64::new(seconds)));
        RedisBroker::connect(&url, patient()).await.unwrap()
    };
    let (ahead, behind) = (through(-100).await, through(100).await);

    let servers = eventually("a look soon after all have joined", async || {
        let began = Instant::now();
        for (broker, host) in [(&right, "a right host"), (&ahead, "b ahead"), (&behind, "c behind")] {
            broker.join(&member(host).name, &named(host)).await.unwrap();
        }
        let servers = right.servers().await.unwrap();
        (began.elapsed() < FRESH).then_some(servers)
    })
    .await;

    let reports: Vec<_> = servers.iter().map(|server| (server.info.host.as_str(), server.clock_ahead)).collect();
    assert_eq!(reports.len(), 3, "{reports:?}");
    for ((host, ahead), (expected, seconds)) in
        reports.iter().zip([("a right host", 0), ("b ahead", 100), ("c behind", -100)])
    {
        assert_eq!(*host, expected);
        assert!(is_about(*ahead, seconds), "{host}: {ahead:?}");
    }
}

/// The client of such a program makes the expiry of a task from this time.
#[tokio::test]
async fn a_program_without_servers_follows_the_clock_of_redis_when_that_is_set() {
    let server = Server::start(&[]);
    let seconds = Arc::new(AtomicI64::new(100));
    let broker = RedisBroker::connect(&ahead_of(&server, Arc::clone(&seconds)), patient()).await.unwrap();
    let is_ahead_by = |seconds| is_about(Some(broker.now() - Utc::now()), seconds);
    assert!(is_ahead_by(100), "{}", broker.now());
    seconds.store(0, Ordering::Relaxed);
    eventually("the connection has asked for the time", async || is_ahead_by(0).then_some(())).await;
}

/// A worker compares the expiry of a task with this time before the task starts.
#[tokio::test]
async fn a_dequeue_tells_a_worker_that_the_clock_of_redis_was_set_back() {
    let server = Server::start(&[]);
    let broker = RedisBroker::connect(&ahead_of(&server, Arc::new(AtomicI64::new(3_600))), patient()).await.unwrap();
    assert!(is_about(Some(broker.now() - Utc::now()), 3_600), "{}", broker.now());
    put(&broker, &["a"]).await;
    assert_eq!(ids(&take(&broker, &member("w"), 1).await), ["a"]);
    assert!(is_about(Some(broker.now() - Utc::now()), 0), "{}", broker.now());
}

#[tokio::test]
async fn a_beat_tells_a_server_how_many_servers_live() {
    let server = Server::start(&[]);
    let (first, second) = (server.broker().await, server.broker().await);
    assert_eq!(first.servers_alive(), 1, "before the first beat");
    let alive = eventually("beats soon after both have joined", async || {
        let began = Instant::now();
        let one = first.join(&member("one").name, &named("one")).await.unwrap();
        let other = second.join(&member("other").name, &named("other")).await.unwrap();
        first.beat(&one, &named("one"), &[]).await.unwrap();
        let both = first.servers_alive();
        second.leave(&other).await.unwrap();
        first.beat(&one, &named("one"), &[]).await.unwrap();
        (began.elapsed() < FRESH).then_some((both, first.servers_alive()))
    })
    .await;
    assert_eq!(alive, (2, 1));
}

#[tokio::test]
async fn a_dead_name_is_listed_nowhere_and_is_dropped_by_the_next_server_that_joins() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let member_of_ours = broker.join(&member("here").name, &named("here")).await.unwrap();
    for list in ["asynq:servers", "asynq:workers"] {
        let () = redis::cmd("ZADD").arg(list).arg(1).arg("dead").query_async(&mut redis).await.unwrap();
    }
    // A beat writes its own name alone, so that it costs no more.
    broker.beat(&member_of_ours, &named("here"), &[]).await.unwrap();
    assert_eq!(dead_names(&mut redis).await, 2);
    let servers = broker.servers().await.unwrap();
    assert!(servers.iter().all(|server| server.info.host == "here"), "{servers:?}");
    broker.join(&member("next").name, &named("next")).await.unwrap();
    assert_eq!(dead_names(&mut redis).await, 0);
}

/// Returns in how many lists of servers and workers the name `dead` stands.
async fn dead_names(redis: &mut MultiplexedConnection) -> usize {
    let mut found = 0;
    for list in ["asynq:servers", "asynq:workers"] {
        let score: Option<f64> = redis::cmd("ZSCORE").arg(list).arg("dead").query_async(redis).await.unwrap();
        found += usize::from(score.is_some());
    }
    found
}

#[tokio::test]
async fn the_facts_of_a_server_expire_with_its_heartbeat() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let member = broker.join(&member("here").name, &named("here")).await.unwrap();
    let workers = [WorkerInfo { task_id: "t1".into(), ..WorkerInfo::default() }];
    for kind in ["servers", "workers"] {
        let (keys, left) = eventually("a look soon after the beat", async || {
            let began = Instant::now();
            broker.beat(&member, &named("here"), &workers).await.unwrap();
            let keys: Vec<String> =
                redis::cmd("KEYS").arg(format!("asynq:{kind}:*")).query_async(&mut redis).await.unwrap();
            let key = keys.first().map_or("", String::as_str);
            let left: i64 = redis::cmd("TTL").arg(key).query_async(&mut redis).await.unwrap();
            (began.elapsed() < FRESH).then_some((keys, left))
        })
        .await;
        assert_eq!(keys.len(), 1, "{keys:?}");
        assert!((0..=10).contains(&left), "{} ends in {left} s", keys[0]);
    }
}

/// A failover leads to a replica with settings of its own, and `CONFIG SET` changes those of a server that runs.
#[tokio::test]
async fn a_server_warns_once_of_a_redis_that_may_evict_tasks_by_the_time_it_connects_anew() {
    let server = Server::start(&[]);
    let (mut redis, log) = (server.foreign().await, Log::keep());
    let broker = server.broker().await;
    let member = broker.join(&member("here").name, &named("here")).await.unwrap();
    for (policy, lines) in [("allkeys-lru", 1), ("allkeys-lru", 1), ("volatile-ttl", 2), ("noeviction", 2)] {
        let set = ["SET", "maxmemory-policy", policy];
        let () = redis::cmd("CONFIG").arg(&set).query_async(&mut redis).await.unwrap();
        let _: i64 = redis::cmd("CLIENT").arg(&["KILL", "TYPE", "normal"]).query_async(&mut redis).await.unwrap();
        let warned = || log.with("this Redis may evict tasks when its memory is full");
        let beat = async || broker.beat(&member, &named("here"), &[]).await.ok().filter(|()| warned().len() >= lines);
        eventually("a beat on another connection has the warning", beat).await;
        assert_eq!(warned().len(), lines, "{policy}: {log:?}");
        assert!(policy == "noeviction" || warned()[lines - 1].contains(policy), "{log:?}");
    }
}

/// Returns the bytes that clients have sent to Redis.
async fn received(redis: &mut MultiplexedConnection) -> u64 {
    let info: String = redis::cmd("INFO").arg("stats").query_async(redis).await.unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("total_net_input_bytes:")).unwrap();
    line.trim().parse().unwrap()
}

/// Returns the facts that Go's tools read of the server.
async fn read_info(redis: &mut MultiplexedConnection) -> ServerInfo {
    let found: Vec<u8> = redis::cmd("GET").arg(KEY).query_async(redis).await.unwrap();
    read(&found)
}

fn read(found: &[u8]) -> ServerInfo {
    ServerInfo { clock_ahead_ms: None, ..ServerInfo::decode(found).unwrap() }
}

const KEY: &str = "asynq:servers:{h:1:here}";

/// Returns the facts after `change`, which another program makes, and a beat with `info`.
async fn info_after(
    change: &redis::Cmd,
    redis: &mut MultiplexedConnection,
    (broker, member): (&RedisBroker, &Member),
    info: &ServerInfo,
) -> ServerInfo {
    eventually("a look soon after the beat", async || {
        let began = Instant::now();
        let _: redis::Value = change.query_async(redis).await.unwrap();
        broker.beat(member, info, &[]).await.unwrap();
        let found = read_info(redis).await;
        (began.elapsed() < FRESH).then_some(found)
    })
    .await
}

#[tokio::test]
async fn a_beat_sends_the_queues_of_a_server_only_when_they_changed() {
    const BEATS: u64 = 10;
    let (_server, broker, mut redis) = Server::with_broker().await;
    let weight = |n: usize| QueueWeight { queue: Some(format!("tenant:{n}")), weight: Some(1) };
    let mut info = ServerInfo { queues: (0..1_000).map(weight).collect(), status: "active".into(), ..named("here") };
    let member = broker.join(&member("here").name, &info).await.unwrap();
    let whole = info.encoded_len() as u64;
    let (sent, older) = eventually("so many beats while Redis keeps the first", async || {
        let began = Instant::now();
        // Redis knows the script from here on.
        broker.beat(&member, &info, &[]).await.unwrap();
        let before = received(&mut redis).await;
        for n in 0..BEATS {
            info.active_worker_count = n as i32;
            broker.beat(&member, &info, &[]).await.unwrap();
        }
        let sent = (received(&mut redis).await - before) / BEATS;
        let older: Vec<u8> = redis::cmd("GET").arg(KEY).query_async(&mut redis).await.unwrap();
        (began.elapsed() < FRESH).then_some((sent, older))
    })
    .await;
    assert!(sent < 600, "{sent} bytes per beat of a server with {whole} bytes of queues");
    assert_eq!(read(&older), info);

    // A queue is renamed. Then the key has an older value, as on a replica that lags behind, and then the key is lost.
    info.queues[0].queue = Some("renamed".into());
    let us = (&broker, &member);
    assert_eq!(info_after(&redis::cmd("PING"), &mut redis, us, &info).await, info);
    let mut sets = redis::cmd("SET");
    sets.arg(KEY).arg(older);
    assert_eq!(info_after(&sets, &mut redis, us, &info).await, info);
    let mut deletes = redis::cmd("DEL");
    deletes.arg(KEY);
    info.status = "closed".into();
    assert_eq!(info_after(&deletes, &mut redis, us, &info).await, info);
    let left = eventually("a look soon after a beat", async || {
        let began = Instant::now();
        broker.beat(&member, &info, &[]).await.unwrap();
        let left: i64 = redis::cmd("TTL").arg(KEY).query_async(&mut redis).await.unwrap();
        (began.elapsed() < FRESH).then_some(left)
    })
    .await;
    // TTL is -1 for a key without an end.
    assert_eq!(left.clamp(0, 10), left, "seconds");
    // A server of the same name that joins anew sends all.
    let seen = eventually("a look soon after it came", async || {
        let began = Instant::now();
        broker.leave(&member).await.unwrap();
        broker.join(&member.name, &info).await.unwrap();
        let seen = read_info(&mut redis).await;
        (began.elapsed() < FRESH).then_some(seen)
    })
    .await;
    assert_eq!(seen, info);
}

#[tokio::test]
async fn a_server_of_few_queues_sends_them_with_each_beat() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    let queues = (0..3).map(|n| QueueWeight { queue: Some(format!("tenant:{n}")), weight: Some(1) }).collect();
    let info = ServerInfo { queues, status: "active".into(), ..named("here") };
    let member = broker.join(&member("here").name, &info).await.unwrap();
    for _ in 0..3 {
        broker.beat(&member, &info, &[]).await.unwrap();
    }
    let calls = calls_by_command(&mut redis).await;
    assert_eq!(calls.of("getrange"), 0, "{calls:?}");
    assert_eq!(read_info(&mut redis).await, info);
}

#[tokio::test]
async fn the_clock_of_a_go_server_is_read_from_its_listing() {
    let (_server, broker, mut redis) = Server::with_broker().await;
    // These are the writes of Go's `WriteServerState` on a host whose clock is 60 s ahead.
    let key = "asynq:servers:{go:7:id}";
    let info = ServerInfo { host: "go".into(), ..ServerInfo::default() }.encode_to_vec();
    let servers = eventually("a look soon after it was listed", async || {
        let began = Instant::now();
        let until = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 60 + 10;
        let () = redis::cmd("ZADD").arg("asynq:servers").arg(until).arg(key).query_async(&mut redis).await.unwrap();
        let () = redis::cmd("SETEX").arg(key).arg(10).arg(&info).query_async(&mut redis).await.unwrap();
        let servers = broker.servers().await.unwrap();
        (began.elapsed() < FRESH).then_some(servers)
    })
    .await;
    assert!(is_about(servers[0].clock_ahead, 60), "{servers:?}");
    // A key without an end says nothing about a clock.
    let () = redis::cmd("SET").arg(key).arg(&info).query_async(&mut redis).await.unwrap();
    assert_eq!(broker.servers().await.unwrap()[0].clock_ahead, None);
}

fn named(host: &str) -> ServerInfo {
    ServerInfo { host: host.into(), rust_version: "0.1.0".into(), ..ServerInfo::default() }
}

/// Returns the URL of a proxy before the server that adds `seconds` to every answer to `TIME`: so Redis looks from a host whose
/// clock is as much behind.
fn ahead_of(server: &Server, seconds: Arc<AtomicI64>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let socket = server.socket();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(redis) = UnixStream::connect(&socket) else { return };
            pass(client, redis, Arc::clone(&seconds));
        }
    });
    url
}

fn pass(client: TcpStream, redis: UnixStream, seconds: Arc<AtomicI64>) {
    let (mut from_client, mut to_redis) = (client.try_clone().unwrap(), redis.try_clone().unwrap());
    let (mut to_client, mut from_redis) = (client, redis);
    thread::spawn(move || std::io::copy(&mut from_client, &mut to_redis));
    thread::spawn(move || {
        let mut buffer = vec![0; 65536];
        while let Ok(n @ 1..) = from_redis.read(&mut buffer) {
            turn_clocks(&mut buffer[..n], seconds.load(Ordering::Relaxed));
            if to_client.write_all(&buffer[..n]).is_err() {
                return;
            }
        }
    });
}

/// Answers to `TIME` are arrays of two texts, the first the seconds in ten digits.
fn turn_clocks(bytes: &mut [u8], seconds: i64) {
    const HEAD: &[u8] = b"*2\r\n$10\r\n";
    for at in 0..bytes.len().saturating_sub(HEAD.len() + 10) {
        if !bytes[at..].starts_with(HEAD) {
            continue;
        }
        let digits = &mut bytes[at + HEAD.len()..][..10];
        if let Some(time) = std::str::from_utf8(digits).ok().and_then(|text| text.parse::<i64>().ok()) {
            digits.copy_from_slice(format!("{:010}", time + seconds).as_bytes());
        }
    }
}
