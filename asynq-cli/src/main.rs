//! The command line of asynq.

fn main() {}
