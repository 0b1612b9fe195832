//! `#[job]` in every scope of a function, and the runtime by other paths.

use asynq_runtime::prelude::*;

use crate::run;

#[tokio::test]
async fn a_job_may_stand_inside_a_function_and_name_its_types() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Local(u8);
    struct Shared(u8);
    #[derive(Debug, thiserror::Error)]
    #[error("local")]
    struct LocalError;

    /// A job of this function.
    #[job(retry = 1)]
    async fn inside(local: Local, shared: State<Shared>) -> Result<u8, LocalError> {
        if shared.0 == 0 { Err(LocalError) } else { Ok(local.0 + shared.0) }
    }

    let mut states = asynq_runtime::job::StateMap::default();
    states.insert(Shared(2));
    let ctx = JobContext::detached_with(states);
    assert_eq!(crate::run_in(&ctx, inside { local: Local(1) }).await.expect("runs"), 3);
    let _ = inside::job(Local(1));
    assert!(Registry::linked().expect("unique").get("inside").is_some(), "registered although it is local");
}

#[allow(unreachable_pub)]
mod outer {
    use asynq_runtime::prelude::*;

    #[derive(serde::Serialize, serde::Deserialize)]
    pub struct Above(pub u8);

    pub mod inner {
        use super::super::outer;

        #[asynq_runtime::job]
        pub(in super::super) async fn relative(above: super::Above, also: &outer::Same) -> super::Out {
            Ok(above.0 + also.0)
        }
    }

    #[derive(Clone, serde::Serialize, serde::Deserialize)]
    pub struct Same(pub u8);

    pub type Out = JobResult<u8>;

    #[job]
    pub(super) async fn at_outer(above: self::Above) -> self::Out {
        Ok(above.0)
    }
}

#[tokio::test]
async fn relative_paths_mean_what_they_mean_in_the_function() {
    let job = outer::inner::relative { above: outer::Above(1), also: outer::Same(2) };
    assert_eq!(run(job).await.expect("runs"), 3);
    assert_eq!(run(outer::at_outer { above: outer::Above(4) }).await.expect("runs"), 4);
}

/// Stands for a crate that has the runtime under another name.
mod renamed {
    pub(crate) mod deep {
        pub(crate) use asynq_cron as cron;
        pub(crate) use asynq_runtime as jobs;
    }
}

mod elsewhere {
    use super::renamed::deep::jobs::prelude::*;

    #[job(crate = crate::scopes::renamed::deep::jobs)]
    pub(super) async fn by_another_path(ctx: &JobContext, text: &str, state: State<u8>) -> JobResult<usize> {
        let _ = (ctx, state);
        Ok(text.len())
    }

    #[job(crate = super::renamed::deep::jobs, unique = "1m", unique_by = "text")]
    pub(super) fn by_a_relative_path(text: &str) -> JobResult<usize> {
        Ok(text.len())
    }
}

#[tokio::test]
async fn the_runtime_may_be_reached_by_another_path() {
    assert_eq!(run(elsewhere::by_a_relative_path { text: "abc".into() }).await.expect("runs"), 3);
    assert_eq!(elsewhere::by_another_path::REQUIRES.len(), 1);
}

mod scheduled {
    use super::renamed::deep::{cron, jobs};
    use jobs::prelude::*;

    #[cron::periodic(
        "0 9 * * *",
        tz = "Europe/Berlin",
        missed = "skip",
        crate = super::renamed::deep::jobs,
        cron_crate = super::renamed::deep::cron
    )]
    pub(super) async fn by_another_path_too(tick: cron::Tick) -> JobResult {
        let _ = tick;
        Ok(())
    }
}

#[test]
fn a_schedule_may_be_reached_by_another_path() {
    let entries = asynq_cron::__private::PeriodicEntry::linked();
    let mut jobs = entries.iter().map(|entry| entry.to_periodic().expect("a schedule").job().to_owned());
    assert!(jobs.any(|job| job == scheduled::by_another_path_too::NAME));
}

mod imports {
    pub(super) use super::outer::at_outer as renamed_job;
}

#[tokio::test]
async fn one_import_brings_function_and_struct() {
    use imports::renamed_job;
    assert_eq!(renamed_job(outer::Above(1)).await.expect("the function"), 1);
    assert_eq!(run(renamed_job { above: outer::Above(2) }).await.expect("the struct"), 2);
    assert_eq!(renamed_job::NAME, "at_outer");
}

#[job]
#[cfg(any())]
async fn never_compiled(nothing: DoesNotExist) -> NorDoesThis {}

#[job]
#[deprecated = "to see that it is told where it is used and nowhere else"]
async fn old(text: String) -> JobResult<usize> {
    Ok(text.len())
}

#[tokio::test]
#[allow(deprecated)]
async fn a_deprecated_job_still_runs() {
    assert_eq!(run(old { text: "abc".into() }).await.expect("runs"), 3);
}
