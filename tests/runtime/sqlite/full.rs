//! A disk without room, where a small one can be mounted: new tasks are refused as such, the old ones go on, and afterwards
//! there is room. A unit test has the same case on a pretended disk, and runs everywhere.

use std::process::Command;

use asynq_runtime::{
    broker::{BrokerErrorKind, Inspect as _},
    task::TaskState,
};
use asynq_test_support::{skip, soon};

use super::*;
use crate::child::Program;

/// The commands that give a program a mount of its own: none for the superuser, else a user namespace.
const WRAPPERS: [&[&str]; 2] = [&["unshare", "--mount"], &["unshare", "--mount", "--user", "--map-root-user"]];

fn mount(folder: &Path) -> Vec<String> {
    let options = ["-t", "tmpfs", "-o", "size=24m", "tmpfs"];
    ["mount"].into_iter().chain(options).map(str::to_owned).chain([folder.display().to_string()]).collect()
}

/// The child's part, in a mount namespace that ends with the child.
pub(crate) async fn fills_a_disk(folder: &Path) {
    let mount = mount(folder);
    assert!(Command::new(&mount[0]).args(&mount[1..]).status().unwrap().success());
    let file = folder.join("jobs.db");
    let broker = open(&file).await;
    let member = join(&broker).await;
    let large = |n: usize| {
        let mut large = task(&format!("t{n}"));
        large.message.payload = vec![7; 300_000].into();
        large
    };
    let mut stored = Vec::new();
    let error = loop {
        match enqueue(&broker, large(stored.len())).await {
            Ok(_) => stored.push(format!("t{}", stored.len())),
            Err(Refused::Broker(error)) => break error,
            Err(other) => panic!("{other:?}"),
        }
        assert!(stored.len() < 1_000, "24 megabytes hold no more");
    };
    assert_eq!(error.kind(), BrokerErrorKind::Full, "{error:?}");
    assert!(stored.len() > 20, "{}", stored.len());
    let pending = broker.queue_stats(&queue()).await.unwrap().pending;
    assert_eq!(pending, stored.len() as u64, "a refused task is not stored");

    // All accepted tasks can still be taken and settled, though a call may have to be repeated.
    let mut done = Vec::new();
    soon(async {
        while done.len() < stored.len() {
            let Ok(runs) = broker.dequeue(&member, &[Wanted { queue: queue(), n: 4 }]).await else { continue };
            for run in runs {
                while broker.settle(&[outcome(&run, Action::Done)]).await.remove(0).is_err() {}
                done.push(run.key.id.to_string());
            }
        }
    })
    .await;
    assert_eq!(done, stored);
    enqueue(&broker, large(9_999)).await.expect("there is room again");
    let last = broker.task(&queue(), &TaskId::new("t9999").unwrap()).await.unwrap().unwrap();
    assert_eq!(last.state, TaskState::Pending);
    broker.close().await;
    super::others::check_whole(&file);
    println!("\nthere is room again");
}

#[test]
fn a_full_disk_refuses_new_tasks_and_lets_the_old_ones_end() {
    let folder = tempfile::tempdir().unwrap();
    let works = |wrapper: &&&[&str]| {
        let output = Command::new(wrapper[0]).args(&wrapper[1..]).args(mount(folder.path())).output();
        output.is_ok_and(|output| output.status.success())
    };
    let Some(wrapper) = WRAPPERS.iter().find(works) else { skip!("this user may not mount a small file system") };
    let mut program = Program::start_by(wrapper, "full", folder.path());
    program.prints("there is room again");
    assert!(program.ended().success());
}
