use asynq_runtime::prelude::*;

struct Mailer;

#[job(que = "low")]
impl Mailer {}

fn main() {}
