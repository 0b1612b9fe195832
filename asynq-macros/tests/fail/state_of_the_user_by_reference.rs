use asynq_runtime::prelude::*;

struct State;
struct Checkpoint;

#[job]
async fn mark(state: &State, at: &Checkpoint) {
    let _ = (state, at);
}

fn main() {}
