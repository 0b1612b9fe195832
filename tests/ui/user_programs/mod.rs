//! Programs that users write first: those that must compile. Programs that must not compile are in `fail`, and the
//! repository tests limit their messages to one error of 15 lines.

#![allow(dead_code, reason = "that they compile is the test")]

mod arguments;
mod calls;
mod embedding;
mod evolution;
mod options;
mod results;
mod schedules;
mod supplied;

use asynq_runtime::{__private::inventory, JobDescriptor, Registry};

/// The least number of programs that must compile; those of `fail` come on top.
const AT_LEAST: usize = 50;

#[test]
fn user_programs_compile_and_their_jobs_can_be_served_together() {
    let programs = inventory::iter::<JobDescriptor>().filter(|job| job.name.starts_with("user:"));
    let registry = Registry::from_descriptors(programs.copied()).expect("each has a name of its own");
    assert!(registry.len() >= AT_LEAST, "{} programs", registry.len());
    for job in registry.iter() {
        let is_postcard = job.codec == asynq_runtime::job::Codec::Postcard;
        assert!(!is_postcard || job.fingerprint().self_describing.is_none(), "{}: its codec cannot carry it", job.name);
    }
}
