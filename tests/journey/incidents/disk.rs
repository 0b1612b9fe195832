//! A SQLite file on a disk that gets full: by its own tasks, and by something else.

use std::{
    env,
    fs::{self, File},
    io::Write as _,
    path::Path,
    process::Command,
    time::Duration,
};

use asynq_runtime::EnqueueError;
use asynq_tests::{eventually, jobs::Parcel, skip};
use tempfile::TempDir;

use crate::journey::{incidents::all_done, world::World};

/// The commands that give a program a mount of its own: none for the superuser, else a user namespace.
const WAYS: [&[&str]; 2] = [&["unshare", "--mount"], &["unshare", "--mount", "--user", "--map-root-user"]];

/// Names the folder where the process of the story mounts its small disk.
const DISK: &str = "INCIDENT_DISK";

const NAME: &str = "journey::incidents::disk::a_full_disk_holds_up_outcomes_and_loses_none";

/// More than two leases.
const FULL: Duration = Duration::from_secs(25);

fn mount(folder: &Path) -> Vec<String> {
    let options = ["-t", "tmpfs", "-o", "size=24m", "tmpfs"];
    ["mount"].into_iter().chain(options).map(str::to_owned).chain([folder.display().to_string()]).collect()
}

/// Writes into a file until the disk takes no more byte.
fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    for size in [1 << 20, 4096, 1] {
        while file.write_all(&vec![b'x'; size]).is_ok() {}
    }
}

/// The story, in a mount namespace of its own, which ends with it.
async fn story(folder: &Path) {
    const RUNS: usize = 4;
    let mount = mount(folder);
    assert!(Command::new(&mount[0]).args(&mount[1..]).status().unwrap().success());
    let world = World::at(format!("sqlite://{}", folder.join("jobs.db").display())).await;
    let mut worker = world.everyday_of(RUNS).await;
    world.hold();
    let mut stored = 0;
    let refused = loop {
        match world.client.enqueue(Parcel { content: vec![b'x'; 300_000] }).await {
            Ok(_) => stored += 1,
            Err(EnqueueError::Broker(error)) => break error,
            Err(other) => panic!("{other:?}"),
        }
        assert!(stored < 1_000, "24 megabytes hold no more");
    };
    assert!(refused.is_full(), "{refused:?}");
    world.started(RUNS).await;
    // Something else takes the rest of the disk, a log say, while runs end.
    let filler = folder.join("filler");
    fill(&filler);
    world.release();
    eventually("runs end on a full disk", async || (world.history().ends().len() >= RUNS).then_some(())).await;
    tokio::time::sleep(FULL).await;
    let done = world.stats().await.processed_total;
    assert_eq!(world.history().repeated(), []);
    assert!(!worker.has_ended(), "{}", worker.log());
    fs::remove_file(filler).unwrap();
    all_done(&world, stored).await;
    world.client.enqueue(Parcel { content: vec![b'x'; 300_000] }).await.expect("there is room again");
    all_done(&world, stored + 1).await;
    println!(
        "incident: disk of SQLite full of tasks: enqueue refused ({refused}); then of other files for {FULL:?}: {done} of \
         {stored} tasks done meanwhile, 0 lost, 0 run twice"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes half a minute: scripts/prove incidents"]
async fn a_full_disk_holds_up_outcomes_and_loses_none() {
    match env::var_os(DISK) {
        Some(folder) => story(Path::new(&folder)).await,
        None => {
            let folder = TempDir::new().unwrap();
            let works = |way: &&&[&str]| {
                let output = Command::new(way[0]).args(&way[1..]).args(mount(folder.path())).output();
                output.is_ok_and(|output| output.status.success())
            };
            let Some(way) = WAYS.iter().find(works) else { skip!("this user may not mount a small file system") };
            tell_in(way, folder.path());
        }
    }
}

/// Runs this test in a process of its own that `way` starts, which has its small disk in `folder`.
fn tell_in(way: &[&str], folder: &Path) {
    let mut inside = Command::new(way[0]);
    inside.args(&way[1..]).arg(env::current_exe().unwrap()).args(["--exact", NAME, "--ignored", "--nocapture"]);
    let output = inside.env(DISK, folder).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    for line in text(&output.stdout).lines().filter(|line| line.contains("incident: ")) {
        println!("{line}");
    }
}
