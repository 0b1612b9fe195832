use asynq_runtime::prelude::*;

#[job]
async fn send(to: Option<&str>, all: std::borrow::Cow<'_, str>) {
    drop((to, all));
}

fn main() {}
