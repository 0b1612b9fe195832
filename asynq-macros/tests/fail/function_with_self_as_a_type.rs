use asynq_runtime::prelude::*;

#[derive(serde::Serialize, serde::Deserialize)]
struct Invoice;

impl Invoice {
    #[job]
    async fn send(invoice: Self, copies: Vec<Self>) -> JobResult<Self> {
        drop(copies);
        Ok(invoice)
    }
}

fn main() {}
