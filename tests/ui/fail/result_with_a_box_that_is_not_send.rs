use asynq_runtime::prelude::*;

#[job]
async fn send(to: String) -> Result<(), Box<dyn std::error::Error>> {
    drop(to);
    Ok(())
}

fn main() {}
