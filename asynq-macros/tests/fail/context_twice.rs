use asynq_runtime::prelude::*;

#[job]
async fn send(ctx: &JobContext, to: String, again: &JobContext) {
    drop((ctx.id(), to, again.id()));
}

fn main() {}
