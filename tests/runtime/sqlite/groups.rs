//! Sets of groups in a file that several programs share.

use std::collections::{BTreeSet, HashSet};

use asynq_runtime::{
    broker::{GroupRules, Groups as _, Inspect as _, Maintain as _, Page, RetryOrder, SetError, SetOutcome, TaskSet},
    task::TaskState,
};

use super::{others::check_whole, *};

const MINUTE: Duration = Duration::from_secs(60);
const MS: Duration = Duration::from_millis(1);

fn rules() -> GroupRules {
    GroupRules::default()
}

/// Returns rules by which a group is ripe as soon as it has one task.
fn at_once() -> GroupRules {
    GroupRules { max_delay: Some(Duration::ZERO), ..GroupRules::default() }
}

fn made(set: &TaskSet) -> NewTask {
    let mut made = task(set.task_id(0).as_str());
    made.id_is_ours = true;
    made
}

fn of(made: NewTask) -> SetOutcome {
    SetOutcome { made: vec![made], ..SetOutcome::default() }
}

fn members(set: &TaskSet) -> Vec<&str> {
    set.members.iter().map(|member| member.id.as_str()).collect()
}

impl World {
    async fn add(&self, ids: &[&str]) {
        for id in ids {
            let placed = enqueue(&self.broker, grouped(task(id))).await.unwrap();
            assert_eq!(placed.state, TaskState::Aggregating);
        }
    }

    async fn claim(&self, rules: GroupRules) -> Option<TaskSet> {
        self.broker.claim_set(&queue(), &group(), &rules).await.unwrap()
    }

    async fn finish(&self, set: &TaskSet, outcome: &SetOutcome) -> Result<(), SetError> {
        self.broker.finish_set(set, outcome).await
    }

    async fn ids(&self, state: TaskState) -> Vec<String> {
        let tasks = self.broker.tasks(&queue(), state, Page::default()).await.unwrap();
        tasks.iter().map(|task| task.id.to_string()).collect()
    }

    async fn counts(&self) -> [u64; 4] {
        let stats = self.broker.queue_stats(&queue()).await.unwrap();
        [stats.aggregating, stats.pending, stats.archived, stats.size]
    }

    /// Returns the contents of all tables about tasks.
    fn dump(&self) -> Vec<String> {
        let connection = self.sql();
        let mut lines = Vec::new();
        for table in ["task", "body", "batch", "ulock", "tally", "stat", "failure"] {
            let mut rows = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
            let columns = rows.column_count();
            let found = rows.query_map([], |row| {
                (0..columns).map(|i| row.get::<_, rusqlite::types::Value>(i)).collect::<Result<Vec<_>, _>>()
            });
            lines.extend(found.unwrap().map(|row| format!("{table} {:?}", row.unwrap())));
        }
        lines
    }
}

#[tokio::test]
async fn a_set_is_taken_to_the_millisecond_and_ends_as_one_task() {
    let w = World::new().await;
    let started = w.broker.now();
    w.add(&["b"]).await;
    w.clock.advance(20 * MS);
    w.add(&["c", "a"]).await;
    let listed = w.broker.groups(&queue(), None, 10).await.unwrap().groups;
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].size, listed[0].oldest.unwrap()), (3, started));
    let full = w.broker.groups(&queue(), None, 1).await.unwrap();
    assert_eq!(w.broker.groups(&queue(), full.next.as_ref(), 10).await.unwrap().groups, []);

    w.clock.advance(MINUTE - MS);
    assert!(w.claim(rules()).await.is_none(), "a task may still join");
    w.clock.advance(MS);
    let set = w.claim(rules()).await.unwrap();
    assert_eq!(members(&set), ["b", "c", "a"], "in the order in which they joined");
    assert_eq!((set.deadline - w.broker.now()).to_std().unwrap(), 2 * MINUTE);
    assert!(w.claim(rules()).await.is_none(), "no other task waits");
    assert_eq!(w.counts().await, [0; 4], "a task in a set does not wait, as on Redis");
    assert!(w.ids(TaskState::Aggregating).await.is_empty());
    let seen = w.broker.task(&queue(), &TaskId::new("a").unwrap()).await.unwrap().unwrap();
    assert_eq!((seen.state, seen.group.as_deref()), (TaskState::Aggregating, Some("g")));

    w.finish(&set, &of(made(&set))).await.unwrap();
    assert_eq!(w.ids(TaskState::Pending).await, [set.task_id(0).to_string()]);
    assert_eq!(w.counts().await, [0, 1, 0, 1]);
    w.end().await;
}

#[tokio::test]
async fn the_first_ones_patience_and_the_size_make_a_group_ripe_too() {
    let w = World::new().await;
    w.add(&["a"]).await;
    w.clock.advance(5 * MS);
    w.add(&["b"]).await;
    let sized = |max_size| GroupRules { max_size: Some(max_size), ..rules() };
    assert!(w.claim(sized(3)).await.is_none());
    assert!(w.claim(GroupRules { max_delay: Some(6 * MS), ..rules() }).await.is_none());
    let set = w.claim(GroupRules { max_delay: Some(5 * MS), max_size: Some(1), ..rules() }).await.unwrap();
    assert_eq!(members(&set), ["a"]);
    w.add(&["c", "d"]).await;
    assert_eq!(members(&w.claim(sized(2)).await.unwrap()), ["b", "c"]);
    assert!(w.claim(sized(2)).await.is_none());
    w.end().await;
}

#[tokio::test]
async fn a_clock_that_is_set_back_holds_up_neither_a_group_nor_a_set_that_was_left() {
    let w = World::new().await;
    w.add(&["a"]).await;
    assert!(w.claim(at_once()).await.is_some());
    w.add(&["b"]).await;
    w.clock.set(w.broker.now() - chrono::TimeDelta::hours(2));
    let set = w.claim(rules()).await.unwrap();
    assert_eq!(members(&set), ["b"]);
    w.broker.sweep(&queue()).await.unwrap();
    w.clock.advance(2 * MINUTE - MS);
    assert_eq!(w.broker.reclaim_sets(&queue()).await.unwrap(), 0);
    w.clock.advance(MS);
    assert_eq!(w.broker.reclaim_sets(&queue()).await.unwrap(), 2);
    w.end().await;
}

#[tokio::test]
async fn a_large_group_comes_in_slices_by_number_and_by_weight() {
    let w = World::new().await;
    let crowd = (0..TaskSet::MOST + 1).map(|n| grouped(task(&format!("{n:04}")))).collect();
    assert!(w.broker.enqueue(crowd).await.iter().all(Result::is_ok));
    let sizes = async |n: usize| {
        let mut sizes = Vec::new();
        for _ in 0..n {
            sizes.push(w.claim(at_once()).await.unwrap().members.len());
        }
        assert!(w.claim(at_once()).await.is_none());
        sizes
    };
    assert_eq!(sizes(2).await, [TaskSet::MOST, 1]);
    for n in 0..5 {
        let mut heavy = grouped(task(&format!("heavy{n}")));
        heavy.message.payload = vec![7; 3 << 20].into();
        enqueue(&w.broker, heavy).await.unwrap();
    }
    assert_eq!(sizes(3).await, [2, 2, 1], "no set has much more than 4 MiB");
    w.clock.advance(3 * MINUTE);
    assert_eq!(w.broker.reclaim_sets(&queue()).await.unwrap(), 5);
    assert_eq!(w.counts().await[0], TaskSet::MOST as u64 + 6);
    w.end().await;
}

#[tokio::test]
async fn a_set_that_cannot_end_as_requested_stays_exactly_as_it_was() {
    let w = World::new().await;
    enqueue(&w.broker, unique("holder", "held")).await.unwrap();
    enqueue(&w.broker, grouped(unique("a", "mine"))).await.unwrap();
    w.add(&["b", "c", "d"]).await;
    let set = w.claim(at_once()).await.unwrap();
    let before = w.dump();
    let outcome =
        |made: Vec<NewTask>| SetOutcome { made, alone: vec![TaskId::new("b").unwrap()], ..SetOutcome::default() };
    let mut locked = made(&set);
    locked.unique = unique("x", "held").unique;
    let refused = w.finish(&set, &outcome(vec![task("fine"), locked.clone()])).await;
    assert!(
        matches!(&refused, Err(SetError::Refused(Refused::Duplicate { holder: Some(id) })) if *id == "holder"),
        "{refused:?}"
    );
    let refused = w.finish(&set, &outcome(vec![task("holder")])).await;
    assert!(matches!(refused, Err(SetError::Refused(Refused::IdConflict))), "{refused:?}");
    assert_eq!(w.dump(), before);

    locked.unique = unique("x", "mine").unique;
    w.finish(&set, &outcome(vec![locked])).await.unwrap();
    assert_eq!(w.ids(TaskState::Pending).await, ["holder", "b", set.task_id(0).as_str()]);
    assert_eq!(w.counts().await, [0, 3, 0, 3]);
    let holder: String = w.sql().query_row("SELECT id FROM ulock WHERE key = 'mine'", [], |row| row.get(0)).unwrap();
    assert_eq!(holder, set.task_id(0).as_str(), "a's lock was free for the task that was made of it");
    w.end().await;
}

#[tokio::test]
async fn a_task_that_ran_alone_is_retried_alone() {
    let w = World::new().await;
    w.add(&["a"]).await;
    let set = w.claim(at_once()).await.unwrap();
    let alone = SetOutcome { alone: vec![TaskId::new("a").unwrap()], ..SetOutcome::default() };
    w.finish(&set, &alone).await.unwrap();
    let member = join(&w.broker).await;
    let run = dequeue(&w.broker, &member, 1).await.remove(0);
    let retry = Action::Retry { delay: MINUTE, error: None, counted: true, extra: Extra::default() };
    assert_eq!(settle(&w.broker, outcome(&run, retry)).await, Settled::Ok);
    w.clock.advance(MINUTE);
    assert_eq!(w.broker.forward(&[queue()], RetryOrder::Last).await.unwrap().moved, 1);
    assert_eq!(w.counts().await, [0, 1, 0, 1]);
    w.end().await;
}

#[tokio::test]
async fn a_task_whose_message_is_lost_joins_no_set() {
    let w = World::new().await;
    w.add(&["a", "b"]).await;
    w.sql().execute("DELETE FROM body WHERE seq = (SELECT seq FROM task WHERE id = 'a')", []).unwrap();
    assert_eq!(members(&w.claim(at_once()).await.unwrap()), ["b"]);
    w.add(&["c"]).await;
    w.sql().execute("DELETE FROM body WHERE seq = (SELECT seq FROM task WHERE id = 'c')", []).unwrap();
    assert!(w.claim(at_once()).await.is_none());
    assert_eq!(w.counts().await, [0, 0, 2, 2]);
}

#[tokio::test]
async fn a_second_send_of_the_end_is_recognised_for_ten_minutes() {
    let w = World::new().await;
    w.add(&["a"]).await;
    let set = w.claim(at_once()).await.unwrap();
    let mut end = of(made(&set));
    w.finish(&set, &end).await.unwrap();
    assert!(matches!(w.finish(&set, &end).await, Err(SetError::Lost)), "the call does not say that it was sent before");
    end.resend = true;
    // The repeat succeeds even when the task that was made has come and gone.
    let member = join(&w.broker).await;
    let run = dequeue(&w.broker, &member, 1).await.remove(0);
    assert_eq!(settle(&w.broker, outcome(&run, Action::Done)).await, Settled::Ok);
    let other = w.another_broker().await;
    other.finish_set(&set, &end).await.unwrap();
    w.broker.release_set(&set).await.unwrap();
    assert_eq!(w.counts().await, [0; 4]);

    w.clock.advance(10 * MINUTE - MS);
    assert_eq!(w.broker.reclaim_sets(&queue()).await.unwrap(), 0, "a receipt is not a set");
    other.finish_set(&set, &end).await.unwrap();
    w.clock.advance(MS);
    assert_eq!(w.broker.reclaim_sets(&queue()).await.unwrap(), 0);
    assert!(matches!(other.finish_set(&set, &end).await, Err(SetError::Lost)));
    w.end().await;
}

#[tokio::test]
async fn a_set_of_a_program_that_died_goes_back_at_its_deadline() {
    let w = World::new().await;
    w.add(&["a"]).await;
    w.clock.advance(MS);
    w.add(&["b"]).await;
    let oldest = w.broker.groups(&queue(), None, 1).await.unwrap().groups[0].oldest;
    let dead = w.another_broker().await;
    let set = dead.claim_set(&queue(), &group(), &at_once()).await.unwrap().unwrap();
    dead.close().await;
    w.add(&["c"]).await;
    w.clock.advance(2 * MINUTE - MS);
    assert_eq!(w.broker.reclaim_sets(&queue()).await.unwrap(), 0);
    assert_eq!(w.ids(TaskState::Aggregating).await, ["c"]);
    w.clock.advance(MS);
    assert_eq!(w.broker.reclaim_sets(&queue()).await.unwrap(), 1);
    assert_eq!(w.ids(TaskState::Aggregating).await, ["a", "b", "c"]);
    assert_eq!(
        w.broker.groups(&queue(), None, 1).await.unwrap().groups[0].oldest,
        oldest,
        "they joined when they joined"
    );
    assert!(matches!(w.finish(&set, &of(made(&set))).await, Err(SetError::Lost)));

    // A new set may get the number of one that is gone; the id tells them apart.
    let next = w.claim(at_once()).await.unwrap();
    assert_eq!(next.number, set.number);
    assert!(matches!(w.finish(&set, &of(made(&set))).await, Err(SetError::Lost)));
    w.broker.release_set(&set).await.unwrap();
    assert_eq!(w.counts().await, [0; 4]);
    w.broker.release_set(&next).await.unwrap();
    w.broker.release_set(&next).await.unwrap();
    assert_eq!(w.counts().await, [3, 0, 0, 3]);
    w.end().await;
}

#[tokio::test]
async fn a_page_of_a_group_shows_its_waiting_tasks() {
    let w = World::new().await;
    for id in ["a", "b", "c"] {
        w.add(&[id]).await;
        w.clock.advance(MS);
    }
    let mut other = grouped(task("x"));
    other.group = Some(GroupName::new("h").unwrap());
    enqueue(&w.broker, other).await.unwrap();
    let page = async |group: GroupName, number| {
        let page = Page { number, size: 2 };
        let tasks = w.broker.list(&queue(), TaskState::Aggregating, Some(&group), page, None).await.unwrap();
        tasks.iter().map(|task| task.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(page(group(), 1).await, ["a", "b"]);
    assert_eq!(page(group(), 2).await, ["c"]);
    assert_eq!(page(GroupName::new("h").unwrap(), 1).await, ["x"]);
    assert_eq!(w.ids(TaskState::Aggregating).await, ["a", "b", "c", "x"]);
    w.claim(GroupRules { max_size: Some(1), ..rules() }).await.unwrap();
    assert_eq!(page(group(), 1).await, ["b", "c"]);
    assert_eq!(w.ids(TaskState::Aggregating).await, ["b", "c", "x"]);
    let first = w.broker.groups(&queue(), None, 1).await.unwrap();
    let second = w.broker.groups(&queue(), first.next.as_ref(), 1).await.unwrap();
    let names = [first, second].map(|page| page.groups[0].group.clone());
    assert_eq!(names, ["g", "h"].map(GroupName::from_wire));
    w.end().await;
}

#[tokio::test]
async fn a_scheduled_task_joins_its_group_when_it_is_due() {
    let w = World::new().await;
    let mut later = grouped(task("a"));
    later.when = When::In(MINUTE);
    assert_eq!(enqueue(&w.broker, later).await.unwrap().state, TaskState::Scheduled);
    assert_eq!(w.broker.groups(&queue(), None, 1).await.unwrap().groups, []);
    w.clock.advance(MINUTE);
    assert_eq!(w.broker.forward(&[queue()], RetryOrder::Last).await.unwrap().moved, 1);
    let listed = w.broker.groups(&queue(), None, 1).await.unwrap().groups;
    assert_eq!((listed[0].size, listed[0].oldest), (1, Some(w.broker.now())));
    w.end().await;
}

#[tokio::test]
async fn a_shared_file_has_groups_too() {
    let (_folder, file) = new_file();
    rusqlite::Connection::open(&file).unwrap().execute_batch("CREATE TABLE batch(theirs)").unwrap();
    let broker = SqliteBroker::open(&(url(&file) + "?shared=1"), with_clock(clock())).await.unwrap();
    enqueue(&broker, grouped(unique("a", "k"))).await.unwrap();
    let set = broker.claim_set(&queue(), &group(), &at_once()).await.unwrap().unwrap();
    broker.finish_set(&set, &of(made(&set))).await.unwrap();
    assert_eq!(broker.queue_stats(&queue()).await.unwrap().pending, 1);
    broker.close().await;
}

/// Several programs work on one group at once: together their results have every task, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_that_share_a_group_make_every_task_a_part_of_one_thing() {
    let (_folder, file) = new_file();
    let ids: Vec<_> = (0..400).map(|n| format!("{n:03}")).collect();
    let feeder = open(&file).await;
    let feed = ids.clone();
    let feeding = tokio::spawn(async move {
        for slice in feed.chunks(40) {
            let answers = feeder.enqueue(slice.iter().map(|id| grouped(task(id))).collect()).await;
            assert!(answers.iter().all(Result::is_ok));
        }
        feeder
    });
    let rules = GroupRules { max_size: Some(7), ..at_once() };
    let mut workers = Vec::new();
    for worker in 0..3 {
        let broker = open(&file).await;
        workers.push(tokio::spawn(async move {
            let (mut joined, mut sets) = (Vec::new(), 0);
            let mut idle = 0;
            while idle < 20 {
                let Some(set) = broker.claim_set(&queue(), &group(), &rules).await.unwrap() else {
                    idle += 1;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    continue;
                };
                idle = 0;
                sets += 1;
                if (sets + worker) % 4 == 0 {
                    broker.release_set(&set).await.unwrap();
                    continue;
                }
                broker.finish_set(&set, &of(made(&set))).await.unwrap();
                joined.extend(members(&set).into_iter().map(str::to_owned));
            }
            (broker, joined)
        }));
    }
    let feeder = feeding.await.unwrap();
    let mut all = Vec::new();
    for worker in workers {
        let (broker, joined) = worker.await.unwrap();
        all.extend(joined);
        broker.close().await;
    }
    // A claim that gave up early left the tasks that the last program released.
    while let Some(set) = feeder.claim_set(&queue(), &group(), &rules).await.unwrap() {
        feeder.finish_set(&set, &of(made(&set))).await.unwrap();
        all.extend(members(&set).into_iter().map(str::to_owned));
    }
    assert_eq!(all.len(), ids.len());
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), ids.len(), "none is part of two things");
    assert_eq!(all.into_iter().collect::<BTreeSet<_>>(), ids.into_iter().collect());
    feeder.close().await;
    check_whole(&file);
}
