use asynq_cron::prelude::*;
use asynq_runtime::prelude::*;

#[job]
struct Send {
    to: String,
}

#[periodic("@daily")]
struct Cleanup;

fn main() {}
