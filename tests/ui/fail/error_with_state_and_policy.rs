use asynq_runtime::prelude::*;

struct Oops;

fn policy(_: &Oops) -> Policy {
    Policy::Fail
}

#[job]
fn blocking(mailer: State<u8>) -> Result<(), Oops> {
    drop(mailer);
    Err(Oops)
}

#[job(on_error = policy)]
async fn send() -> Result<(), Oops> {
    Err(Oops)
}

fn main() {}
