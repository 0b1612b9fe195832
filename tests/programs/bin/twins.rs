//! A program in which two jobs have one name.

mod mails {
    use asynq_runtime::prelude::*;

    /// The first.
    #[job(name = "mail:send")]
    pub(crate) async fn send() {}
}

mod letters {
    use asynq_runtime::prelude::*;

    /// The second.
    #[job(name = "mail:send")]
    pub(crate) async fn post() {}
}

asynq_runtime::main!(jobs: [mails, letters]);
