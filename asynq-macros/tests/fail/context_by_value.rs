use asynq_runtime::prelude::*;

#[job]
async fn send(ctx: JobContext, to: String) {
    drop((ctx, to));
}

fn caller() {
    let _ = send::job("ann");
}

fn main() {}
