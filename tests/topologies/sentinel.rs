//! Redis behind sentinels: the broker uses the present master.

use std::time::{Duration, Instant};

use asynq_runtime::broker::{
    Broker as _, BrokerErrorKind, Consume as _, Presence as _, Produce as _, Quarantined, Refused,
    redis::{RedisBroker, RedisOptions},
};
use asynq_tests::{Persistence, RedisServer, SentinelServers, default_queue, eventually, soon, task, task_id};

use crate::topologies::{connect, connections, put_once, until_it_works};

#[tokio::test]
async fn a_name_that_no_sentinel_knows_is_a_mistake_in_the_url() {
    let servers = SentinelServers::start();
    let error = connect(&servers.url().replace("master=asynq", "master=other")).await.unwrap_err();
    assert_eq!(error.kind(), BrokerErrorKind::Config, "{error:?}");
    assert!(error.to_string().contains("`other`"), "{error}");
}

#[tokio::test]
async fn one_sentinel_that_answers_is_enough_and_none_is_unavailable() {
    let mut servers = SentinelServers::start();
    servers.kill_sentinel(0);
    servers.kill_sentinel(1);
    connect(&servers.url()).await.unwrap().ping().await.unwrap();
    servers.kill_sentinel(2);
    let error = connect(&servers.url()).await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
}

/// A plain Redis confirms the subscription, and then refuses the question.
#[tokio::test]
async fn a_host_that_is_not_a_sentinel_is_dialled_again_only_after_a_pause() {
    let (servers, plain) = (SentinelServers::start(), RedisServer::start(Persistence::None));
    let url = servers.url().replacen("/0?", &format!(",127.0.0.1:{}/0?", plain.port()), 1);
    let _broker = connect(&url).await.unwrap();
    let mut redis = plain.connection();
    let mut dialled = || connections(&redis::cmd("INFO").arg("stats").query::<String>(&mut redis).unwrap());
    let (since, before) = (Instant::now(), dialled());
    eventually("three more connections", async || (dialled() >= before + 3).then_some(())).await;
    // The first may have been due, and the second asked for while the broker connected.
    assert!(since.elapsed() >= Duration::from_secs(2), "{:?}", since.elapsed());
}

#[tokio::test]
async fn a_broker_finds_the_new_master_and_wakes_there() {
    let mut servers = SentinelServers::failing_over();
    // The calls to the dead primary time out as early as a program's.
    let broker = RedisBroker::connect(&servers.url(), RedisOptions::default()).await.unwrap();
    broker.enqueue(vec![task("t1")]).await.remove(0).unwrap();
    // The replica must have the task, or the task would be lost with the primary.
    servers.replicated();
    assert_eq!(servers.master(), 0);
    servers.kill(0);

    until_it_works("an enqueue after the failover", async || put_once(&broker, task("t2")).await).await;
    assert_eq!(servers.master(), 1);
    let member = asynq_tests::join(&broker, 1).await;
    let wanted = [asynq_runtime::broker::Wanted { queue: default_queue(), n: 5 }];
    let runs = broker.dequeue(&member, &wanted).await.unwrap();
    assert_eq!(runs.iter().map(|run| run.key.id.as_str()).collect::<Vec<_>>(), ["t1", "t2"]);

    // The connection that listens for notifications has moved, too.
    let queues = [default_queue()];
    broker.wait_for_work(&queues, Quarantined::All, Duration::from_millis(50)).await.unwrap();
    let (woken, placed) = tokio::join!(
        soon(broker.wait_for_work(&queues, Quarantined::All, Duration::from_secs(3600))),
        broker.enqueue(vec![task("t3")])
    );
    woken.unwrap();
    placed.into_iter().for_each(|placed| assert!(placed.is_ok()));
    let mut cancellations = broker.cancellations().await.unwrap();
    broker.cancel(&task_id("t1")).await.unwrap();
    assert_eq!(soon(cancellations.next()).await.unwrap().as_str(), "t1");
}

/// For some ten seconds after a planned failover the master before it still says that it is one.
#[tokio::test]
async fn a_master_that_was_replaced_gets_no_further_task_although_it_takes_them() {
    let servers = SentinelServers::start();
    let broker = connect(&servers.url()).await.unwrap();
    let queues = [default_queue()];
    broker.wait_for_work(&queues, Quarantined::All, Duration::ZERO).await.unwrap();
    broker.enqueue(vec![task("t0")]).await.remove(0).unwrap();
    servers.name_the_other();
    let mut n = 0;
    until_it_works("an enqueue where the sentinels say", async || {
        n += 1;
        let id = format!("t{n}");
        match broker.enqueue(vec![task(&id)]).await.remove(0) {
            Ok(_) => Ok(()),
            Err(Refused::Broker(error)) => Err(error),
            Err(other) => panic!("{other:?}"),
        }?;
        match servers.command(1, &["EXISTS", &format!("asynq:{{default}}:t:{id}")]) {
            true => Ok(()),
            false => {
                Err(asynq_runtime::broker::BrokerError::new(BrokerErrorKind::Unavailable, "stored at the old one"))
            }
        }
    })
    .await;
    // The connection that listens for notifications has moved, too.
    let member = asynq_tests::join(&broker, 1).await;
    let wanted = [asynq_runtime::broker::Wanted { queue: default_queue(), n: 1_000 }];
    broker.dequeue(&member, &wanted).await.unwrap();
    let (woken, placed) = tokio::join!(
        soon(broker.wait_for_work(&queues, Quarantined::All, Duration::from_secs(3600))),
        broker.enqueue(vec![task("last")])
    );
    woken.unwrap();
    placed.into_iter().for_each(|placed| assert!(placed.is_ok()));
}
