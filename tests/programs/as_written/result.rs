use asynq_runtime::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub struct Resize { pub path: String, pub width: u32 }

#[job(name = "image:resize", codec = "json", retention = "1h")]
pub async fn resize(args: Resize) -> JobResult<u64> { Ok(u64::from(args.width)) }

async fn produce(client: &Client) -> Result<(), Box<dyn std::error::Error>> {
    let args = Resize { path: "cat.png".into(), width: 80 };
    resize::enqueue(client, args).await?;
    Ok(())
}
