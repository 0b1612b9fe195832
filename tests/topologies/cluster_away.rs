//! Redis Cluster while one master is away, and the other nodes have not noticed or serve without it (`cluster-require-full-coverage no`):
//! the queues of the other masters go on.

use std::{net::TcpListener, sync::Arc, time::Duration};

use asynq_runtime::{
    Client,
    broker::{
        Broker, BrokerError, BrokerErrorKind, Consume as _, Inspect as _, Maintain as _, Member, NewTask,
        Presence as _, Produce as _, Quarantined, Refused, RetryOrder, Schedules as _, ServerName, Wanted, When,
        redis::{RedisBroker, RedisOptions},
    },
    clock::ManualClock,
    inspector::InspectError,
    task::{QueueName, SchedulerEntry, ServerInfo},
};
use asynq_tests::{Build as _, RedisCluster, RedisServer, eventually, queue, soon, task, task_id};
use tokio::task::JoinSet;

use crate::topologies::{connect, until_it_works};

const HOUR: Duration = Duration::from_secs(3600);

/// A cluster, a queue on one of its masters, and one on another.
struct World {
    cluster: RedisCluster,
    away: QueueName,
    here: QueueName,
}

impl World {
    fn new() -> Self {
        let cluster = RedisCluster::start();
        let owner = |name: &str| cluster.owner(cluster.slot(&format!("asynq:{{{name}}}:lease")));
        let other = (1..20).map(|i| format!("q{i}")).find(|name| owner(name) != owner("q0"));
        Self { away: queue("q0"), here: queue(&other.unwrap()), cluster }
    }

    /// Connects with the time-outs of a program; `options` goes behind them.
    async fn connect(&self, options: &str) -> RedisBroker {
        let url = format!("{}{options}", self.cluster.url());
        RedisBroker::connect(&url, RedisOptions::default()).await.unwrap()
    }

    fn kill(&mut self, key: &str) {
        let gone = self.cluster.owner(self.cluster.slot(key));
        self.cluster.kill(gone);
    }

    fn kill_away(&mut self) {
        let key = format!("asynq:{{{}}}:lease", self.away);
        self.kill(&key);
    }

    fn queues(&self) -> [QueueName; 2] {
        [self.away.clone(), self.here.clone()]
    }
}

async fn put(broker: &RedisBroker, tasks: Vec<NewTask>) {
    broker.enqueue(tasks).await.into_iter().for_each(|outcome| drop(outcome.unwrap()));
}

#[tokio::test]
async fn calls_to_several_masters_wait_for_one_that_is_away_only_at_first() {
    let mut t = World::new();
    let broker = Arc::new(t.connect("").await);
    t.kill_away();
    let enqueue = |id: &str| {
        let (broker, task) = (Arc::clone(&broker), task(id).in_queue(t.away.as_str()));
        async move { broker.enqueue(vec![task]).await.remove(0) }
    };
    // From here on the master has been away for longer than a call waits. An enqueue waits for it again.
    assert!(enqueue("first").await.is_err());
    let mut waiting = JoinSet::new();
    waiting.spawn(enqueue("second"));
    for _ in 0..50 {
        assert!(broker.forward(&t.queues(), RetryOrder::Last).await.is_err(), "both masters are asked");
    }
    assert!(waiting.try_join_next().is_none(), "the calls waited as well");
}

#[tokio::test]
async fn tasks_that_came_beside_an_error_are_followed_by_the_next() {
    let mut t = World::new();
    let broker = t.connect("?timeout=1s").await;
    let member = asynq_tests::join(&broker, 1).await;
    put(&broker, ["1", "2"].map(|id| task(id).in_queue(t.here.as_str())).into()).await;
    t.kill_away();
    let wanted = t.queues().map(|queue| Wanted { queue, n: 1 });
    assert_eq!(broker.dequeue(&member, &wanted).await.unwrap().len(), 1);
    assert_eq!(broker.dequeue(&member, &wanted[1..]).await.unwrap().len(), 1, "only the queue that is here is asked");
    assert!(broker.dequeue(&member, &wanted).await.unwrap_err().is_unavailable());
}

#[tokio::test]
async fn a_wait_for_work_goes_on_for_the_other_queues_and_ends_with_the_error() {
    let mut t = World::new();
    let (broker, other) = (t.connect("").await, t.connect("").await);
    put(&broker, vec![task("t").in_queue(t.away.as_str())]).await;
    let member = asynq_tests::join(&broker, 1).await;
    t.kill_away();
    let wanted = t.queues().map(|queue| Wanted { queue, n: 1 });
    let stop = Default::default();
    let wait = async || broker.wait_and_dequeue(&member, &wanted, Quarantined::All, HOUR, &stop).await;
    let error = soon(wait()).await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    put(&other, vec![task("t").in_queue(t.here.as_str())]).await;
    let runs = until_it_works("the task that is here", wait).await;
    assert_eq!(runs[0].key.queue, t.here);
}

#[tokio::test]
async fn tasks_of_the_other_queues_become_due() {
    let mut t = World::new();
    let broker = t.connect("").await;
    let later = |queue: &QueueName, ms| {
        let mut task = task("t").in_queue(queue.as_str());
        task.when = When::In(Duration::from_millis(ms));
        task
    };
    put(&broker, vec![later(&t.away, 1), later(&t.here, 1)]).await;
    t.kill_away();
    let error = soon(broker.forward(std::slice::from_ref(&t.away), RetryOrder::Last)).await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    let queues = t.queues();
    let forwarded = eventually("the task becomes pending", async || {
        broker.wait_and_forward(&queues, RetryOrder::Last, HOUR).await.ok()
    })
    .await;
    assert_eq!(forwarded.moved, 1);
    let nothing_else: BrokerError = soon(broker.wait_and_forward(&queues, RetryOrder::Last, HOUR)).await.unwrap_err();
    assert!(nothing_else.is_unavailable(), "{nothing_else:?}");
}

#[tokio::test]
async fn with_the_leases_and_time_outs_of_a_program_tasks_of_the_other_queues_are_recovered() {
    let mut t = World::new();
    let broker = t.connect("?lease=2s&timeout=500ms").await;
    let member = asynq_tests::join(&broker, 1).await;
    for queue in t.queues() {
        put(&broker, vec![task("t").in_queue(queue.as_str())]).await;
        assert_eq!(broker.dequeue(&member, &[Wanted { queue, n: 1 }]).await.unwrap().len(), 1);
    }
    t.kill_away();
    let queues = t.queues();
    let recovered = eventually("the task of the other queue is recovered", async || {
        // As a server does, at its pace.
        let quiet = broker.until_lapse(&queues).await.unwrap_or(Duration::from_millis(100));
        if !quiet.is_zero() {
            tokio::time::sleep(quiet.min(Duration::from_millis(300))).await;
            return None;
        }
        broker.recover(&queues).await.ok().filter(|recovered| !recovered.tasks.is_empty())
    })
    .await;
    assert_eq!(recovered.tasks, [(t.here.clone(), task_id("t"))]);
}

#[tokio::test]
async fn enqueues_for_a_master_that_is_away_hold_up_no_others() {
    let mut t = World::new();
    let broker = Arc::new(t.connect("").await);
    put(&broker, t.queues().map(|queue| task("t").in_queue(queue.as_str())).into()).await;
    t.kill_away();
    let enqueue = |queue: &QueueName, id: String| {
        let (broker, task) = (Arc::clone(&broker), task(&id).in_queue(queue.as_str()));
        async move { broker.enqueue(vec![task]).await.remove(0) }
    };
    // From here on the master has been away for longer than a call waits.
    assert!(enqueue(&t.away, "first".into()).await.is_err());
    let mut away: JoinSet<_> = (0..20).map(|i| enqueue(&t.away, format!("away-{i}"))).collect();
    for i in 0..20 {
        enqueue(&t.here, format!("here-{i}")).await.unwrap();
    }
    assert!(away.try_join_next().is_none(), "these wait for their master");
}

#[tokio::test]
async fn a_server_starts_while_the_master_that_lists_servers_is_away() {
    let mut t = World::new();
    let broker = t.connect("?timeout=1s").await;
    t.kill("asynq:servers");
    let name = ServerName { host: "h".into(), pid: 1, server_id: "s".into() };
    let member = Member { name, number: 0 };
    let info = ServerInfo { host: member.name.host.clone(), ..ServerInfo::default() };
    broker.join(&member.name, &info).await.unwrap();
    assert!(broker.beat(&member, &info, &[]).await.unwrap_err().is_unavailable(), "it is not listed yet");
}

#[tokio::test]
async fn a_list_of_periodic_entries_on_a_master_that_is_away_is_not_empty() {
    let mut t = World::new();
    let broker = t.connect("?timeout=1s").await;
    let key = |scheduler: &str| format!("asynq:schedulers:{{{scheduler}}}");
    let owner = |key: &str| t.cluster.owner(t.cluster.slot(key));
    let mut schedulers = (1..20).map(|pid| format!("h:{pid}:s"));
    let scheduler = schedulers.find(|name| owner(&key(name)) != owner("asynq:schedulers")).unwrap();
    let entry = SchedulerEntry { id: "e".into(), ..SchedulerEntry::default() };
    broker.show_entries(&scheduler, std::slice::from_ref(&entry), HOUR).await.unwrap();
    assert_eq!(broker.scheduler_entries().await.unwrap(), [entry]);
    t.kill(&key(&scheduler));
    assert!(broker.scheduler_entries().await.unwrap_err().is_unavailable());
}

#[tokio::test]
async fn a_program_that_waits_for_replicas_starts_while_a_master_is_away() {
    let mut t = World::new();
    t.kill_away();
    let broker = t.connect("?durability=replicas(1)&durability_timeout=50ms&timeout=1s").await;
    let outcome = broker.enqueue(vec![task("t").in_queue(t.here.as_str())]).await.remove(0);
    let Err(Refused::Broker(error)) = &outcome else { panic!("the master has no replica: {outcome:?}") };
    assert_eq!(error.kind(), BrokerErrorKind::Unconfirmed, "{error:?}");
}

#[tokio::test]
async fn a_cancellation_ends_orphans_in_the_other_queues_and_says_that_one_could_not_be_looked_at() {
    let mut t = World::new();
    let clock = ManualClock::default();
    let mut options = RedisOptions::default();
    options.clock = Some(Arc::new(clock.clone()));
    let broker = Arc::new(RedisBroker::connect(&t.cluster.url(), options).await.unwrap());
    let member = asynq_tests::join(&*broker, 1).await;
    // The names of all queues are known while this master is away.
    let is_names = |queue: &QueueName| {
        let owner = |key: &str| t.cluster.owner(t.cluster.slot(key));
        owner(&format!("asynq:{{{queue}}}:lease")) == owner("asynq:queues")
    };
    if is_names(&t.away) {
        std::mem::swap(&mut t.away, &mut t.here);
    }
    put(&broker, t.queues().map(|queue| task("t").in_queue(queue.as_str())).into()).await;
    assert_eq!(broker.dequeue(&member, &[Wanted { queue: t.here.clone(), n: 1 }]).await.unwrap().len(), 1);
    clock.advance(Duration::from_secs(31));
    t.kill_away();
    let inspector = Client::new(Arc::clone(&broker) as Arc<dyn Broker>).inspector();
    let InspectError::Broker(error) = inspector.cancel("t").await.unwrap_err() else { panic!("not the broker's") };
    assert!(error.is_unavailable(), "{error:?}");
    assert_eq!(broker.queue_stats(&t.here).await.unwrap().active, 0);
}

#[tokio::test]
async fn a_first_node_that_does_not_answer_keeps_no_program_from_its_start() {
    let cluster = RedisCluster::start();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let broker = connect(&format!("redis-cluster://127.0.0.1:{port},{}", cluster.nodes())).await.unwrap();
    put(&broker, vec![task("t")]).await;
}

#[tokio::test]
async fn a_master_that_is_away_holds_up_no_start_and_another_one_that_may_evict_is_refused() {
    let mut t = World::new();
    let here = t.cluster.owner(t.cluster.slot(&format!("asynq:{{{}}}:lease", t.here)));
    t.kill_away();
    // A call waits so long for a connection, and the start for none to this master.
    let (url, mut options) = (t.cluster.url(), RedisOptions::default());
    options.call_timeout = HOUR;
    let start = async || soon(RedisBroker::connect(&url, options.clone())).await;
    start().await.unwrap().ping().await.unwrap();
    t.cluster.command::<()>(here, &["CONFIG", "SET", "maxmemory-policy", "volatile-lru"]);
    assert_eq!(start().await.unwrap_err().kind(), BrokerErrorKind::Config);
}

/// As one that `redis-cli --cluster del-node` has left running.
#[tokio::test]
async fn a_first_node_without_slots_keeps_no_program_from_its_start() {
    let (cluster, alone) = (RedisCluster::start(), RedisServer::with_options(&["--cluster-enabled", "yes"]));
    let broker = connect(&format!("redis-cluster://127.0.0.1:{},{}", alone.port(), cluster.nodes())).await.unwrap();
    put(&broker, vec![task("t")]).await;
}

/// The tasks of such a queue would wait for ever where a server finds its queues by a pattern.
#[tokio::test]
async fn a_queue_whose_first_task_came_while_the_master_of_the_names_was_away_is_found_later() {
    let mut t = World::new();
    let owner = |key: &str| t.cluster.owner(t.cluster.slot(key));
    let of_names = owner("asynq:queues");
    let mut elsewhere = t.queues().into_iter().filter(|queue| owner(&format!("asynq:{{{queue}}}:lease")) != of_names);
    let new = elsewhere.next().unwrap();
    let broker = t.connect("?timeout=1s").await;
    t.cluster.kill(of_names);
    put(&broker, vec![task("t").in_queue(new.as_str())]).await;
    t.cluster.restart(of_names);
    let names = async || broker.queues().await.ok().filter(|names| names.contains(&new));
    eventually("the queue is known", names).await;
}
