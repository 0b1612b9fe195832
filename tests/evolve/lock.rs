//! `jobs.lock` predicts the effect of a deploy: the table of changes, without a broker.

use asynq_runtime::{
    Registry,
    job::{JobsLock, Verdict},
};

use crate::changes::{Change, all};

mod gone;
mod samples;
mod upgrades;

/// Changes that run for the values in the table, and not for all values of the old shape.
const FOR_SOME_VALUES: [(&str, &str); 3] = [
    ("postcard", "an integer becomes a fraction"),
    ("postcard", "an optional argument becomes mandatory"),
    ("json", "an optional argument becomes mandatory"),
];

/// The verdict of the new program on the tasks of the old one.
fn check(change: &Change) -> (bool, String, Verdict) {
    let before = Registry::from_descriptors([change.before.job]).unwrap();
    let after = Registry::from_descriptors([change.after.job]).unwrap();
    let text = JobsLock::default().with(&before).to_string();
    let lock = JobsLock::parse(&text).unwrap();
    assert!(lock.check(&before).iter().all(|found| found.is_safe()), "{text}");
    let found = lock.check(&after).swap_remove(0);
    (found.is_safe(), found.to_string(), found.verdict)
}

#[test]
fn every_unsafe_change_is_refused_with_its_remedy_and_no_other_is() {
    let (mut table, mut wrong) = (String::new(), 0);
    for change in all() {
        let (is_safe, line, _) = check(&change);
        let expected = change.forward.is_some() && !FOR_SOME_VALUES.contains(&(change.codec, change.name));
        let is_right =
            is_safe == expected && (is_safe || line.contains(": needs ") || line.contains("looks like a rename"));
        wrong += usize::from(!is_right);
        let mark = if is_right { "" } else { "  <-- WRONG" };
        table.push_str(&format!("{:8} {:46} {line}{mark}\n", change.codec, change.name));
    }
    println!("{table}");
    assert_eq!(wrong, 0, "{table}");
}

#[test]
fn each_verdict_names_its_remedy() {
    let find =
        |name: &str, codec: &str| check(&all().into_iter().find(|c| c.name == name && c.codec == codec).unwrap());
    let (_, line, verdict) = find("an argument without a default is added", "postcard");
    assert_eq!(verdict, Verdict::NeedsDefault("from".into()));
    assert_eq!(
        line,
        "UNSAFE  add_required {to: str, n: u32}: needs a default: write #[serde(default)] on `from`, or make it an Option"
    );
    for (codec, job) in [("postcard", "rename"), ("json", "rename_json")] {
        let (_, line, verdict) = find("an argument is renamed", codec);
        assert_eq!(verdict, Verdict::NeedsAlias { field: "recipient".into(), earlier: vec!["to".into()] });
        assert_eq!(
            line,
            format!(
                "UNSAFE  {job} {{to: str, n: u32}}: looks like a rename of `to` to `recipient`: write #[serde(alias = \"to\")] on \
                 `recipient`; a default is for a new one, and loses `to`"
            )
        );
    }
    let (_, line, verdict) = find("an integer becomes narrower than its value", "json");
    assert!(matches!(verdict, Verdict::NeedsUpgrade(_)) && line.contains("#[job(upgrade = from_v1)]"), "{line}");
    for name in ["two arguments become one of another name", "one argument becomes two of other names"] {
        for codec in ["postcard", "json"] {
            let (_, line, verdict) = find(name, codec);
            let expected = Verdict::NeedsAlias { field: "recipient".into(), earlier: vec!["to".into()] };
            assert_eq!(verdict, expected, "{line}");
        }
    }
    let (_, line, verdict) = find("one argument becomes two of its type", "postcard");
    let expected = Verdict::NeedsAlias { field: "from` or `recipient".into(), earlier: vec!["to".into()] };
    assert_eq!(verdict, expected, "{line}");
}

/// Either alias makes the check content, and one of them swaps the values.
#[test]
fn no_alias_is_named_where_several_arguments_of_the_type_are_gone() {
    mod before {
        use asynq_runtime::prelude::*;

        #[job(name = "lock:transfer")]
        pub(super) async fn transfer(from: String, to: String, cents: u64) -> JobResult {
            let _ = (from, to, cents);
            Ok(())
        }
    }

    #[asynq_runtime::job(name = "lock:transfer")]
    async fn transfer(recipient: String, sender: String, cents: u64) {
        let _ = (recipient, sender, cents);
    }

    let lock = JobsLock::default().with(&Registry::only::<before::transfer>().unwrap());
    let found = lock.check(&Registry::only::<transfer>().unwrap()).swap_remove(0);
    let earlier = vec!["from".into(), "to".into()];
    assert_eq!(found.verdict, Verdict::NeedsAlias { field: "recipient".into(), earlier });
    let line = found.to_string();
    assert!(line.contains("looks like a rename of `from` or `to` to `recipient`"), "{line}");
    assert!(!line.contains("alias = \"from\"") && !line.contains("alias = \"to\""), "{line}");
}

#[test]
fn renamed_removed_moved_and_new_jobs_are_reported() {
    mod before {
        use asynq_runtime::prelude::*;

        #[job(queue = "mails")]
        pub(super) async fn send(to: String) -> JobResult {
            let _ = to;
            Ok(())
        }

        #[job(name = "lock:gone")]
        pub(super) async fn gone(n: u8, m: u8) -> JobResult {
            let _ = (n, m);
            Ok(())
        }

        #[job(name = "lock:moved", queue = "old")]
        pub(super) async fn moved() -> JobResult {
            Ok(())
        }
    }

    mod after {
        use asynq_runtime::prelude::*;

        #[job]
        pub(super) async fn send_email(to: String) -> JobResult {
            let _ = to;
            Ok(())
        }

        #[job(name = "lock:moved", queue = "new")]
        pub(super) async fn moved() -> JobResult {
            Ok(())
        }
    }

    let lock = JobsLock::default().with(&Registry::only::<(before::send, before::gone, before::moved)>().unwrap());
    let after = Registry::only::<(after::send_email, after::moved)>().unwrap();
    let found: Vec<String> = lock.check(&after).iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "UNSAFE  lock:gone {n: u8, m: u8}: the job is gone; if another job is it now, write #[job(alias = \"lock:gone\")] there, else keep it until none of its tasks waits, then take this line out",
            "UNSAFE  lock:moved no arguments: queue changed: tasks wait in `old`, which no job here names; name it beside the others in --queues of a worker, or start a further worker for it",
            "UNSAFE  send str: the job is gone; if it is `send_email` now, write #[job(alias = \"send\")] there; another job would run its tasks, so else keep it until none of them waits, then take this line out",
            "UNSAFE  lock:moved no arguments: not in jobs.lock; write it by `jobs --lock` and commit it",
            "UNSAFE  send_email str: not in jobs.lock; write it by `jobs --lock` and commit it",
        ]
    );
    let both = lock.with(&after);
    assert_eq!(both.with(&after), both, "a shape is locked once");
    // A job that is locked is not new any more, and may be the removed one all the same.
    let gone = both.check(&after).into_iter().find(|found| found.job == "send").unwrap();
    assert!(gone.verdict == Verdict::Gone && gone.to_string().contains("write #[job(alias = \"send\")]"), "{gone}");
}

#[test]
fn tasks_in_the_default_queue_need_a_worker_that_serves_it() {
    mod before {
        use asynq_runtime::prelude::*;

        #[job(name = "lock:report")]
        pub(super) async fn report() -> JobResult {
            Ok(())
        }
    }

    #[asynq_runtime::job(name = "lock:report", queue = "reports")]
    async fn report() {}

    let lock = JobsLock::default().with(&Registry::only::<before::report>().unwrap());
    let found = lock.check(&Registry::only::<report>().unwrap()).swap_remove(0);
    assert_eq!(found.verdict, Verdict::OtherQueue("default".into()));
    let line = found.to_string();
    assert!(found.is_safe() && line.contains("unless --only or --queues leaves it out"), "{line}");
}

/// An alias on the wrong one makes the check content, and the tasks run another job.
#[test]
fn every_new_job_that_a_removed_one_may_be_is_named() {
    mod before {
        use asynq_runtime::prelude::*;

        #[job(name = "lock:purge_cache")]
        pub(super) async fn purge_cache() -> JobResult {
            Ok(())
        }
    }

    #[asynq_runtime::job(name = "lock:charge_all")]
    async fn charge_all() {}

    #[asynq_runtime::job(name = "lock:purge")]
    async fn purge() {}

    let lock = JobsLock::default().with(&Registry::only::<before::purge_cache>().unwrap());
    let found = lock.check(&Registry::only::<(charge_all, purge)>().unwrap()).swap_remove(0);
    assert_eq!(found.verdict, Verdict::LooksRenamed(vec!["lock:charge_all".into(), "lock:purge".into()]));
    let line = found.to_string();
    assert!(line.contains("if it is one of `lock:charge_all`, `lock:purge` now"), "{line}");
    assert!(line.contains("another job would run its tasks"), "{line}");
}

#[test]
fn a_change_inside_any_variant_of_an_enum_is_tried() {
    macro_rules! version {
        ($name:ident $cents:ty, $note:ty) => {
            mod $name {
                use asynq_runtime::prelude::*;
                use serde::{Deserialize, Serialize};

                #[derive(Serialize, Deserialize)]
                pub(super) enum Pay {
                    Cash,
                    Card { cents: $cents, note: $note },
                }

                #[job(name = "lock:pay")]
                pub(super) async fn pay(by: Pay, n: u8) -> JobResult {
                    let _ = (by, n);
                    Ok(())
                }
            }
        };
    }
    version!(before u64, Option<String>);
    version!(narrower u32, Option<String>);
    version!(mandatory u64, String);
    let lock = JobsLock::default().with(&Registry::only::<before::pay>().unwrap());
    for after in [Registry::only::<narrower::pay>().unwrap(), Registry::only::<mandatory::pay>().unwrap()] {
        let found = lock.check(&after).swap_remove(0);
        assert!(matches!(found.verdict, Verdict::NeedsUpgrade(_)), "{found}");
    }
}

/// Null stands for two values of such an argument, which makes no empty sample impossible.
#[test]
fn an_option_in_an_option_hides_no_change_beside_it() {
    mod before {
        use asynq_runtime::prelude::*;

        #[job(name = "lock:patch")]
        pub(super) async fn patch(note: Option<String>, patch: Option<Option<u8>>) -> JobResult {
            let _ = (note, patch);
            Ok(())
        }
    }

    #[asynq_runtime::job(name = "lock:patch")]
    async fn patch(note: String, patch: Option<Option<u8>>) {
        let _ = (note, patch);
    }

    let lock = JobsLock::default().with(&Registry::only::<before::patch>().unwrap());
    let found = lock.check(&Registry::only::<patch>().unwrap()).swap_remove(0);
    assert!(!found.is_safe(), "{found}");
}

#[test]
fn a_shape_that_is_too_large_for_the_file_is_not_called_safe() {
    use asynq_runtime::prelude::*;

    #[job(name = "lock:large")]
    async fn large(n: u8, m: u8) -> JobResult {
        let _ = (n, m);
        Ok(())
    }

    #[job(name = "lock:large")]
    async fn large_no_more() -> JobResult {
        Ok(())
    }

    let line = r#"{"job":"lock:large","queue":"default","codec":"postcard","fingerprint":"0badcafe","shape":"{…}"}"#;
    let lock = JobsLock::parse(line).unwrap();
    let found = lock.check(&Registry::only::<(large,)>().unwrap()).swap_remove(0);
    assert_eq!(found.verdict, Verdict::NeedsUpgrade("its shape is not kept".into()));
    let found = lock.check(&Registry::only::<(large_no_more,)>().unwrap()).swap_remove(0);
    assert_eq!(found.verdict, Verdict::Safe, "a job without arguments takes any payload");
}

#[test]
fn a_file_that_cannot_be_read_is_reported_with_its_line() {
    let error = JobsLock::parse("# fine\n\nnot json\n").unwrap_err().to_string();
    assert!(error.starts_with("line 3 cannot be read: ") && error.contains("jobs --lock"), "{error}");
    let shape = r#"{"job":"a","queue":"q","codec":"json","shape":"x","document":"{}"}"#;
    assert!(JobsLock::parse(shape).unwrap_err().to_string().contains("malformed"));
    let newer = shape.replace("{}", r#"{\"v\":2}"#);
    let error = JobsLock::parse(&newer).unwrap_err().to_string();
    assert!(
        error.contains("version 2") && error.ends_with("; update this program to the version that wrote it"),
        "{error}"
    );
}

/// serde announces an alias as if it were a field. The text in the file is compared, and the other one is shown.
#[test]
fn an_alias_is_not_shown_as_an_argument_and_the_file_keeps_its_text() {
    use asynq_runtime::prelude::*;

    #[job(name = "lock:aliased")]
    async fn aliased(#[serde(alias = "to")] recipient: String, subject: String, copy: Option<String>) -> JobResult {
        let _ = (recipient, subject, copy);
        Ok(())
    }

    let registry = Registry::only::<(aliased,)>().unwrap();
    let lock = JobsLock::default().with(&registry);
    assert_eq!(lock.shapes()[0].shape, "{recipient: str, to: str, subject: str?, copy: _}");
    let found = lock.check(&registry).swap_remove(0);
    assert_eq!(found.to_string(), "safe    lock:aliased {recipient: str, subject: str, copy: str?}");
}
