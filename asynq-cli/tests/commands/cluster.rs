//! Answers that only a Redis Cluster gives: its nodes, and the slots of the queues.

use asynq_runtime::{
    Client, RawTask,
    broker::{ServerName, Wanted},
    task::{QueueName, ServerInfo},
};
use asynq_tests::{Build as _, RedisCluster, StoreOn, task};
use serde_json::{Value, json};

use crate::fixture::{self, CliFixture, Setting};

type Cluster = StoreOn<RedisCluster>;

#[tokio::test]
async fn stats_and_queue_ls_show_the_node_of_each_queue() {
    let cli = CliFixture::<Cluster>::start().await;
    for name in ["default", "low"] {
        cli.t.enqueue(task("t1").in_queue(name)).await;
    }
    let answer = cli.json("stats").await;
    let nodes = answer["redis"].as_array().unwrap();
    assert_eq!(nodes.len(), 3, "{answer}");
    for node in nodes {
        assert_eq!((&node["cluster_state"], &node["cluster_size"]), (&"ok".into(), &3.into()), "{node}");
        assert!(node["memory_bytes"].is_u64() && node["uptime_seconds"].is_u64(), "{node}");
    }
    // The slot that the real nodes compute, at the node that answers for it.
    let slots = answer["slots"].as_array().unwrap();
    assert_eq!(slots.iter().map(|slot| slot["queue"].as_str().unwrap()).collect::<Vec<_>>(), ["default", "low"]);
    for row in slots {
        let cluster = cli.t.store.server();
        let slot = cluster.slot(&format!("asynq:{{{}}}:pending", row["queue"].as_str().unwrap()));
        let address = format!("127.0.0.1:{}", cluster.port(cluster.owner(slot)));
        assert_eq!((&row["slot"], &row["nodes"][0]), (&slot.into(), &address.into()), "{row}");
    }

    let (stats, list) = (cli.run("stats").await.out, cli.run("queue ls -l").await.out);
    assert!(stats.contains("Cluster: state ok, 3 known nodes, 3 masters with slots\n"), "{stats}");
    let address = slots[0]["nodes"][0].as_str().unwrap();
    let slot = slots[0]["slot"].to_string();
    for text in [&stats, &list] {
        let is_row = |line: &str| line.split_whitespace().eq(["default", &slot, address]);
        assert!(text.lines().any(is_row), "{slot} {address}\n{text}");
    }
    assert_eq!(cli.run("queue ls").await.out, "default\nlow\n");
}

/// A cluster one of whose nodes can be killed.
struct OneAway {
    client: Client,
    cluster: RedisCluster,
    /// The node to be killed, which has none of the lists of queues and servers.
    node: usize,
}

impl OneAway {
    async fn start() -> Self {
        let cluster = RedisCluster::start();
        let client = Client::connect(&cluster.url()).await.unwrap();
        let lists = ["asynq:queues", "asynq:servers"].map(|key| cluster.owner(cluster.slot(key)));
        let node = (0..3).find(|node| !lists.contains(node)).unwrap();
        Self { client, cluster, node }
    }

    /// Enqueues a task in as many queues on the node that will be killed, if `is_away`, or else on others; returns their names.
    async fn queues<const N: usize>(&self, is_away: bool) -> [String; N] {
        let is_there = |name: &String| {
            let owner = self.cluster.owner(self.cluster.slot(&format!("asynq:{{{name}}}:pending")));
            (owner == self.node) == is_away
        };
        let mut names = (0..).map(|n| format!("q{n}")).filter(is_there);
        let names = std::array::from_fn(|_| names.next().unwrap());
        for name in &names {
            self.client.enqueue(RawTask::new("mail", "{}").queue(name)).await.unwrap();
        }
        names
    }

    /// Returns a client of its own: a command closes that which it gets.
    async fn connect(&self) -> Client {
        Client::connect(&self.cluster.url()).await.unwrap()
    }

    async fn run(&self, words: &[&str]) -> fixture::Answer {
        fixture::run(Some(self.connect().await), Setting::default(), words).await
    }
}

#[tokio::test]
async fn without_a_node_nothing_is_concluded_from_the_list_of_servers() {
    let mut t = OneAway::start().await;
    let [_waits] = t.queues(false).await;
    t.cluster.kill(t.node);
    let report = fixture::read(&t.run(&["doctor", "--json"]).await);
    let findings = report["findings"].as_array().unwrap();
    assert!(findings.iter().all(|finding| finding["check"] != "no-consumer"), "{report}");
    let node = format!("127.0.0.1:{}", t.cluster.port(t.node));
    let away: Vec<_> = findings.iter().filter(|finding| finding["check"] == "unreadable").collect();
    assert!(away.iter().any(|finding| finding["found"].as_str().unwrap().ends_with(&node)), "{report}");
    assert!(away.iter().all(|finding| !finding["repair"].as_str().unwrap().contains("+info")), "{report}");
    for command in [&["server", "ls"][..], &["stats"]] {
        let answer = t.run(command).await;
        assert!(answer.out.contains("no server is listed, but a node of the cluster does not answer"), "{answer}");
    }
}

#[tokio::test]
async fn a_node_that_is_away_is_one_finding_with_its_queues() {
    let mut t = OneAway::start().await;
    let ([_waits], names) = (t.queues(false).await, t.queues::<7>(true).await);
    t.cluster.kill(t.node);
    let report = fixture::read(&t.run(&["doctor", "--json"]).await);
    assert_eq!(report["complete"], false, "{report}");
    let findings = report["findings"].as_array().unwrap();
    let of_queues = |finding: &&Value| names.iter().any(|name| finding.to_string().contains(&format!("{name}, ")));
    let [away] = findings.iter().filter(of_queues).collect::<Vec<_>>()[..] else { panic!("{report}") };
    let node = format!("127.0.0.1:{}", t.cluster.port(t.node));
    assert!(away["found"].as_str().unwrap().contains(&format!("{node}, with 7 queues: ")), "{report}");
    assert!(findings.iter().all(|finding| names.iter().all(|name| finding["subject"] != name.as_str())), "{report}");
    let text = t.run(&["doctor"]).await;
    assert!(text.out.contains(", 8 queues, "), "{text}");
}

#[tokio::test]
async fn without_the_list_of_servers_the_numbers_of_the_queues_are_shown() {
    let mut t = OneAway::start().await;
    // The names of the queues lie on another node.
    t.node = t.cluster.owner(t.cluster.slot("asynq:servers"));
    let [known] = t.queues(false).await;
    t.cluster.kill(t.node);
    let answer = t.run(&["stats", "--json"]).await;
    let stats: Value = serde_json::from_str(&answer.out).unwrap_or_else(|error| panic!("{error}\n{answer}"));
    assert_eq!((&stats["queues"][0]["queue"], &stats["queues"][0]["pending"]), (&json!(known), &json!(1)), "{stats}");
    assert_eq!(stats["servers"], json!([]), "{stats}");
    assert!(stats["servers_unreadable"].is_string(), "{stats}");
    let text = t.run(&["stats"]).await;
    assert!(text.out.contains("which servers run is not known\n"), "{text}");
    let list = t.run(&["server", "ls"]).await;
    for (answer, code) in [(&answer, 1), (&text, 1), (&list, 2)] {
        assert_eq!(answer.code, code, "{answer}");
        assert!(answer.err.contains("error: the list of servers cannot be read: "), "{answer}");
    }
}

#[tokio::test]
async fn a_node_that_is_away_keeps_no_queue_of_another_from_being_paused() {
    let mut t = OneAway::start().await;
    let ([away], [one, other]) = (t.queues(true).await, t.queues(false).await);
    t.cluster.kill(t.node);
    let answer = t.run(&["queue", "pause", &away, &one, &other, "--json"]).await;
    assert_eq!(answer.code, 2, "{answer}");
    let rows: Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 3, "{rows}");
    assert!(rows[0]["error"].is_string() && rows[1]["error"].is_null() && rows[2]["error"].is_null(), "{rows}");
    for name in [&one, &other] {
        assert!(t.connect().await.inspector().queue(name).await.unwrap().paused, "{rows}");
    }
}

#[tokio::test]
async fn a_task_is_cancelled_while_a_node_of_another_queue_is_away() {
    let mut t = OneAway::start().await;
    let ([_away], [runs]) = (t.queues(true).await, t.queues(false).await);
    let broker = t.client.broker();
    let name = ServerName { host: "h".into(), pid: 7, server_id: "s".into() };
    let member = broker.join(&name, &ServerInfo::default()).await.unwrap();
    let taken = broker.dequeue(&member, &[Wanted { queue: QueueName::from_wire(&runs), n: 1 }]).await.unwrap();
    let id = taken[0].key.id.to_string();
    t.cluster.kill(t.node);
    let answer = t.run(&["task", "cancel", &id]).await;
    assert_eq!(answer.code, 0, "{answer}");
    assert!(answer.out.contains("was asked to cancel it"), "{answer}");
}
