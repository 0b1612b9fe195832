use asynq_runtime::prelude::*;

struct Tenant;

#[job]
async fn send(#[from_context] tenant: Tenant, to: String) -> JobResult {
    Ok(drop((tenant, to)))
}

fn main() {}
