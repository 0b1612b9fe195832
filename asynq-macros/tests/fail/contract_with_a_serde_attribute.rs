use asynq_runtime::prelude::*;

#[job(codec = "json")]
#[serde(rename_all = "camelCase")]
async fn resize(image_path: String, max_width: u32) -> JobResult;

fn main() {}
