// #[periodic("TZ=Asia/Tokyo @daily", overlap = "replace", missed = "skip")]
// fn archive(tick: Tick) {
//     println!("{tick:?}");
// }

fn archive(tick: Tick) {
    println!("{tick:?}");
}
/// At 00:00, Asia/Tokyo time.
///
/// Job `archive`.
/// Runs [`archive()`].
#[cfg_attr(
    doc,
    doc = "\n Next runs after 2026-01-01, when these docs were built (wall clock of Asia/Tokyo): 2026-01-02 00:00 · 2026-01-03 00:00 · 2026-01-04 00:00 · 2026-01-05 00:00 · 2026-01-06 00:00."
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
struct archive {}
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
impl archive {
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
    impl __rt::Checked for archive {
        const OK: usize = {
            let () = <() as __rt::IntoJobResult>::FITS;
            0
        };
    }
    impl __rt::Job for archive {
        const NAME: &'static str = "archive";
        type Output = __rt::JobResult<
            <() as __rt::Returned<{ <archive as __rt::Checked>::OK }>>::Value,
        >;
        fn run(
            self,
            ctx: &__rt::JobContext,
        ) -> impl __rt::Future<Output = Self::Output> + ::core::marker::Send {
            async move {
                __rt::run_blocking(
                        ctx,
                        move |ctx| <() as __rt::Returned<
                            { <archive as __rt::Checked>::OK },
                        >>::into_job_result(
                            archive(::asynq_cron::__private::Tick::of(ctx)),
                        ),
                    )
                    .await
            }
        }
    }
    __rt::inventory::submit! {
        __rt::JobDescriptor::of:: < archive > (::core::file!(), ::core::line!())
    }
    use ::asynq_cron::__private as __cron;
    const _: __cron::Tz = __cron::Tz::Asia__Tokyo;
    __cron::inventory::submit! {
        __cron::PeriodicEntry::of:: < archive > ("TZ=Asia/Tokyo @daily", ||
        __cron::PreparedTask::from(archive {}), ::core::file!(), ::core::line!())
        .missed(__cron::Missed::Skip).overlap(__cron::Overlap::Replace)
    }
};
