use asynq_runtime::prelude::*;

struct Oops;

fn policy(_: &Oops) -> Policy {
    Policy::Fail
}

#[job(on_error = policy)]
async fn send(mailer: State<u8>) -> Result<(), Oops> {
    drop(mailer);
    Err(Oops)
}

fn main() {}
