// #[job]
// fn import(cursor: runtime::Checkpoint<(u64, String)>, file: &Path) {
//     body()
// }

fn import(cursor: runtime::Checkpoint<(u64, String)>, file: &Path) {
    body()
}
/// Job `import`.
/// Runs [`import()`].
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
struct import {
    /// Argument `file` of [`import()`].
    #[serde(
        bound(
            serialize = "for<'__job> < Path as :: std :: borrow :: ToOwned > :: Owned: ::asynq_runtime::__private::Stored<'__job, { <import as ::asynq_runtime::__private::Checked>::OK }>",
            deserialize = "for<'__job> < Path as :: std :: borrow :: ToOwned > :: Owned: ::asynq_runtime::__private::Stored<'__job, { <import as ::asynq_runtime::__private::Checked>::OK }>"
        )
    )]
    file: <Path as ::std::borrow::ToOwned>::Owned,
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
impl import {
    /// This job with these arguments, ready for options of one enqueue, such as `.queue("low")`.
    ///
    /// Nothing is sent before `.enqueue(&client)`.
    fn job(file: &Path) -> ::asynq_runtime::__private::JobBuilder<Self> {
        ::asynq_runtime::__private::JobBuilder::new(Self {
            file: ::std::borrow::ToOwned::to_owned(file),
        })
    }
    /// Enqueues this job with the options declared on the function.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue(
        client: &::asynq_runtime::__private::Client,
        file: &Path,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(file).enqueue(client)
    }
    /// Enqueues this job to run after a delay: a `Duration`, or text such as `"10m"`.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue_in(
        client: &::asynq_runtime::__private::Client,
        delay: impl ::asynq_runtime::__private::IntoSpan,
        file: &Path,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(file).process_in(delay).enqueue(client)
    }
    /// Enqueues this job to run at a given time.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue_at(
        client: &::asynq_runtime::__private::Client,
        when: impl ::asynq_runtime::__private::IntoInstant,
        file: &Path,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(file).process_at(when).enqueue(client)
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
    impl __rt::Checked for import {
        const OK: usize = {
            let () = <<Path as ::std::borrow::ToOwned>::Owned as __rt::Argument>::FITS;
            let () = <() as __rt::IntoJobResult>::FITS;
            0
        };
    }
    impl __rt::Job for import {
        const NAME: &'static str = "import";
        const ARGUMENT: __rt::Option<&'static str> = __rt::Option::Some("file");
        type Output = __rt::JobResult<
            <() as __rt::Returned<{ <import as __rt::Checked>::OK }>>::Value,
        >;
        fn run(
            self,
            ctx: &__rt::JobContext,
        ) -> impl __rt::Future<Output = Self::Output> + ::core::marker::Send {
            async move {
                let state_0 = __rt::JobContext::checkpoint::<(u64, String)>(ctx).await?;
                __rt::run_blocking(
                        ctx,
                        move |_| <() as __rt::Returned<
                            { <import as __rt::Checked>::OK },
                        >>::into_job_result(import(state_0, &self.file)),
                    )
                    .await
            }
        }
    }
    __rt::inventory::submit! {
        __rt::JobDescriptor::of:: < import > (::core::file!(), ::core::line!())
    }
};
