mod axum {
    pub struct State<T>(pub T);
}

mod jobs {
    use asynq_runtime::prelude::*;

    use crate::axum::State;

    #[job]
    async fn send(pool: State<u8>, to: String) -> JobResult {
        Ok(drop((pool.0, to)))
    }
}

fn main() {}
