//! Pages of long lists: put one behind the other they are the list, whatever was taken out of its middle.

use asynq_runtime::{
    broker::{GroupRules, Groups as _, Inspect as _, Maintain as _, Page, TaskBrief},
    task::{GroupName, TaskState},
};

use super::*;
use crate::answered;

const MS: Duration = Duration::from_millis(1);

impl World {
    async fn page(&self, list: &List, page: Page) -> Vec<TaskBrief> {
        match list {
            List::State(state) => self.broker.list(&queue(), *state, None, page, None).await,
            List::Group(group) => self.broker.list(&queue(), TaskState::Aggregating, Some(group), page, None).await,
        }
        .unwrap()
    }

    /// Checks that pages of every size make up `expected`, and that the last has no successor.
    async fn expect(&self, list: List, expected: &[String]) {
        for size in 1..=expected.len() + 1 {
            let mut found = Vec::new();
            for number in 1..=expected.len().div_ceil(size) {
                let page = self.page(&list, Page { number, size }).await;
                assert_eq!(
                    page.len(),
                    size.min(expected.len() - found.len()),
                    "{list:?}, page {number} of {size} tasks"
                );
                found.extend(page.iter().map(|task| task.id.to_string()));
            }
            assert_eq!(found, expected, "{list:?} by {size}");
            let behind = Page { number: expected.len().div_ceil(size) + 1, size };
            assert_eq!(self.page(&list, behind).await, [], "{list:?}, behind the last page of {size} tasks");
        }
    }
}

#[derive(Debug)]
enum List {
    State(TaskState),
    Group(GroupName),
}

fn group(name: &str) -> GroupName {
    GroupName::new(name).unwrap()
}

#[tokio::test]
async fn pages_of_groups_omit_tasks_that_sets_have_taken_out_of_the_middle() {
    let w = World::new().await;
    let mut added = Vec::new();
    for n in 0..24 {
        // Two tasks share each millisecond; every third task is in the group that is taken out.
        let name = ["a", "b", "gone"][n % 3];
        let mut task = task(&format!("{name}{n:02}"));
        task.group = Some(group(name));
        task.message.group_key = name.into();
        added.push(task.id.to_string());
        enqueue(&w.broker, task).await.unwrap();
        if n % 2 == 1 {
            w.clock.advance(MS);
        }
    }
    w.expect(List::State(TaskState::Aggregating), &added).await;

    let rules = GroupRules { max_delay: Some(Duration::ZERO), ..GroupRules::default() };
    let set = w.broker.claim_set(&queue(), &group("gone"), &rules).await.unwrap().unwrap();
    assert_eq!(set.members.len(), 8);
    let some = GroupRules { max_size: Some(2), ..rules };
    assert_eq!(w.broker.claim_set(&queue(), &group("a"), &some).await.unwrap().unwrap().members.len(), 2);
    let of = |names: &[&str]| {
        let gone =
            |id: &&String| !["a00", "a03"].contains(&id.as_str()) && names.iter().any(|name| id.starts_with(name));
        added.iter().filter(gone).cloned().collect::<Vec<_>>()
    };
    w.expect(List::State(TaskState::Aggregating), &of(&["a", "b"])).await;
    w.expect(List::Group(group("a")), &of(&["a"])).await;
    w.expect(List::Group(group("b")), &of(&["b"])).await;
    w.expect(List::Group(group("gone")), &[]).await;
    w.broker.close().await;
}

#[tokio::test]
async fn pages_of_running_tasks_are_in_the_order_of_their_runs_though_leases_are_extended() {
    let w = World::new().await;
    let member = join(&w.broker).await;
    let mut started = Vec::new();
    let mut first = None;
    for n in 0..7 {
        enqueue(&w.broker, task(&format!("t{n}"))).await.unwrap();
        let run = dequeue(&w.broker, &member, 1).await.remove(0);
        started.push(run.key.id.to_string());
        first.get_or_insert(run.key);
        w.clock.advance(MS);
    }
    answered(w.broker.extend(&[first.unwrap()]).await);
    w.expect(List::State(TaskState::Active), &started).await;
    w.broker.close().await;
}
