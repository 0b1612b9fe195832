use asynq_runtime::prelude::*;

#[derive(serde::Serialize)]
struct Report {
    rows: u64,
}

#[job(retention = "1h")]
async fn count() -> JobResult<Report> {
    Ok(Report { rows: 3 })
}

async fn caller(task: Enqueued<count>) {
    let _ = task.wait("30s").await;
}

fn main() {}
