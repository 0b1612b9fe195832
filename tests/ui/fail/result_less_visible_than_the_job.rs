mod jobs {
    use asynq_runtime::prelude::*;

    #[derive(serde::Serialize)]
    struct Receipt;

    #[job]
    #[allow(private_interfaces)]
    pub(crate) async fn send(to: String) -> JobResult<Receipt> {
        drop(to);
        Ok(Receipt)
    }
}

fn main() {}
