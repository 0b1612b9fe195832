use asynq_runtime::prelude::*;

async fn setup(app: App) -> App {
    app.concurrency(20)
}

asynq_runtime::main!(setup);
