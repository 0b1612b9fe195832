use asynq_runtime::prelude::*;

#[job]
async fn bill(#[from_context] #[arg] tenant: String, month: u8) {
    drop((tenant, month));
}

fn main() {}
