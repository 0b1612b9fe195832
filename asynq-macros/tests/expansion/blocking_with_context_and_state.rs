// #[job]
// fn thumbnail(store: State<Store>, ctx: &JobContext, path: &str, size: u32) -> JobResult<u64> {
//     store.shrink(path, size)
// }

fn thumbnail(
    store: State<Store>,
    ctx: &JobContext,
    path: &str,
    size: u32,
) -> JobResult<u64> {
    store.shrink(path, size)
}
/// Job `thumbnail`.
/// Runs [`thumbnail()`].
#[allow(
    dead_code,
    deprecated,
    missing_copy_implementations,
    missing_debug_implementations,
    non_camel_case_types,
    non_snake_case,
    private_interfaces,
    unreachable_pub,
    clippy::all,
    clippy::nursery,
    clippy::pedantic
)]
#[derive(::asynq_runtime::__private::Serialize, ::asynq_runtime::__private::Deserialize)]
#[serde(crate = "::asynq_runtime::__private::serde")]
struct thumbnail {
    /// Argument `path` of [`thumbnail()`].
    path: ::asynq_runtime::__private::String,
    /// Argument `size` of [`thumbnail()`].
    size: u32,
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
    clippy::all,
    clippy::nursery,
    clippy::pedantic
)]
impl thumbnail {
    /// This job with these arguments, ready for options of one enqueue, such as `.queue("low")`.
    ///
    /// Nothing is sent before `.enqueue(&client)`.
    fn job(path: &str, size: u32) -> ::asynq_runtime::__private::JobBuilder<Self> {
        ::asynq_runtime::__private::JobBuilder::new(Self {
            path: ::std::borrow::ToOwned::to_owned(path),
            size,
        })
    }
    /// Enqueues this job with the options declared on the function.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    async fn enqueue(
        client: &::asynq_runtime::__private::Client,
        path: &str,
        size: u32,
    ) -> ::asynq_runtime::__private::Result<
        ::asynq_runtime::__private::Enqueued<Self>,
        ::asynq_runtime::__private::EnqueueError,
    > {
        Self::job(path, size).enqueue(client).await
    }
    /// Enqueues this job to run after a delay: a `Duration`, or text such as `"10m"`.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    async fn enqueue_in(
        client: &::asynq_runtime::__private::Client,
        delay: impl ::asynq_runtime::__private::IntoSpan,
        path: &str,
        size: u32,
    ) -> ::asynq_runtime::__private::Result<
        ::asynq_runtime::__private::Enqueued<Self>,
        ::asynq_runtime::__private::EnqueueError,
    > {
        Self::job(path, size).process_in(delay).enqueue(client).await
    }
    /// Enqueues this job to run at a given time.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    async fn enqueue_at(
        client: &::asynq_runtime::__private::Client,
        when: impl ::asynq_runtime::__private::IntoInstant,
        path: &str,
        size: u32,
    ) -> ::asynq_runtime::__private::Result<
        ::asynq_runtime::__private::Enqueued<Self>,
        ::asynq_runtime::__private::EnqueueError,
    > {
        Self::job(path, size).process_at(when).enqueue(client).await
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
    clippy::all,
    clippy::nursery,
    clippy::pedantic
)]
const _: () = {
    use ::asynq_runtime::__private as __rt;
    impl __rt::Job for thumbnail {
        const NAME: &'static str = "thumbnail";
        const REQUIRES: &'static [__rt::StateKey] = &[__rt::StateKey::of::<Store>()];
        type Output = __rt::JobResult<<JobResult<u64> as __rt::IntoJobResult>::Value>;
        async fn run(self, ctx: &__rt::JobContext) -> Self::Output {
            let state_0 = <State<Store> as __rt::FromContext>::from_context(ctx).await?;
            __rt::run_blocking(
                    ctx,
                    move |ctx| <JobResult<
                        u64,
                    > as __rt::IntoJobResult>::into_job_result(
                        thumbnail(state_0, ctx, &self.path, self.size),
                    ),
                )
                .await
        }
    }
    __rt::inventory::submit! {
        __rt::JobDescriptor::of:: < thumbnail > (::core::file!(), ::core::line!())
    }
};
