// #[job(kill_after = "1m30s")]
// pub fn thumbnail(path: String) -> JobResult {
//     std::fs::metadata(path)?;
//     Ok(())
// }

pub fn thumbnail(path: String) -> JobResult {
    std::fs::metadata(path)?;
    Ok(())
}
/// Job `thumbnail` · given up 1m30s after its time is over.
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
#[serde(transparent)]
pub struct thumbnail {
    /// Argument `path` of [`thumbnail()`].
    #[serde(
        bound(
            serialize = "for<'__job> String: ::asynq_runtime::__private::Stored<'__job, { <thumbnail as ::asynq_runtime::__private::Checked>::OK }>",
            deserialize = "for<'__job> String: ::asynq_runtime::__private::Stored<'__job, { <thumbnail as ::asynq_runtime::__private::Checked>::OK }>"
        )
    )]
    pub path: String,
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
    pub fn job(
        path: impl ::asynq_runtime::__private::IntoText<String>,
    ) -> ::asynq_runtime::__private::JobBuilder<Self> {
        ::asynq_runtime::__private::JobBuilder::new(Self {
            path: ::asynq_runtime::__private::IntoText::into_text(path),
        })
    }
    /// Enqueues this job with the options declared on the function.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    pub fn enqueue(
        client: &::asynq_runtime::__private::Client,
        path: impl ::asynq_runtime::__private::IntoText<String>,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(path).enqueue(client)
    }
    /// Enqueues this job to run after a delay: a `Duration`, or text such as `"10m"`.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    pub fn enqueue_in(
        client: &::asynq_runtime::__private::Client,
        delay: impl ::asynq_runtime::__private::IntoSpan,
        path: impl ::asynq_runtime::__private::IntoText<String>,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(path).process_in(delay).enqueue(client)
    }
    /// Enqueues this job to run at a given time.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    pub fn enqueue_at(
        client: &::asynq_runtime::__private::Client,
        when: impl ::asynq_runtime::__private::IntoInstant,
        path: impl ::asynq_runtime::__private::IntoText<String>,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(path).process_at(when).enqueue(client)
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
            let () = <String as __rt::Argument>::FITS;
            let () = <JobResult as __rt::IntoJobResult>::FITS;
            0
        };
    }
    impl __rt::Job for thumbnail {
        const NAME: &'static str = "thumbnail";
        const OPTIONS: __rt::JobOptions = __rt::JobOptions::new()
            .kill_after(__rt::Duration::from_secs(90));
        const ARGUMENT: __rt::Option<&'static str> = __rt::Option::Some("path");
        type Output = __rt::JobResult<
            <JobResult as __rt::Returned<{ <thumbnail as __rt::Checked>::OK }>>::Value,
        >;
        fn run(
            self,
            ctx: &__rt::JobContext,
        ) -> impl __rt::Future<Output = Self::Output> + ::core::marker::Send {
            async move {
                __rt::run_blocking(
                        ctx,
                        move |_| <JobResult as __rt::Returned<
                            { <thumbnail as __rt::Checked>::OK },
                        >>::into_job_result(thumbnail(self.path)),
                    )
                    .await
            }
        }
    }
    __rt::inventory::submit! {
        __rt::JobDescriptor::of:: < thumbnail > (::core::file!(), ::core::line!())
    }
};
