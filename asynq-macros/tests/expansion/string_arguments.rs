// #[job]
// async fn log(a: String, b: ::std::string::String, c: Option<String>) -> JobResult {
//     Ok(())
// }

async fn log(a: String, b: ::std::string::String, c: Option<String>) -> JobResult {
    Ok(())
}
/// Job `log`.
/// Runs [`log()`].
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
struct log {
    /// Argument `a` of [`log()`].
    #[serde(
        bound(
            serialize = "for<'__job> String: ::asynq_runtime::__private::Stored<'__job, { <log as ::asynq_runtime::__private::Checked>::OK }>",
            deserialize = "for<'__job> String: ::asynq_runtime::__private::Stored<'__job, { <log as ::asynq_runtime::__private::Checked>::OK }>"
        )
    )]
    a: String,
    /// Argument `b` of [`log()`].
    #[serde(
        bound(
            serialize = "for<'__job> :: std :: string :: String: ::asynq_runtime::__private::Stored<'__job, { <log as ::asynq_runtime::__private::Checked>::OK }>",
            deserialize = "for<'__job> :: std :: string :: String: ::asynq_runtime::__private::Stored<'__job, { <log as ::asynq_runtime::__private::Checked>::OK }>"
        )
    )]
    b: ::std::string::String,
    /// Argument `c` of [`log()`].
    #[serde(
        bound(
            serialize = "for<'__job> Option < String >: ::asynq_runtime::__private::Stored<'__job, { <log as ::asynq_runtime::__private::Checked>::OK }>",
            deserialize = "for<'__job> Option < String >: ::asynq_runtime::__private::Stored<'__job, { <log as ::asynq_runtime::__private::Checked>::OK }>"
        )
    )]
    c: Option<String>,
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
impl log {
    /// This job with these arguments, ready for options of one enqueue, such as `.queue("low")`.
    ///
    /// Nothing is sent before `.enqueue(&client)`.
    fn job(
        a: impl ::asynq_runtime::__private::IntoText<String>,
        b: impl ::asynq_runtime::__private::IntoText<::std::string::String>,
        c: Option<String>,
    ) -> ::asynq_runtime::__private::JobBuilder<Self> {
        ::asynq_runtime::__private::JobBuilder::new(Self {
            a: ::asynq_runtime::__private::IntoText::into_text(a),
            b: ::asynq_runtime::__private::IntoText::into_text(b),
            c,
        })
    }
    /// Enqueues this job with the options declared on the function.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue(
        client: &::asynq_runtime::__private::Client,
        a: impl ::asynq_runtime::__private::IntoText<String>,
        b: impl ::asynq_runtime::__private::IntoText<::std::string::String>,
        c: Option<String>,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(a, b, c).enqueue(client)
    }
    /// Enqueues this job to run after a delay: a `Duration`, or text such as `"10m"`.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue_in(
        client: &::asynq_runtime::__private::Client,
        delay: impl ::asynq_runtime::__private::IntoSpan,
        a: impl ::asynq_runtime::__private::IntoText<String>,
        b: impl ::asynq_runtime::__private::IntoText<::std::string::String>,
        c: Option<String>,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(a, b, c).process_in(delay).enqueue(client)
    }
    /// Enqueues this job to run at a given time.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue_at(
        client: &::asynq_runtime::__private::Client,
        when: impl ::asynq_runtime::__private::IntoInstant,
        a: impl ::asynq_runtime::__private::IntoText<String>,
        b: impl ::asynq_runtime::__private::IntoText<::std::string::String>,
        c: Option<String>,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(a, b, c).process_at(when).enqueue(client)
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
    impl __rt::Checked for log {
        const OK: usize = {
            let () = <String as __rt::Argument>::FITS;
            let () = <::std::string::String as __rt::Argument>::FITS;
            let () = <Option<String> as __rt::Argument>::FITS;
            0
        };
    }
    impl __rt::Job for log {
        const NAME: &'static str = "log";
        type Output = JobResult;
        fn run(
            self,
            _ctx: &__rt::JobContext,
        ) -> impl __rt::Future<Output = Self::Output> + ::core::marker::Send {
            async move { log(self.a, self.b, self.c).await }
        }
    }
    __rt::inventory::submit! {
        __rt::JobDescriptor::of:: < log > (::core::file!(), ::core::line!())
    }
};
