//! Places where tasks can be kept, and places where they cannot.

use std::fs;

use asynq_runtime::broker::{BrokerErrorKind, Diagnose as _, Inspect as _, Quarantined};

use asynq_test_support::{Log, soon};

use super::*;

async fn refusal(file: &Path) -> (BrokerErrorKind, String) {
    let error = SqliteBroker::open(&url(file), patient()).await.unwrap_err();
    (error.kind(), error.to_string())
}

fn sqlite(file: &Path, sql: &str) {
    rusqlite::Connection::open(file).unwrap().execute_batch(sql).unwrap();
}

#[tokio::test]
async fn a_file_that_is_not_a_database_is_named_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes.txt");
    for content in ["dear diary, this is long enough to be taken for a header", "short", "SQLite format 3\0abc"] {
        fs::write(&file, content).unwrap();
        let (kind, text) = refusal(&file).await;
        assert_eq!(kind, BrokerErrorKind::Corrupt, "{text}");
        assert!(text.contains("notes.txt") && text.contains("not a SQLite file"), "{text}");
        assert!(text.contains("encrypted") && text.contains("if it held tasks, it is damaged"), "{text}");
        assert_eq!(fs::read_to_string(&file).unwrap(), content);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no file is left beside it");
}

#[tokio::test]
async fn a_truncated_file_is_called_damaged_with_advice() {
    let (_folder, file) = new_file();
    let broker = open(&file).await;
    broker.enqueue((0..500).map(|n| task(&n.to_string())).collect()).await;
    broker.close().await;
    let whole = fs::metadata(&file).unwrap().len();
    fs::File::options().write(true).open(&file).unwrap().set_len(whole / 3).unwrap();
    let (kind, text) = refusal(&file).await;
    assert_eq!(kind, BrokerErrorKind::Corrupt, "{text}");
    assert!(text.contains("docs/operations.md#sqlite") && !text.contains(".recover"), "{text}");
}

#[tokio::test]
async fn a_file_that_stores_texts_as_utf_16_is_refused_and_left_as_it_is() {
    for sql in ["CREATE TABLE theirs(x)", "CREATE TABLE theirs(x); DROP TABLE theirs"] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("shop.db");
        sqlite(&file, &format!("PRAGMA encoding = 'UTF-16'; {sql}"));
        let before = fs::read(&file).unwrap();
        let error = SqliteBroker::open(&format!("{}?shared=1", url(&file)), patient()).await.unwrap_err();
        assert!(error.kind() == BrokerErrorKind::Config && error.to_string().contains("UTF-16"), "{error}");
        assert!(fs::read(&file).unwrap() == before);
    }
}

#[tokio::test]
async fn another_programs_database_is_refused_unless_it_is_shared() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.db");
    sqlite(&file, "CREATE TABLE task(theirs); INSERT INTO task VALUES (1); PRAGMA user_version = 7;");
    let (kind, text) = refusal(&file).await;
    assert_eq!(kind, BrokerErrorKind::Corrupt);
    assert!(text.contains("belongs to another program") && text.contains("?shared=1"), "{text}");

    let shared = format!("{}?shared=1", url(&file));
    for round in 0..2 {
        let broker = SqliteBroker::open(&shared, patient()).await.unwrap();
        let member = join(&broker).await;
        enqueue(&broker, task(&format!("a{round}"))).await.unwrap();
        assert_eq!(dequeue(&broker, &member, 9).await.len(), 1);
        broker.close().await;
    }
    let theirs = rusqlite::Connection::open(&file).unwrap();
    let number = |sql: &str| theirs.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(number("SELECT count(*) FROM task"), 1);
    assert_eq!(number("PRAGMA user_version"), 7);
    assert_eq!(number("PRAGMA application_id"), 0);
    assert_eq!(number("SELECT count(*) FROM asynq_task"), 2);
    drop(theirs);
    let (kind, text) = refusal(&file).await;
    assert_eq!(kind, BrokerErrorKind::Corrupt);
    assert!(text.contains("add ?shared=1"), "{text}");
}

/// A new connection does not have the function of the check, as it lacks those of the program that the table is of.
#[tokio::test]
async fn a_shared_file_is_sound_whatever_the_tables_of_its_program_need_and_hold() {
    let theirs = "CREATE TABLE aged(years CHECK (years > 0)); PRAGMA ignore_check_constraints = ON; INSERT INTO aged VALUES (-1);
        CREATE TABLE person(name CHECK (abs(name))); PRAGMA writable_schema = ON;
        UPDATE sqlite_schema SET sql = replace(sql, 'abs(', 'theirs(') WHERE name = 'person';";
    for (query, is_sound) in [("?shared=1", true), ("", false)] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("shop.db");
        if is_sound {
            sqlite(&file, theirs);
        } else {
            open(&file).await.close().await;
            sqlite(&file, theirs);
        }
        let broker = SqliteBroker::open(&format!("{}{query}", url(&file)), patient()).await.unwrap();
        let node = broker.nodes().await.unwrap().remove(0);
        let check = node.fact("quick_check").unwrap();
        let is_expected =
            if is_sound { check == "ok" } else { check.starts_with("unknown: ") && check.contains("theirs") };
        assert!(is_expected, "{check}");
        broker.close().await;
    }
}

#[tokio::test]
async fn a_newer_major_version_is_refused_and_a_newer_minor_one_is_used() {
    let (_folder, file) = new_file();
    open(&file).await.close().await;
    sqlite(&file, "PRAGMA user_version = 1042; ALTER TABLE task ADD COLUMN of_tomorrow TEXT;");
    let broker = open(&file).await;
    enqueue(&broker, task("a")).await.unwrap();
    broker.close().await;
    sqlite(&file, "PRAGMA user_version = 2000;");
    let (kind, text) = refusal(&file).await;
    assert_eq!(kind, BrokerErrorKind::Config);
    assert!(text.contains("newer version") && text.contains("update this program"), "{text}");
}

#[tokio::test]
async fn tables_of_ours_without_their_version_are_refused_and_not_made_anew() {
    for (query, lose) in [("", "PRAGMA user_version = 3"), ("?shared=1", "DELETE FROM asynq_meta")] {
        let (_folder, file) = new_file();
        sqlite(&file, if query.is_empty() { "" } else { "CREATE TABLE theirs(x)" });
        let open = async || SqliteBroker::open(&format!("{}{query}", url(&file)), patient()).await;
        open().await.unwrap().close().await;
        sqlite(&file, lose);
        let error = open().await.unwrap_err();
        assert_eq!(error.kind(), BrokerErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("user_version"), "{error}");
    }
}

#[tokio::test]
async fn a_missing_folder_and_a_folder_are_distinguished() {
    let folder = tempfile::tempdir().unwrap();
    let (kind, text) = refusal(&folder.path().join("missing/jobs.db")).await;
    assert_eq!(kind, BrokerErrorKind::Config);
    assert!(text.contains("missing: the folder does not exist; create it first"), "{text}");
    let (kind, text) = refusal(folder.path()).await;
    assert_eq!(kind, BrokerErrorKind::Config);
    assert!(text.contains("is a folder; name a file in it"), "{text}");
    fs::write(folder.path().join("plain"), "x").unwrap();
    let (kind, text) = refusal(&folder.path().join("plain/jobs.db")).await;
    assert_eq!(kind, BrokerErrorKind::Config);
    assert!(text.contains("is not a folder"), "{text}");
}

#[tokio::test]
async fn a_new_file_is_logged_with_its_whole_path() {
    let (folder, log) = (tempfile::tempdir().unwrap(), Log::keep());
    let file = folder.path().canonicalize().unwrap().join("jobs.db");
    for _ in 0..2 {
        open(&file).await.close().await;
    }
    let made = format!("made a new SQLite file file={}", file.display());
    assert_eq!(log.with("made a new SQLite file"), [made]);
}

/// Makes permissions hold for this thread, and for the threads that it starts, if these are the superuser's.
#[cfg(target_os = "linux")]
fn obey_permissions() {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

    let mut own = capabilities(None).unwrap();
    let above = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
    own.effective -= above;
    own.permitted -= above;
    set_capabilities(None, own).unwrap();
}

#[tokio::test]
async fn a_place_that_cannot_be_written_is_denied() {
    use std::os::unix::fs::PermissionsExt as _;

    #[cfg(target_os = "linux")]
    obey_permissions();
    let folder = tempfile::tempdir().unwrap();
    // A message names the path without links, as which macOS has its folder for temporary files.
    let place = folder.path().canonicalize().unwrap();
    let file = place.join("jobs.db");
    open(&file).await.close().await;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    if fs::File::options().write(true).open(&file).is_ok() {
        asynq_test_support::skip!("this user may write to every file");
    }
    let no_file = format!("may not read and write {} (user ", file.display());
    let (kind, text) = refusal(&file).await;
    assert!(kind == BrokerErrorKind::Denied && text.contains(&no_file) && text.contains("mode 444)"), "{text}");
    // No new file is made either in a folder where none may be made.
    let closed = place.join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    let no_folder = format!("may not create files in the folder {} (user ", closed.display());
    let (kind, text) = refusal(&closed.join("jobs.db")).await;
    assert_eq!(kind, BrokerErrorKind::Denied, "{text}");
    assert!(text.contains(&no_folder), "{text}");
    // The file alone is not enough: its log would be in the folder.
    let own = closed.join("own.db");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
    open(&own).await.close().await;
    for entry in fs::read_dir(&closed).unwrap().map(|entry| entry.unwrap().path()).filter(|path| *path != own) {
        fs::remove_file(entry).unwrap();
    }
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    let (kind, text) = refusal(&own).await;
    assert!(kind == BrokerErrorKind::Denied && text.contains(&no_folder), "{text}");
    // As the file of another user in a folder of both.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    let (kind, text) = refusal(&file).await;
    assert!(kind == BrokerErrorKind::Denied && text.contains(&no_file) && text.contains("mode 0)"), "{text}");
    // Otherwise the folder could not be removed, as this thread obeys permissions.
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The superuser may not make a file there either: tests in containers run as the superuser.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_folder_that_cannot_be_written_to_is_denied_to_every_user() {
    let file = Path::new("/sys/asynq-test.db");
    assert!(fs::write(file, "").is_err(), "the case needs a folder without files of its own");
    let (kind, text) = refusal(file).await;
    assert_eq!(kind, BrokerErrorKind::Denied, "{text}");
    assert!(text.contains("/sys"), "{text}");
}

#[tokio::test]
async fn many_openers_at_once_make_the_tables_once() {
    let (_folder, file) = new_file();
    let openers: Vec<_> = (0..12)
        .map(|n| {
            let file = file.clone();
            tokio::spawn(async move {
                let broker = open(&file).await;
                enqueue(&broker, task(&n.to_string())).await.unwrap();
                broker
            })
        })
        .collect();
    let mut brokers = Vec::new();
    for opener in openers {
        brokers.push(opener.await.unwrap());
    }
    assert_eq!(brokers[0].queue_stats(&queue()).await.unwrap().pending, 12);
}

#[tokio::test]
async fn a_closed_broker_returns_an_error_and_leaves_only_the_database_behind() {
    let (folder, file) = new_file();
    let broker = open(&file).await;
    let member = join(&broker).await;
    enqueue(&broker, task("a")).await.unwrap();
    broker.close().await;
    broker.close().await;
    let Err(Refused::Broker(error)) = enqueue(&broker, task("b")).await else { panic!("the broker is closed") };
    assert_eq!(error.kind(), BrokerErrorKind::Closed);
    assert_eq!(broker.ping().await.unwrap_err().kind(), BrokerErrorKind::Closed);
    let error = soon(broker.wait_for_work(&[queue()], Quarantined::All, HOUR)).await.unwrap_err();
    assert_eq!(error.kind(), BrokerErrorKind::Closed);
    drop(member);
    let mut left: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with("-wal") && !name.ends_with("-shm"))
        .collect();
    left.sort();
    assert_eq!(left, ["jobs.db", "jobs.db-next", "jobs.db-turn"]);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_opening_that_is_abandoned_when_it_is_done_keeps_no_file_open() {
    use std::{
        pin::pin,
        sync::atomic::{AtomicBool, Ordering::SeqCst},
        task::{Context, Wake},
    };

    use asynq_test_support::eventually;

    struct Woken(AtomicBool);
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, SeqCst);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().canonicalize().unwrap().join("jobs.db");
    let is_open = || {
        let mut files =
            fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        files.any(|open| open == file)
    };
    let woken = Arc::new(Woken(AtomicBool::new(false)));
    let url = url(&file);
    {
        let mut opening = pin!(SqliteBroker::open(&url, SqliteOptions::default()));
        assert!(opening.as_mut().poll(&mut Context::from_waker(&Arc::clone(&woken).into())).is_pending());
        eventually("it is open", async || woken.0.load(SeqCst).then_some(())).await;
        assert!(is_open());
    }
    eventually("its file is closed", async || (!is_open()).then_some(())).await;
}

#[tokio::test]
async fn a_file_that_another_program_keeps_locked_is_refused_with_the_reason() {
    let (_folder, file) = new_file();
    // No file is switched to WAL mode while another connection reads from it.
    let reader = rusqlite::Connection::open(&file).unwrap();
    reader.execute_batch("CREATE TABLE theirs(x); BEGIN; SELECT count(*) FROM theirs").unwrap();
    let url = format!("{}?shared=1&connect_timeout=100ms", url(&file));
    let error = SqliteBroker::open(&url, SqliteOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), BrokerErrorKind::Timeout, "{error}");
    assert!(error.to_string().contains("another program keeps it locked"), "{error}");
}

#[tokio::test]
async fn options_that_would_lose_tasks_or_never_end_are_refused() {
    let (mut no_time, mut no_lease, mut endless) =
        (SqliteOptions::default(), SqliteOptions::default(), SqliteOptions::default());
    no_time.call_timeout = Duration::ZERO;
    no_lease.lease = Duration::ZERO;
    for options in [no_time, no_lease] {
        let error = SqliteBroker::in_memory(options).await.unwrap_err();
        assert_eq!(error.kind(), BrokerErrorKind::Config, "{error}");
    }
    (endless.call_timeout, endless.lease) = (Duration::MAX, Duration::MAX);
    let broker = SqliteBroker::in_memory(endless).await.unwrap();
    let member = join(&broker).await;
    enqueue(&broker, task("a")).await.unwrap();
    assert_eq!(dequeue(&broker, &member, 1).await.len(), 1);
}

/// A folder of the application that links to a volume is linked before there is a file.
#[tokio::test]
async fn a_link_whose_file_is_not_made_yet_leads_to_the_file_and_all_that_lies_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let (data, app) = (folder.path().join("data"), folder.path().join("app"));
    for made in [&data, &app] {
        std::fs::create_dir(made).unwrap();
    }
    let names =
        |folder: &Path| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
    for (target, link) in [("../data/jobs.db".into(), "jobs.db"), (data.join("other.db"), "other.db")] {
        std::os::unix::fs::symlink::<std::path::PathBuf, _>(target, app.join(link)).unwrap();
        let broker = open(&app.join(link)).await;
        enqueue(&broker, task("t1")).await.unwrap();
        let _member = join(&broker).await;
        broker.close().await;
        assert!(data.join(link).is_file());
    }
    assert_eq!(names(&app).len(), 2, "{:?}", names(&app));
}
