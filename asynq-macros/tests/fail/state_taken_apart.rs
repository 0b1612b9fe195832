use asynq_runtime::prelude::*;

#[job]
async fn send(State(pool): State<Vec<u8>>, to: String) -> JobResult {
    Ok(drop((pool, to)))
}

fn main() {}
