#![allow(clippy::unwrap_used, missing_docs, dead_code)]
mod shop;
use asynq_runtime::Client;
use asynq_tests::*;

#[test]
fn serve() {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
        let fixture = SqliteFixture::real_time().await;
        let mut active = shop::open(&fixture).await;
        let client = Client::new(fixture.shared());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:8977").await.unwrap();
        tokio::spawn(async move { asynq_dashboard::preview::serve(client, None, listener).await });
        let mut n = 1000;
        loop {
            for name in ["mail", "images", "webhooks", "critical"] {
                for _ in 0..(n % 17 + 3) {
                    n += 1;
                    fixture.enqueue(task(&format!("live-{n}")).in_queue(name)).await;
                }
                for run in fixture
                    .broker()
                    .dequeue(fixture.member(), &[asynq_runtime::broker::Wanted { queue: queue(name), n: n % 13 + 2 }])
                    .await
                    .unwrap()
                {
                    let end = if n % 11 == 0 { archive("boom") } else { done() };
                    fixture.settle(&run, end).await;
                }
            }
            shop::work(&fixture, &active).await;
            for run in &active {
                fixture.extend(&run.key).await;
            }
            active.retain(|_| true);
            tokio::time::sleep(std::time::Duration::from_millis(700)).await;
        }
    });
}
