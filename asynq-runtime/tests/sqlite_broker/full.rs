//! A disk without room: new tasks are refused as such, the old ones go on, and afterwards all is well.

use std::process::Command;

use asynq_runtime::{
    broker::{Broker as _, BrokerErrorKind, Inspect as _},
    task::TaskState,
};

use super::*;

/// A file system of 24 megabytes, unmounted when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None` where this user may not mount; the reason is printed.
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=24m", "tmpfs"]).arg(folder.path());
        match mount.output() {
            Ok(output) if output.status.success() => Some(Self(folder)),
            refused => {
                eprintln!("skipped: a small file system cannot be mounted here: {refused:?}");
                None
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[tokio::test]
async fn a_full_disk_refuses_new_tasks_and_lets_the_old_ones_end() {
    let Some(disk) = SmallDisk::mount() else { return };
    let file = disk.0.path().join("jobs.db");
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
    assert_eq!(
        broker.queue_stats(&queue()).await.unwrap().pending,
        stored.len() as u64,
        "what was refused is not stored"
    );

    // Everything that was accepted can still be taken and settled.
    let mut done = Vec::new();
    let begun = std::time::Instant::now();
    while done.len() < stored.len() {
        assert!(begun.elapsed() < PATIENCE, "{} of {} are done", done.len(), stored.len());
        let Ok(runs) = broker.dequeue(&member, &[Wanted { queue: queue(), n: 4 }]).await else { continue };
        for run in runs {
            while broker.settle(&[outcome(&run, Action::Done)]).await.remove(0).is_err() {
                assert!(begun.elapsed() < PATIENCE, "{} cannot be settled", run.key.id);
            }
            done.push(run.key.id.to_string());
        }
    }
    assert_eq!(done, stored);
    enqueue(&broker, large(9_999)).await.expect("there is room again");
    assert!(broker.task(&queue(), &TaskId::new("t9999").unwrap()).await.unwrap().unwrap().state == TaskState::Pending);
    broker.close().await;
    super::others::check_whole(&file);
}
