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
    unused_qualifications,
    clippy::all,
    clippy::nursery,
    clippy::pedantic
)]
#[derive(::asynq_runtime::__private::Serialize, ::asynq_runtime::__private::Deserialize)]
#[serde(crate = "::asynq_runtime::__private::serde")]
struct thumbnail {
    /// Argument `path` of [`thumbnail()`].
    #[serde(
        bound(
            serialize = "for<'__job> :: asynq_runtime :: __private :: String: ::asynq_runtime::__private::Stored<'__job, { <thumbnail as ::asynq_runtime::__private::Checked>::OK }>",
            deserialize = "for<'__job> :: asynq_runtime :: __private :: String: ::asynq_runtime::__private::Stored<'__job, { <thumbnail as ::asynq_runtime::__private::Checked>::OK }>"
        )
    )]
    path: ::asynq_runtime::__private::String,
    /// Argument `size` of [`thumbnail()`].
    #[serde(
        bound(
            serialize = "for<'__job> u32: ::asynq_runtime::__private::Stored<'__job, { <thumbnail as ::asynq_runtime::__private::Checked>::OK }>",
            deserialize = "for<'__job> u32: ::asynq_runtime::__private::Stored<'__job, { <thumbnail as ::asynq_runtime::__private::Checked>::OK }>"
        )
    )]
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
    unused_qualifications,
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
    fn enqueue(
        client: &::asynq_runtime::__private::Client,
        path: &str,
        size: u32,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(path, size).enqueue(client)
    }
    /// Enqueues this job to run after a delay: a `Duration`, or text such as `"10m"`.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue_in(
        client: &::asynq_runtime::__private::Client,
        delay: impl ::asynq_runtime::__private::IntoSpan,
        path: &str,
        size: u32,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(path, size).process_in(delay).enqueue(client)
    }
    /// Enqueues this job to run at a given time.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue_at(
        client: &::asynq_runtime::__private::Client,
        when: impl ::asynq_runtime::__private::IntoInstant,
        path: &str,
        size: u32,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(path, size).process_at(when).enqueue(client)
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
    impl __rt::Checked for thumbnail {
        const OK: usize = {
            let () = <__rt::String as __rt::Argument>::FITS;
            let () = <u32 as __rt::Argument>::FITS;
            let _ = <State<Store> as __rt::FromContext>::REQUIRES;
            let () = <JobResult<u64> as __rt::IntoJobResult>::FITS;
            0
        };
    }
    impl __rt::Job for thumbnail {
        const NAME: &'static str = "thumbnail";
        const REQUIRES: &'static [__rt::StateKey] = &[__rt::StateKey::of::<Store>()];
        type Output = __rt::JobResult<
            <JobResult<
                u64,
            > as __rt::Returned<{ <thumbnail as __rt::Checked>::OK }>>::Value,
        >;
        fn run(
            self,
            ctx: &__rt::JobContext,
        ) -> impl __rt::Future<Output = Self::Output> + ::core::marker::Send {
            async move {
                let state_0 = <State<
                    Store,
                > as __rt::Supplied<
                    { <thumbnail as __rt::Checked>::OK },
                >>::from_context(ctx)
                    .await?;
                __rt::run_blocking(
                        ctx,
                        move |ctx| <JobResult<
                            u64,
                        > as __rt::Returned<
                            { <thumbnail as __rt::Checked>::OK },
                        >>::into_job_result(
                            thumbnail(state_0, ctx, &self.path, self.size),
                        ),
                    )
                    .await
            }
        }
    }
    __rt::inventory::submit! {
        __rt::JobDescriptor::of:: < thumbnail > (::core::file!(), ::core::line!())
    }
};
