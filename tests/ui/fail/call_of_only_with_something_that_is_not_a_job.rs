use asynq_runtime::prelude::*;

fn caller() {
    let _ = Registry::only::<(String,)>();
}

fn main() {}
