use asynq_runtime::prelude::*;

mod mails {}

async fn setup(app: App) -> Result<App, BoxError> {
    Ok(app)
}

asynq_runtime::main!(setup, jobs: [mails]);
