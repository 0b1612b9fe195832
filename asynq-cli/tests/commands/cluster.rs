//! Answers that only a Redis Cluster gives: its nodes, and the slots of the queues.

use asynq_tests::{Build as _, Lent, RedisCluster, StoreOn, task};

use crate::fixture::CliFixture;

type Cluster = StoreOn<Lent<RedisCluster>>;

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
