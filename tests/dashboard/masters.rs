//! The broker page over a Redis Cluster: a panel for each master, and the places of the queues.

use asynq_tests::{Build as _, eventually, task};

use super::Fixture;
use crate::dashboard::stage::{Request, Served, dashboard};

/// The slot of a queue and the slot's master, according to the cluster itself.
fn slot_and_master(fixture: &Fixture, queue: &str) -> (u16, String) {
    let cluster = fixture.store.server();
    let slot = cluster.slot(&format!("asynq:{{{queue}}}:pending"));
    (slot, format!("127.0.0.1:{}", cluster.port(cluster.owner(slot))))
}

#[tokio::test]
async fn each_master_has_a_panel_and_each_queue_its_slot() {
    let fixture = Fixture::real_time().await;
    for name in ["default", "low"] {
        fixture.enqueue(task("t1").in_queue(name)).await;
    }
    let served = Served::start(dashboard(&fixture)).await;

    let answer = eventually("the nodes answer in time", async || {
        let answer = served.get("/api/broker/nodes").await.json();
        answer["nodes"].is_array().then_some(answer)
    })
    .await;
    let nodes = answer["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 3, "{answer}");
    for node in nodes {
        assert_eq!(node["facts"]["cluster info"]["cluster_state"], "ok", "{node}");
        let port = node["facts"]["server"]["tcp_port"].as_str().unwrap();
        assert!(node["address"].as_str().unwrap().ends_with(&format!("(node on port {port})")), "{node}");
    }
    for name in ["default", "low"] {
        let (slot, master) = slot_and_master(&fixture, name);
        let slot_row = answer["slots"].as_array().unwrap().iter().find(|slot| slot["queue"] == name).unwrap();
        assert_eq!((&slot_row["slot"], &slot_row["nodes"][0]), (&slot.into(), &master.into()), "{answer}");
    }

    let page = Request::new("GET", "/broker").with("accept", "text/html");
    let page = eventually("the page shows the nodes", async || {
        let page = served.ask(&page).await.body;
        page.contains("id=\"node-0\"").then_some(page)
    })
    .await;
    for part in ["id=\"node-1\"", "id=\"node-2\"", "<dt>Memory used</dt>", "<dt>Cluster</dt>", "Queues in the cluster"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    let (slot, master) = slot_and_master(&fixture, "low");
    assert!(page.contains(&format!(">{slot}<")) && page.contains(&master), "{page}");
}
