//! A program that goes on when its servers have ended: the first one fails, the second one runs until the program is asked to leave.
//!
//! It prints `failed` and `left`, waits for a line between its servers, and ends by a signal or with its standard input.

use asynq_runtime::{
    job::BoxFuture,
    prelude::*,
    server::{Server, ServerBuilder, Service, ServiceContext},
};
use asynq_tests::jobs::Trial;

struct Fails;

impl Service for Fails {
    fn name(&self) -> &'static str {
        "fails"
    }

    fn run(self: Box<Self>, _: ServiceContext) -> BoxFuture<'static, Result<(), BoxError>> {
        Box::pin(async { Err("on purpose".into()) })
    }
}

fn server() -> Result<ServerBuilder, BoxError> {
    Ok(Server::builder("sqlite::memory:").registry(Registry::only::<(Trial,)>()?))
}

pub(crate) async fn run() -> Result<(), BoxError> {
    let outcome = server()?.service(Fails).build().await?.run().await;
    assert!(outcome.is_err());
    println!("failed");
    if std::io::stdin().read_line(&mut String::new())? == 0 {
        return Err("the standard input has ended".into());
    }
    crate::end_with_parent();
    server()?.build().await?.run().await?;
    println!("left");
    loop {
        std::thread::park();
    }
}

/// A program whose worker is an `App` in a `main` of its own, on the broker that the environment names.
pub(crate) async fn app() -> Result<(), BoxError> {
    let registry = Registry::only::<(Trial,)>()?;
    App::new().server(move |server| server.registry(registry)).run().await?;
    Ok(())
}
