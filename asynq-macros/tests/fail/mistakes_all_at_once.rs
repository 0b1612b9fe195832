use asynq_runtime::prelude::*;

#[job(que = "critical", retry = "5", timeout = "3 parsecs", retry = 2, unique_by = "too")]
async unsafe fn send(ctx: JobContext, (to, subject): (String, String), _: u8, mailer: &State<u8>) -> impl Sized {
    drop((ctx, to, subject, mailer));
}

async fn caller(client: &Client) {
    let _ = send::enqueue(client, ("ann", "Hi"), 5).await;
}

fn main() {}
