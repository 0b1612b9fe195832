use asynq_runtime::prelude::*;

#[job]
async fn print(#[arg(default = 1)] copies: u32, #[from_context(header = "tenant")] tenant: Tenant, page: u8) {
    drop((copies, tenant, page));
}

async fn caller(client: &Client) {
    let _ = print::enqueue(client, 1, 2).await;
}

struct Tenant;

fn main() {}
