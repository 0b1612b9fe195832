use asynq_runtime::prelude::*;

trait Mailer {
    fn send(&self, to: &str);
}

#[job]
async fn send(mailer: State<dyn Mailer + Send + Sync>, to: String) {
    mailer.send(&to);
}

fn main() {}
