//! Every option of `main!`: where jobs are, a linked service with flags of its own, and a set-up.

mod my_jobs {
    use asynq_runtime::prelude::*;

    /// Says hello.
    #[job]
    pub(crate) async fn hello(name: String) -> JobResult {
        println!("hello {name}");
        tracing::info!("a greeting is said");
        Ok(())
    }

    /// Never returns, as a call into a broken library might.
    #[job]
    pub(crate) fn stuck() {
        println!("inside a broken library");
        loop {
            std::thread::park();
        }
    }
}

mod billing {
    pub(crate) mod jobs {
        use asynq_runtime::prelude::*;

        /// Sends a bill.
        #[job(queue = "bills", codec = "json")]
        pub(crate) async fn bill(cents: u64) -> JobResult {
            println!("bill over {cents}");
            Ok(())
        }
    }
}

/// A service as a crate would bring it, which is on when its flag is given.
mod greeter {
    use asynq_runtime::{
        job::{BoxError, BoxFuture},
        server::{Flag, Service, ServiceContext, ServiceEntry, ServiceRow},
    };

    struct Greeter(String);

    impl Service for Greeter {
        fn name(&self) -> &'static str {
            "greeter"
        }

        fn run(self: Box<Self>, cx: ServiceContext) -> BoxFuture<'static, Result<(), BoxError>> {
            Box::pin(async move {
                super::my_jobs::hello::enqueue(cx.client(), self.0).await?;
                cx.stopping().await;
                println!("greeter leaves");
                Ok(())
            })
        }
    }

    inventory::submit! {
        ServiceEntry::new("greeter", |flags| {
            let name = flags.value("greet")?;
            Some(Box::new(Greeter(name.to_owned())))
        })
        .flags(|| vec![Flag::value("greet", "NAME", "Greets this one")])
        .rows(|| vec![ServiceRow::new("greeting", "once")])
    }
}

async fn setup(app: asynq_runtime::App) -> Result<asynq_runtime::App, asynq_runtime::BoxError> {
    if let Ok(name) = std::env::var("GREET_FIRST") {
        my_jobs::hello::enqueue(&app.client().await?, name).await?;
    }
    Ok(app.queue("bills", 2).queue("default", 1).concurrency(3))
}

asynq_runtime::main!(jobs: [my_jobs, billing::jobs, asynq_tests], services: [greeter], setup);
