//! The speed of pages over very large stores. `scripts/prove dashboard` runs these tests.

use std::time::{Duration, Instant};

use asynq_runtime::Client;
use asynq_tests::{Build as _, Fixture, PATIENCE, RedisStore, SqliteStore, Store, task};

use crate::{wait, world::World};

/// The server's time for a page in milliseconds, as the browser saw it: the median of five.
async fn took<S: Store>(world: &World<S>, path: &str) -> f64 {
    let mut times = Vec::new();
    for _ in 0..5 {
        world.open(path).await;
        let took = world.browser.js("const [page] = performance.getEntriesByType('navigation'); return page.responseEnd - page.requestStart").await;
        times.push(took.as_f64().unwrap());
    }
    times.sort_by(f64::total_cmp);
    println!("{:>7.1} ms  {path} on {}", times[2], S::NAME);
    times[2]
}

/// Opens every page; each takes the server less than 200 ms.
async fn drawn_in_time<S: Store>(world: &World<S>, paths: &[&str]) {
    for path in paths {
        let took = took(world, path).await;
        assert!(took < 200.0, "{path}: {took} ms");
    }
}

/// Redis's log of calls longer than [`LONGEST`](Self::LONGEST), from `begin` on. A SQLite file has no such log.
struct SlowLog(Option<redis::Connection>);

impl SlowLog {
    /// How long one call may keep all others waiting.
    const LONGEST: Duration = Duration::from_millis(5);
    /// A process that the machine stops for a moment is late once; a call that is too costly is late at each repetition.
    const AGAIN: usize = 3;

    fn begin<S: Store>(fixture: &Fixture<S>) -> Self {
        let location = fixture.broker().location();
        let mut connection = location
            .starts_with("redis")
            .then(|| redis::Client::open(location.as_str()).unwrap().get_connection().unwrap());
        if let Some(connection) = &mut connection {
            let longest = Self::LONGEST.as_micros().to_string();
            for line in [
                &["CONFIG", "SET", "slowlog-log-slower-than", &longest, "slowlog-max-len", "10000"][..],
                &["SLOWLOG", "RESET"],
            ] {
                redis::cmd(line[0]).arg(&line[1..]).exec(connection).unwrap();
            }
        }
        Self(connection)
    }

    /// Prints the slowest call, and fails if a call that was too slow is slow each time that it is repeated.
    fn end(self) {
        type Entry = (u64, u64, u64, Vec<Vec<u8>>, redis::Value, redis::Value);
        let Some(mut connection) = self.0 else { return };
        let entries: Vec<Entry> = redis::cmd("SLOWLOG").arg("GET").arg(10_000).query(&mut connection).unwrap();
        let slowest = entries.iter().map(|entry| entry.2).max().unwrap_or_default();
        println!("{} calls of more than {:?}, the slowest of {slowest} µs", entries.len(), Self::LONGEST);
        let mut is_late_again = |words: &[Vec<u8>]| {
            redis::cmd("SLOWLOG").arg("RESET").exec(&mut connection).unwrap();
            let name = std::str::from_utf8(&words[0]).unwrap();
            // A repeated read answers as before. A word that the log has cut makes another call, which proves nothing.
            let answer: redis::RedisResult<redis::Value> = redis::cmd(name).arg(&words[1..]).query(&mut connection);
            answer.is_err() || redis::cmd("SLOWLOG").arg("LEN").query::<usize>(&mut connection).unwrap() > 0
        };
        let mut slow = Vec::new();
        for (_, _, micros, words, ..) in entries {
            if (0..Self::AGAIN).all(|_| is_late_again(&words)) {
                slow.push((
                    micros,
                    words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect::<Vec<_>>(),
                ));
            }
        }
        assert!(slow.is_empty(), "these keep others waiting (µs): {slow:#?}");
    }
}

fn ten_thousand_queues_are_drawn_in_time<S: Store>() {
    wait(async {
        let fixture = Fixture::<S>::real_time().await;
        let all: Vec<_> = (0..10_000).map(|n| task(&format!("t{n}")).in_queue(&format!("queue-{n:05}"))).collect();
        for some in all.chunks(500) {
            for answer in fixture.broker().enqueue(some.to_vec()).await {
                answer.unwrap();
            }
        }
        let client = Client::new(fixture.shared());
        assert_eq!(client.broker().queues().await.unwrap().len(), 10_000);
        let slow_log = SlowLog::begin(&fixture);
        let world = World::of(fixture, Vec::new()).await;
        // The first page starts the sampler, and waits for it.
        world.open("/").await;
        let paths = [
            "/",
            "/?page=400",
            "/?q=09999",
            "/?sort=size",
            "/queues/queue-05000",
            "/queues/queue-05000/tasks/t5000",
            "/servers",
            "/broker",
        ];
        drawn_in_time(&world, &paths).await;
        world.open("/").await;
        assert!(world.browser.text("nav.pages").await.contains("1–25 of 10,000"));
        slow_log.end();
        world.end().await;
    });
}

#[test]
#[ignore = "many queues: scripts/prove dashboard"]
fn ten_thousand_queues_are_drawn_in_time_on_redis() {
    ten_thousand_queues_are_drawn_in_time::<RedisStore>();
}

#[test]
#[ignore = "many queues: scripts/prove dashboard"]
fn ten_thousand_queues_are_drawn_in_time_on_sqlite() {
    ten_thousand_queues_are_drawn_in_time::<SqliteStore>();
}

fn a_hundred_thousand_groups_are_drawn_in_time<S: Store>() {
    wait(async {
        let fixture = Fixture::<S>::real_time().await;
        for some in 0..100 {
            let tasks = (0..1000)
                .map(|n| some * 1000 + n)
                .map(|n| task(&format!("t{n:05}")).grouped(&format!("g{n:05}")))
                .collect();
            for answer in fixture.broker().enqueue(tasks).await {
                answer.unwrap();
            }
        }
        let slow_log = SlowLog::begin(&fixture);
        let world = World::of(fixture, Vec::new()).await;
        world.open("/").await;
        let paths = [
            "/",
            "/queues/default",
            "/queues/default/groups",
            "/queues/default?state=aggregating",
            "/queues/default?state=aggregating&page=2",
            "/queues/default?state=aggregating&group=g50000",
            "/queues/default?state=aggregating&q=t99999",
            "/queues/default/tasks/t50000",
            "/broker",
        ];
        drawn_in_time(&world, &paths).await;
        // On Redis a walk over the groups leads to a page, so that a late page takes its time, in many short calls.
        took(&world, "/queues/default?state=aggregating&page=3334").await;
        assert!(world.browser.text("nav.pages").await.contains("of 100,000"));
        slow_log.end();
        world.end().await;
    });
}

#[test]
#[ignore = "many groups: scripts/prove dashboard"]
fn a_hundred_thousand_groups_are_drawn_in_time_on_redis() {
    a_hundred_thousand_groups_are_drawn_in_time::<RedisStore>();
}

#[test]
#[ignore = "many groups: scripts/prove dashboard"]
fn a_hundred_thousand_groups_are_drawn_in_time_on_sqlite() {
    a_hundred_thousand_groups_are_drawn_in_time::<SqliteStore>();
}

/// The page comes before the search has ended; its script continues until every task was read.
async fn search_to_the_end<S: Store>(world: &World<S>) {
    let began = Instant::now();
    world.open("/search?q=in+no+task").await;
    let ended = async {
        loop {
            let progress = world.browser.text("[data-search] span").await;
            if progress.ends_with("that was all") {
                return progress;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let progress = tokio::time::timeout(5 * PATIENCE, ended).await.expect("the search comes to its end");
    println!("{:>7.1} s   a search without a match: {progress}, on {}", began.elapsed().as_secs_f64(), S::NAME);
    assert_eq!(progress, "0 found, 1,000,000 looked at: that was all");
    // On a busy machine a part may be answered too late; the page asks for that part again, as the end of this search shows.
    let complaints = world.browser.complaints().await;
    assert!(complaints.iter().all(|complaint| complaint.contains("status of 503")), "{complaints:#?}");
}

fn a_million_archived_tasks_are_drawn_in_time<S: Store>() {
    wait(async {
        let fixture = Fixture::<S>::real_time().await;
        for some in 0..1000 {
            let tasks = (0..1000)
                .map(|n| task(&format!("t{:06}", some * 1000 + n)).after(Duration::from_secs(86_400)))
                .collect();
            for answer in fixture.broker().enqueue(tasks).await {
                answer.unwrap();
            }
        }
        let inspector = Client::new(fixture.shared()).inspector();
        inspector.archive_all("default", asynq_runtime::TaskState::Scheduled).beyond_archive().await.unwrap();
        let slow_log = SlowLog::begin(&fixture);
        let world = World::of(fixture, Vec::new()).await;
        world.open("/").await;
        let paths = [
            "/",
            "/queues/default",
            "/queues/default?state=archived&page=16000",
            "/queues/default?state=archived&page=33334",
            "/queues/default?state=archived&page=24000",
            "/queues/default/tasks/t500000",
            "/search?q=t999999",
            "/search?q=in+no+task",
            "/queues/default?state=archived&q=in+no+task",
            "/broker",
        ];
        drawn_in_time(&world, &paths).await;
        // The figures of the node may take a second; the page loads them by itself.
        world
            .browser
            .until("document.querySelector('#node-0 .figures') && !document.querySelector('[data-again]')")
            .await;
        println!("{} on {}", world.browser.text("#node-0 .figures").await, S::NAME);
        search_to_the_end(&world).await;
        world.open("/queues/default?state=archived").await;
        assert!(world.browser.text("nav.pages").await.contains("of 1,000,000"));
        slow_log.end();
        world.end().await;
    });
}

#[test]
#[ignore = "a million tasks: scripts/prove dashboard"]
fn a_million_archived_tasks_are_drawn_in_time_on_redis() {
    a_million_archived_tasks_are_drawn_in_time::<RedisStore>();
}

#[test]
#[ignore = "a million tasks: scripts/prove dashboard"]
fn a_million_archived_tasks_are_drawn_in_time_on_sqlite() {
    a_million_archived_tasks_are_drawn_in_time::<SqliteStore>();
}
