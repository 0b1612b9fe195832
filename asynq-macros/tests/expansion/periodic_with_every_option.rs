// #[periodic("0 9 * * mon-fri", tz = "Europe/Berlin", missed = "all(100)", overlap = "skip", jitter = "1500ms", queue = "low")]
// async fn report(ctx: &JobContext, tick: Tick, mailer: State<Mailer>) -> Result<u32, MailError> {
//     mailer.send(ctx.id(), tick.scheduled_at()).await
// }

async fn report(
    ctx: &JobContext,
    tick: Tick,
    mailer: State<Mailer>,
) -> Result<u32, MailError> {
    mailer.send(ctx.id(), tick.scheduled_at()).await
}
/// At 09:00, Monday to Friday, Europe/Berlin time.
///
/// Job `report` · queue `low`.
/// Runs [`report()`].
#[cfg_attr(
    doc,
    doc = "\n Next runs after 2026-01-01, when these docs were built (wall clock of Europe/Berlin): 2026-01-01 09:00 · 2026-01-02 09:00 · 2026-01-05 09:00 · 2026-01-06 09:00 · 2026-01-07 09:00."
)]
#[allow(
    dead_code,
    deprecated,
    missing_copy_implementations,
    missing_debug_implementations,
    non_camel_case_types,
    non_snake_case,
    private_interfaces,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::nursery,
    clippy::pedantic
)]
#[derive(::asynq_runtime::__private::Serialize, ::asynq_runtime::__private::Deserialize)]
#[serde(crate = "::asynq_runtime::__private::serde")]
struct report {}
#[allow(
    dead_code,
    deprecated,
    missing_copy_implementations,
    missing_debug_implementations,
    non_camel_case_types,
    non_snake_case,
    private_interfaces,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::nursery,
    clippy::pedantic
)]
impl report {
    /// This job with these arguments, ready for options of one enqueue, such as `.queue("low")`.
    ///
    /// Nothing is sent before `.enqueue(&client)`.
    fn job() -> ::asynq_runtime::__private::JobBuilder<Self> {
        ::asynq_runtime::__private::JobBuilder::new(Self {})
    }
    /// Enqueues this job with the options declared on the function.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue(
        client: &::asynq_runtime::__private::Client,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job().enqueue(client)
    }
    /// Enqueues this job to run after a delay: a `Duration`, or text such as `"10m"`.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue_in(
        client: &::asynq_runtime::__private::Client,
        delay: impl ::asynq_runtime::__private::IntoSpan,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job().process_in(delay).enqueue(client)
    }
    /// Enqueues this job to run at a given time.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue_at(
        client: &::asynq_runtime::__private::Client,
        when: impl ::asynq_runtime::__private::IntoInstant,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job().process_at(when).enqueue(client)
    }
}
#[allow(
    dead_code,
    deprecated,
    missing_copy_implementations,
    missing_debug_implementations,
    non_camel_case_types,
    non_snake_case,
    private_interfaces,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::nursery,
    clippy::pedantic
)]
const _: () = {
    use ::asynq_runtime::__private as __rt;
    impl __rt::Checked for report {
        const OK: usize = {
            let _ = <State<Mailer> as __rt::FromContext>::REQUIRES;
            let () = <Result<u32, MailError> as __rt::IntoJobResult>::FITS;
            0
        };
    }
    impl __rt::Job for report {
        const NAME: &'static str = "report";
        const OPTIONS: __rt::JobOptions = __rt::JobOptions::new().queue("low");
        const REQUIRES: &'static [__rt::StateKey] = &[__rt::StateKey::of::<Mailer>()];
        type Output = __rt::JobResult<
            <Result<
                u32,
                MailError,
            > as __rt::Returned<{ <report as __rt::Checked>::OK }>>::Value,
        >;
        fn run(
            self,
            ctx: &__rt::JobContext,
        ) -> impl __rt::Future<Output = Self::Output> + ::core::marker::Send {
            async move {
                <Result<
                    u32,
                    MailError,
                > as __rt::Returned<
                    { <report as __rt::Checked>::OK },
                >>::into_job_result(
                    report(
                            ctx,
                            ::asynq_cron::__private::Tick::of(ctx),
                            <State<
                                Mailer,
                            > as __rt::Supplied<
                                { <report as __rt::Checked>::OK },
                            >>::from_context(ctx)
                                .await?,
                        )
                        .await,
                )
            }
        }
    }
    __rt::inventory::submit! {
        __rt::JobDescriptor::of:: < report > (::core::file!(), ::core::line!())
    }
    use ::asynq_cron::__private as __cron;
    __cron::inventory::submit! {
        __cron::PeriodicEntry::of:: < report > ("0 9 * * mon-fri", ||
        __cron::PreparedTask::from(report {}), ::core::file!(), ::core::line!())
        .zone(__cron::Tz::Europe__Berlin).missed(__cron::Missed::All(100))
        .overlap(__cron::Overlap::Skip).jitter(__rt::Duration::from_millis(1500))
    }
};
