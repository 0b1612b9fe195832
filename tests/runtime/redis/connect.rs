//! Connections: how they begin, are lost and are closed, and that they never show a password.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpListener},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use asynq_runtime::{
    Client, EnqueueError, RawTask,
    broker::{
        Broker, BrokerErrorKind, BulkAction, Consume, Maintain, Presence, Produce, Quarantined, Refused, Repair,
        Settled, redis::RedisBroker,
    },
    inspector::InspectError,
    task::{ServerInfo, TaskId},
};
use asynq_test_support::{Log, eventually, soon};
use redis::AsyncCommands;

use super::{
    caller_driven::caller_driven_ids,
    server::{BRIEF, FRESH, Proxy, Server, in_time, patient},
    tasks::*,
};
use crate::answered;

#[tokio::test]
async fn a_wrong_password_is_denied_at_once_and_shown_nowhere() {
    let server = Server::start(&["--requirepass", "secret"]);
    for login in ["?pass=canary", "", "?user=nobody&pass=canary"] {
        let url = format!("{}{login}", server.url());
        let error = RedisBroker::connect(&url, patient()).await.unwrap_err();
        assert_eq!(error.kind(), BrokerErrorKind::Denied, "{login}: {error:?}");
        assert!(!format!("{error} {error:?}").contains("canary"));
        let asks = error.to_string().contains("asks for a password, and the URL has none");
        assert_eq!(asks, login.is_empty(), "{login}: {error}");
    }
    let proxy = Proxy::before(&server);
    for url in [format!("{}?pass=secret", server.url()), format!("redis://:secret@127.0.0.1:{}/1", proxy.port)] {
        let broker = RedisBroker::connect(&url, patient()).await.unwrap();
        broker.ping().await.unwrap();
        assert!(!format!("{broker:?} {}", broker.location()).contains("secret"));
    }
}

#[tokio::test]
async fn a_server_that_echoes_unknown_commands_leaks_no_password_and_is_spoken_to_in_its_own_version() {
    let server = Server::start(&["--requirepass", "secret", "--rename-command", "HELLO", ""]);
    let broker = RedisBroker::connect(&format!("{}?pass=secret", server.url()), patient()).await.unwrap();
    put(&broker, &["a"]).await;
    // Only the wake-up needs the third version of the protocol; without it the caller's own pauses count.
    let error = broker.wait_for_work(&[queue()], Quarantined::All, Duration::ZERO).await;
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");

    let server = Server::start(&["--requirepass", "canary", "--rename-command", "AUTH", ""]);
    let url = format!("{}?user=u&pass=canary", server.url());
    let mut error: &dyn std::error::Error = &RedisBroker::connect(&url, patient()).await.unwrap_err();
    assert!(!format!("{error:?}").contains("canary"), "{error:?}");
    while let Some(cause) = error.source() {
        assert!(!cause.to_string().contains("canary"), "{cause}");
        error = cause;
    }
}

#[tokio::test]
async fn a_server_without_resp3_is_used_and_says_that_cancel_requests_do_not_arrive() {
    let server = Server::start(&[]);
    let broker = RedisBroker::connect(&Proxy::without_resp3(&server).url(), patient()).await.unwrap();
    put(&broker, &["a"]).await;
    assert_eq!(ids(&take(&broker, &member("me"), 9).await), ["a"]);
    let error = soon(broker.cancellations()).await.map(drop).unwrap_err();
    assert_eq!(error.kind(), BrokerErrorKind::Config, "{error:?}");
    assert!(error.to_string().contains("RESP3"), "{error}");
}

/// No push tells such a connection that it was closed, as by the idle time-out of a proxy.
#[tokio::test]
async fn a_connection_without_resp3_that_was_closed_while_it_was_idle_costs_no_call() {
    let server = Server::start(&[]);
    let mut redis = server.foreign().await;
    let broker = RedisBroker::connect(&Proxy::without_resp3(&server).url(), patient()).await.unwrap();
    let newest = caller_driven_ids(&mut redis).await.into_iter().max().unwrap();
    let _: i64 = redis::cmd("CLIENT").arg(&["KILL", "TYPE", "normal"]).query_async(&mut redis).await.unwrap();
    let is_new = async || caller_driven_ids(&mut redis).await.into_iter().any(|id| id > newest).then_some(());
    eventually("the broker connects again by itself", is_new).await;
    broker.ping().await.unwrap();
}

#[tokio::test]
async fn a_server_that_does_not_answer_info_is_used_with_one_warning_that_names_the_command() {
    let server = Server::start(&["--rename-command", "INFO", "", "--rename-command", "PUBLISH", ""]);
    let log = Log::keep();
    let broker = server.broker().await;
    put(&broker, &["a"]).await;
    assert_eq!(ids(&take(&broker, &member("me"), 9).await), ["a"]);
    let warned = log.with("does not tell its maxmemory-policy");
    assert!(warned.len() == 1 && warned[0].contains("has no command INFO: it is renamed or forbidden"), "{warned:?}");
    let error = broker.cancel(&TaskId::new("a").unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), BrokerErrorKind::Config, "{error:?}");
    assert!(error.to_string().contains("has no command PUBLISH: it is renamed or forbidden"), "{error}");
}

#[tokio::test]
async fn a_server_without_resp3_is_logged_in_to() {
    let rules = "--user worker on >p@ss ~asynq:* &asynq:* +@all --user default off";
    let server = Server::start(&rules.split(' ').collect::<Vec<_>>());
    let proxy = Proxy::without_resp3(&server);
    let url = |password: &str| format!("redis://worker:{password}@127.0.0.1:{}/5", proxy.port);
    let broker = RedisBroker::connect(&url("p%40ss"), patient()).await.unwrap();
    put(&broker, &["a"]).await;
    assert_eq!(ids(&take(&broker, &member("me"), 9).await), ["a"]);
    let error = soon(RedisBroker::connect(&url("wrong"), patient())).await.unwrap_err();
    assert_eq!(error.kind(), BrokerErrorKind::Denied, "{error:?}");
    assert!(!format!("{error:?}").contains("wrong:") && error.to_string().contains("password"), "{error}");
}

#[tokio::test]
async fn user_password_and_database_are_used_over_tcp_and_unix_socket() {
    let rules = "--user worker on >p@ss ~asynq:* &asynq:* +@all --user default off";
    for (over_tcp, database) in [(true, 5), (false, 6)] {
        let server = Server::start(&rules.split(' ').collect::<Vec<_>>());
        // The proxy passes bytes on, so a connection over TCP has to send AUTH and SELECT itself.
        let proxy = Proxy::before(&server);
        let url = if over_tcp {
            format!("redis://worker:p%40ss@127.0.0.1:{}/{database}", proxy.port)
        } else {
            format!("{}?user=worker&pass=p%40ss&db={database}", server.url())
        };
        let broker = RedisBroker::connect(&url, patient()).await.unwrap();
        put(&broker, &["a"]).await;
        assert!(!format!("{broker:?} {}", broker.location()).contains("p@ss"));
        let mut there = server.foreign_with(&format!("?user=worker&pass=p%40ss&db={database}")).await;
        let length: u64 = there.llen("asynq:{default}:pending").await.unwrap();
        assert_eq!(length, 1, "in database {database}, where {url} says");
        assert_eq!(ids(&take(&broker, &member("me"), 9).await), ["a"]);
        // The connection that listens for notifications has to log in and choose the database too.
        let queues = [queue()];
        let (woken, ()) = soon(async {
            tokio::join!(broker.wait_for_work(&queues, Quarantined::All, HOUR), async {
                until_tracked(&mut there, 2).await;
                let () = there.lpush("asynq:{default}:pending", "stranger").await.unwrap();
            })
        })
        .await;
        woken.unwrap();
    }
}

#[tokio::test]
async fn a_call_to_a_redis_that_was_killed_is_typed_and_changed_nothing() {
    let mut server = Server::start(&[]);
    // Each enqueue waits twice as long for a Redis that is gone.
    let options = in_time(BRIEF / 3);
    let client = Client::new(Arc::new(server.broker_with(options).await));
    let raw = || RawTask::new("of go", "x");
    eventually("Redis answers in time", async || client.enqueue(raw()).await.ok()).await;
    server.kill();
    // A call that comes before the end of the connection is noticed may be written to it.
    assert!(soon(client.ping()).await.unwrap_err().is_unavailable());
    let error = soon(client.enqueue(raw())).await.unwrap_err();
    assert!(!error.is_ambiguous() && !error.is_duplicate(), "{error:?}");
    assert!(matches!(&error, EnqueueError::Broker(broker) if broker.is_unavailable()), "{error:?}");
    let inspector = client.inspector();
    let changes = async {
        tokio::join!(
            inspector.run("default", "t"),
            inspector.move_to("default", "t", "low"),
            inspector.pause("default")
        )
    };
    let (run, moved, paused) = soon(changes).await;
    for change in [run, moved, paused.map(drop)] {
        let Err(InspectError::Broker(error)) = &change else { panic!("{change:?}") };
        assert!(!error.is_ambiguous() && error.to_string().ends_with("; nothing was changed"), "{error:?}");
    }
    let outer = soon(client.enqueue_many([raw(), raw()])).await.unwrap_err();
    assert!(outer.is_unavailable(), "nothing was sent: {outer:?}");
    server.restart();
    // The client works again as soon as there is a Redis again.
    eventually("the client reaches the new Redis", async || client.ping().await.ok()).await;
    eventually("the new Redis answers in time", async || client.enqueue(raw()).await.ok()).await;
}

#[tokio::test]
async fn a_redis_that_is_not_there_and_one_that_does_not_answer_end_in_time() {
    let options = || in_time(BRIEF / 10);
    let error = soon(RedisBroker::connect("redis://127.0.0.1:1", options())).await.unwrap_err();
    assert_eq!(error.kind(), BrokerErrorKind::Unavailable);

    let mute = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", mute.local_addr().unwrap());
    let error = soon(RedisBroker::connect(&url, options())).await.unwrap_err();
    assert_eq!(error.kind(), BrokerErrorKind::Timeout);

    let mut server = Server::start(&[]);
    let broker = server.broker_with(in_time(BRIEF)).await;
    let pings = async || broker.ping().await.ok();
    // Only the time limit of the call can end it while Redis stands still.
    let stopped = server.stop();
    let queue = queue();
    let error = soon(broker.change_task(&queue, &TaskId::new("t").unwrap(), None, BulkAction::Run)).await.unwrap_err();
    assert!(error.is_unavailable() && error.is_ambiguous(), "{error:?}");
    assert!(error.to_string().ends_with("; whether the call took effect is unknown"), "{error}");
    drop(stopped);
    eventually("the broker reaches Redis again", pings).await;
    server.restart();
    eventually("the broker reaches the new Redis", pings).await;
}

#[tokio::test]
async fn the_reason_why_redis_refuses_a_connection_is_told() {
    for (reason, kind, word) in [
        (
            "-DENIED Redis is running in protected mode because it has no password",
            BrokerErrorKind::Denied,
            "protected mode",
        ),
        ("-ERR max number of clients reached", BrokerErrorKind::Unavailable, "maxclients"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        // The thread ends with the test's process.
        thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                write!(client, "{reason}\r\n").unwrap();
                client.shutdown(Shutdown::Write).unwrap();
                let _ = client.read_to_end(&mut Vec::new());
            }
        });
        let error = soon(RedisBroker::connect(&url, patient())).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error:?}");
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[tokio::test]
async fn a_closed_broker_returns_an_error_and_wakes_its_waiters() {
    let server = Server::start(&[]);
    let broker = Arc::new(server.broker().await);
    let waiting = Arc::clone(&broker);
    let mut listener = broker.cancellations().await.unwrap();
    let waiter = tokio::spawn(async move { waiting.wait_for_work(&[queue()], Quarantined::All, HOUR).await });
    until_tracked(&mut server.foreign().await, 2).await;
    broker.close().await;
    broker.close().await;
    let kind = |error: asynq_runtime::broker::BrokerError| error.kind();
    assert_eq!(soon(waiter).await.unwrap().map_err(kind), Err(BrokerErrorKind::Closed));
    assert_eq!(broker.ping().await.map_err(kind), Err(BrokerErrorKind::Closed));
    assert!(soon(listener.next()).await.is_err());
    let refused = broker.enqueue(vec![task("a")]).await.remove(0).unwrap_err();
    assert!(matches!(refused, Refused::Broker(error) if error.kind() == BrokerErrorKind::Closed));
}

#[tokio::test]
async fn an_enqueue_that_was_sent_when_the_broker_is_closed_is_ambiguous() {
    let server = Server::start(&[]);
    let broker = Arc::new(server.broker().await);
    let mut redis = server.foreign().await;
    let () = redis::cmd("CLIENT")
        .arg("PAUSE")
        .arg(HOUR.as_millis() as u64)
        .arg("WRITE")
        .exec_async(&mut redis)
        .await
        .unwrap();
    let enqueued = tokio::spawn({
        let client = Client::new(Arc::clone(&broker) as Arc<dyn Broker>);
        async move { client.enqueue(RawTask::new("t", "x")).await }
    });
    eventually("Redis has read the task and does not answer", async || {
        let clients: String = redis::cmd("INFO").arg("clients").query_async(&mut redis).await.unwrap();
        clients.contains("blocked_clients:1\r").then_some(())
    })
    .await;
    broker.close().await;
    let error = soon(enqueued).await.unwrap().unwrap_err();
    assert!(error.is_ambiguous(), "{error:?}");
}

#[tokio::test]
async fn cancel_requests_of_anyone_arrive() {
    let server = Server::start(&[]);
    let broker = server.broker().await;
    let mut listener = broker.cancellations().await.unwrap();
    broker.cancel(&TaskId::new("a").unwrap()).await.unwrap();
    let () = server.foreign().await.publish("asynq:cancel", "b").await.unwrap();
    for id in ["a", "b"] {
        assert_eq!(soon(listener.next()).await.unwrap(), id);
    }
}

#[tokio::test]
async fn a_redis_that_may_evict_tasks_is_refused_unless_allowed() {
    let server = Server::start(&["--maxmemory-policy", "allkeys-lru"]);
    let error = RedisBroker::connect(&server.url(), patient()).await.unwrap_err();
    assert_eq!(error.kind(), BrokerErrorKind::Config);
    assert!(error.to_string().contains("allkeys-lru"), "{error}");
    let mut allowed = patient();
    allowed.allow_eviction = true;
    server.broker_with(allowed).await;
}

#[test]
fn a_blocked_runtime_stops_no_call_of_another_one() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let blocked = runtime();
    let (_server, broker) = blocked.block_on(async {
        let server = Server::start(&[]);
        let broker = Arc::new(server.broker().await);
        (server, broker)
    });
    // The runtime that connected is not driven any more; the heartbeat runtime has connections of its own.
    runtime().block_on(async {
        put(&broker, &["a"]).await;
        let runs = take(&broker, &member("me"), 1).await;
        assert_eq!(answered(broker.extend(&[runs[0].key.clone()]).await), [Settled::Ok]);
        broker.wait_for_work(&[queue()], Quarantined::All, Duration::from_millis(10)).await.unwrap();
    });
}

#[tokio::test]
async fn options_that_would_lose_tasks_or_never_end_are_refused() {
    let server = Server::start(&[]);
    let lease = |lease| {
        let mut options = patient();
        options.lease = lease;
        options
    };
    for options in [lease(Duration::from_secs(1)), lease(Duration::from_millis(2_500)), in_time(Duration::ZERO)] {
        let error = RedisBroker::connect(&server.url(), options).await.unwrap_err();
        assert_eq!(error.kind(), BrokerErrorKind::Config, "{error}");
    }
    let broker = server.broker_with(in_time(Duration::MAX)).await;
    put(&broker, &["a"]).await;
}

#[tokio::test]
async fn a_lease_shorter_than_gos_is_refused_while_a_go_server_lives() {
    let server = Server::start(&[]);
    let mut brief = patient();
    brief.lease = Duration::from_secs(2);
    let (broker, brief) = (server.broker().await, server.broker_with(brief).await);
    let ours = ServerInfo { rust_version: "0.1.0".into(), ..Default::default() };
    let rust = broker.join(&member("rust").name, &ours).await.unwrap();
    let joined = brief.join(&member("brief").name, &ours).await.unwrap();
    let go = broker.join(&member("go").name, &ServerInfo::default()).await.unwrap();
    let joined_too = eventually("a look while the Go server is known", async || {
        let began = Instant::now();
        broker.beat(&go, &ServerInfo::default(), &[]).await.unwrap();
        let joined = brief.join(&member("brief too").name, &ours).await;
        (began.elapsed() < FRESH).then_some(joined)
    });
    let refused = joined_too.await.unwrap_err();
    assert_eq!(refused.kind(), BrokerErrorKind::Config);
    broker.leave(&go).await.unwrap();
    let late = brief.join(&member("brief too").name, &ours).await.unwrap();
    let all = [(&broker, rust), (&brief, joined), (&brief, late)];
    let known = eventually("a look soon after the beats", async || {
        let began = Instant::now();
        for (broker, member) in &all {
            broker.beat(member, &ours, &[]).await.unwrap();
        }
        let servers = broker.servers().await.unwrap();
        (began.elapsed() < FRESH).then_some(servers.len())
    });
    assert_eq!(known.await, 3);
}

#[tokio::test]
async fn a_task_on_redis_joins_no_transaction_of_sqlite() {
    use asynq_runtime::{broker::sqlite::TransactionError, rusqlite::Connection};

    let server = Server::start(&["--requirepass", "secret"]);
    let broker = RedisBroker::connect(&format!("{}?pass=secret", server.url()), patient()).await.unwrap();
    let client = Client::new(Arc::new(broker));
    let connection = Connection::open_in_memory().unwrap();
    let attached = client.attach(&connection).unwrap_err();
    assert!(matches!(attached, TransactionError::NotSqlite { .. }), "{attached:?}");
    let refused = client.enqueue_in_tx(&connection, RawTask::new("t", "")).unwrap_err();
    assert!(matches!(refused, EnqueueError::Transaction(TransactionError::NotSqlite { .. })), "{refused:?}");
    let text = client.row(RawTask::new("t", "")).unwrap_err().to_string();
    assert!(text.contains("only in SQLite") && text.contains("redis") && !text.contains("secret"), "{text}");
    client.wake();
}
