//! The pictures in the README: `cargo test -p asynq-tests --test browser pictures -- --ignored`.

use std::{path::Path, time::Duration};

use asynq_runtime::broker::Wanted;
use asynq_tests::{Build as _, SqliteStore, archive, complete, done, queue, retry, task};

use crate::{shop, wait, world::World};

/// The largest file that the README should load, in bytes.
const LARGEST: usize = 200_000;

/// Simulates a minute of work, so that the charts have a curve.
async fn work(world: &World<SqliteStore>) {
    let mut n = 10_000_usize;
    for tick in 0..90_usize {
        for (at, name) in ["mail", "images", "webhooks", "critical", "search-index"].into_iter().enumerate() {
            // A wave, a different one for each queue.
            let wave = (((tick + 17 * at) as f64 / (7.0 + at as f64)).sin() * 6.0 + 8.0) as usize;
            for _ in 0..wave {
                n += 1;
                world.fixture.enqueue(task(&format!("019b76da-{n:04x}-7{at:03x}-8000-{n:012x}")).in_queue(name)).await;
            }
            let wanted = Wanted { queue: queue(name), n: wave + usize::from(tick % 9 > 4) };
            for (nth, run) in
                world.fixture.broker().dequeue(world.fixture.member(), &[wanted]).await.unwrap().into_iter().enumerate()
            {
                let end = match (tick + nth + at) % 40 {
                    3 => retry(Duration::from_secs(300), "connection refused (os error 111)"),
                    9 if tick % 3 == 0 => archive("the recipient is gone"),
                    5 => complete("{}"),
                    _ => done(),
                };
                world.fixture.settle(&run, end).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(900)).await;
    }
}

#[test]
#[ignore = "it takes the README's pictures anew: CONTRIBUTING.md"]
fn pictures_of_the_main_pages() {
    wait(async {
        let world = World::<SqliteStore>::shop().await;
        let browser = &world.browser;
        world.open("/").await;
        work(&world).await;
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/screenshots");
        let task = format!("/queues/mail/tasks/{}", shop::uuid("mail", 11));
        let desk = Some((1280, 800));
        for (name, path, scheme, screen) in [
            ("overview", "/", "light", desk),
            ("overview-dark", "/", "dark", desk),
            ("queue", "/queues/mail?state=retry", "light", desk),
            ("task-dark", &task, "dark", desk),
            ("servers", "/servers", "light", desk),
            ("periodic", "/periodic", "light", desk),
            ("search", "/search?q=refused", "light", desk),
            ("overview-phone", "/", "light", Some((390, 844))),
            ("task-phone", &task, "dark", Some((390, 844))),
        ] {
            browser.prefer(scheme).await;
            browser.screen(screen).await;
            world.open(path).await;
            browser.until("document.readyState === 'complete' && (!document.querySelector('[data-chart]') || document.querySelector('[data-chart] canvas'))").await;
            let picture = browser.picture().await;
            assert!(picture.len() < LARGEST, "{name}: {} bytes", picture.len());
            std::fs::write(folder.join(format!("{name}.png")), picture).unwrap();
        }
        world.end().await;
    });
}
