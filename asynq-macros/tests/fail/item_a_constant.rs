use asynq_runtime::prelude::*;

#[job]
pub const SEND: u8 = 5;

fn main() {}
