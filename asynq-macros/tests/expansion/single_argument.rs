// #[job(name = "image:resize", codec = "json", retention = "1h")]
// pub async fn resize(args: Resize) -> JobResult<u64> {
//     Ok(u64::from(args.width))
// }

pub async fn resize(args: Resize) -> JobResult<u64> {
    Ok(u64::from(args.width))
}
/// Job `image:resize` · kept for 1h · JSON payload.
/// Runs [`resize()`].
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
#[serde(transparent)]
pub struct resize {
    /// Argument `args` of [`resize()`].
    #[serde(
        bound(
            serialize = "for<'__job> Resize: ::asynq_runtime::__private::Stored<'__job, { <resize as ::asynq_runtime::__private::Checked>::OK }>",
            deserialize = "for<'__job> Resize: ::asynq_runtime::__private::Stored<'__job, { <resize as ::asynq_runtime::__private::Checked>::OK }>"
        )
    )]
    pub args: Resize,
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
impl resize {
    /// This job with these arguments, ready for options of one enqueue, such as `.queue("low")`.
    ///
    /// Nothing is sent before `.enqueue(&client)`.
    pub fn job(args: Resize) -> ::asynq_runtime::__private::JobBuilder<Self> {
        ::asynq_runtime::__private::JobBuilder::new(Self { args })
    }
    /// Enqueues this job with the options declared on the function.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    pub fn enqueue(
        client: &::asynq_runtime::__private::Client,
        args: Resize,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(args).enqueue(client)
    }
    /// Enqueues this job to run after a delay: a `Duration`, or text such as `"10m"`.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    pub fn enqueue_in(
        client: &::asynq_runtime::__private::Client,
        delay: impl ::asynq_runtime::__private::IntoSpan,
        args: Resize,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(args).process_in(delay).enqueue(client)
    }
    /// Enqueues this job to run at a given time.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    pub fn enqueue_at(
        client: &::asynq_runtime::__private::Client,
        when: impl ::asynq_runtime::__private::IntoInstant,
        args: Resize,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(args).process_at(when).enqueue(client)
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
    impl __rt::Checked for resize {
        const OK: usize = {
            let () = <Resize as __rt::Argument>::FITS;
            0
        };
    }
    impl __rt::Job for resize {
        const NAME: &'static str = "image:resize";
        const OPTIONS: __rt::JobOptions = __rt::JobOptions::new()
            .retention(__rt::Duration::from_secs(3600));
        const CODEC: __rt::Codec = __rt::Codec::Json;
        const ARGUMENT: __rt::Option<&'static str> = __rt::Option::Some("args");
        type Output = JobResult<u64>;
        fn run(
            self,
            _ctx: &__rt::JobContext,
        ) -> impl __rt::Future<Output = Self::Output> + ::core::marker::Send {
            async move { resize(self.args).await }
        }
    }
    __rt::inventory::submit! {
        __rt::JobDescriptor::of:: < resize > (::core::file!(), ::core::line!())
    }
};
