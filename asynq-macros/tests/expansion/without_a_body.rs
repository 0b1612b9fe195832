// /// Makes a picture smaller.
// #[job(queue = "images", retention = "1h")]
// pub async fn resize(path: &str, width: u32) -> Result<u64, ImageError>;

/// Makes a picture smaller.
///
/// Job `resize` · queue `images` · kept for 1h.
/// Another program runs it.
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
pub struct resize {
    /// Argument `path` of `resize()`.
    #[serde(
        bound(
            serialize = "for<'__job> :: asynq_runtime :: __private :: String: ::asynq_runtime::__private::Stored<'__job, { <resize as ::asynq_runtime::__private::Checked>::OK }>",
            deserialize = "for<'__job> :: asynq_runtime :: __private :: String: ::asynq_runtime::__private::Stored<'__job, { <resize as ::asynq_runtime::__private::Checked>::OK }>"
        )
    )]
    pub path: ::asynq_runtime::__private::String,
    /// Argument `width` of `resize()`.
    #[serde(
        bound(
            serialize = "for<'__job> u32: ::asynq_runtime::__private::Stored<'__job, { <resize as ::asynq_runtime::__private::Checked>::OK }>",
            deserialize = "for<'__job> u32: ::asynq_runtime::__private::Stored<'__job, { <resize as ::asynq_runtime::__private::Checked>::OK }>"
        )
    )]
    pub width: u32,
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
    pub fn job(path: &str, width: u32) -> ::asynq_runtime::__private::JobBuilder<Self> {
        ::asynq_runtime::__private::JobBuilder::new(Self {
            path: ::std::borrow::ToOwned::to_owned(path),
            width,
        })
    }
    /// Enqueues this job with the options declared on the function.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    pub fn enqueue(
        client: &::asynq_runtime::__private::Client,
        path: &str,
        width: u32,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(path, width).enqueue(client)
    }
    /// Enqueues this job to run after a delay: a `Duration`, or text such as `"10m"`.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    pub fn enqueue_in(
        client: &::asynq_runtime::__private::Client,
        delay: impl ::asynq_runtime::__private::IntoSpan,
        path: &str,
        width: u32,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(path, width).process_in(delay).enqueue(client)
    }
    /// Enqueues this job to run at a given time.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    pub fn enqueue_at(
        client: &::asynq_runtime::__private::Client,
        when: impl ::asynq_runtime::__private::IntoInstant,
        path: &str,
        width: u32,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(path, width).process_at(when).enqueue(client)
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
            let () = <__rt::String as __rt::Argument>::FITS;
            let () = <u32 as __rt::Argument>::FITS;
            let () = <Result<u64, ImageError> as __rt::IntoJobResult>::FITS;
            0
        };
    }
    impl __rt::Job for resize {
        const NAME: &'static str = "resize";
        const OPTIONS: __rt::JobOptions = __rt::JobOptions::new()
            .queue("images")
            .retention(__rt::Duration::from_secs(3600));
        const IS_CONTRACT: bool = true;
        type Output = __rt::JobResult<
            <Result<
                u64,
                ImageError,
            > as __rt::Returned<{ <resize as __rt::Checked>::OK }>>::Value,
        >;
        fn run(
            self,
            _ctx: &__rt::JobContext,
        ) -> impl __rt::Future<Output = Self::Output> + ::core::marker::Send {
            async move { __rt::Err(__rt::no_handler::<Self>()) }
        }
    }
};
