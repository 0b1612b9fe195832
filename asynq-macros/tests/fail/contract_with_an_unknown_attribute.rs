use asynq_runtime::prelude::*;

#[job]
async fn bill(#[form_context] tenant: String, #[allow(unused)] month: u8) -> JobResult;

fn main() {}
