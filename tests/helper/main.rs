//! The processes that tests start, in one program. The first argument says which; nothing of it is for anybody else.
//!
//! Programs of `asynq_runtime::main!` are not in here: the jobs of such a program are all that it links.

mod interop;
mod produce;
mod scheduler;
mod worker;

use asynq_runtime::BoxError;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("worker") => worker::run().await,
        Some("scheduler") => scheduler::run().await,
        Some("interop") => interop::run(arguments).await,
        Some("produce") => produce::run().await,
        other => Err(format!("no such process: {other:?}").into()),
    }
}
