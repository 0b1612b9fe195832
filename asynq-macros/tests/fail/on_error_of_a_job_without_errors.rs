use asynq_runtime::prelude::*;

fn policy(_: &JobError) -> Policy {
    Policy::Fail
}

#[job(on_error = policy)]
async fn send(to: String) {
    drop(to);
}

fn main() {}
