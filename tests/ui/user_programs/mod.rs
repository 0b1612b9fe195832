//! What people write first, each a program of its own: those that must compile. Those that must not are in `fail`, and the
//! repository tests hold their messages to one error of 15 lines.

#![allow(dead_code, reason = "that they compile is the test")]

mod arguments;
mod calls;
mod evolution;
mod options;
mod results;
mod supplied;

use asynq_runtime::Registry;

/// Programs that must compile, at least; with those of `fail` they are more than 60.
const AT_LEAST: usize = 36;

#[test]
fn user_programs_compile_and_their_jobs_can_be_served_together() {
    let registry = Registry::linked().unwrap();
    let programs: Vec<&str> = registry.iter().map(|job| job.name).filter(|name| name.starts_with("user:")).collect();
    assert!(programs.len() >= AT_LEAST, "{}: {programs:?}", programs.len());
    for job in registry.iter().filter(|job| job.name.starts_with("user:")) {
        assert_eq!(job.fingerprint().self_describing, None, "{}: its codec can carry its arguments", job.name);
    }
}
