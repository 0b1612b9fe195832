use asynq_runtime::prelude::*;

fn policy(_: &std::fmt::Error) -> Policy {
    Policy::Fail
}

#[job(on_error = policy)]
async fn send(to: String) -> Result<(), std::io::Error> {
    Ok(drop(to))
}

fn main() {}
