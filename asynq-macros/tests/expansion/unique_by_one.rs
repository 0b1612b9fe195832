// #[job(unique = "1d", unique_by = "to")]
// async fn greet(to: String, text: String) -> JobResult {
//     Ok(())
// }

async fn greet(to: String, text: String) -> JobResult {
    Ok(())
}
/// Job `greet` · unique for 1d · unique by `to`.
/// Runs [`greet()`].
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
struct greet {
    /// Argument `to` of [`greet()`].
    #[serde(
        bound(
            serialize = "for<'__job> String: ::asynq_runtime::__private::Stored<'__job, { <greet as ::asynq_runtime::__private::Checked>::OK }>",
            deserialize = "for<'__job> String: ::asynq_runtime::__private::Stored<'__job, { <greet as ::asynq_runtime::__private::Checked>::OK }>"
        )
    )]
    to: String,
    /// Argument `text` of [`greet()`].
    #[serde(
        bound(
            serialize = "for<'__job> String: ::asynq_runtime::__private::Stored<'__job, { <greet as ::asynq_runtime::__private::Checked>::OK }>",
            deserialize = "for<'__job> String: ::asynq_runtime::__private::Stored<'__job, { <greet as ::asynq_runtime::__private::Checked>::OK }>"
        )
    )]
    text: String,
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
impl greet {
    /// This job with these arguments, ready for options of one enqueue, such as `.queue("low")`.
    ///
    /// Nothing is sent before `.enqueue(&client)`.
    fn job(
        to: impl ::asynq_runtime::__private::IntoText<String>,
        text: impl ::asynq_runtime::__private::IntoText<String>,
    ) -> ::asynq_runtime::__private::JobBuilder<Self> {
        ::asynq_runtime::__private::JobBuilder::new(Self {
            to: ::asynq_runtime::__private::IntoText::into_text(to),
            text: ::asynq_runtime::__private::IntoText::into_text(text),
        })
    }
    /// Enqueues this job with the options declared on the function.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue(
        client: &::asynq_runtime::__private::Client,
        to: impl ::asynq_runtime::__private::IntoText<String>,
        text: impl ::asynq_runtime::__private::IntoText<String>,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(to, text).enqueue(client)
    }
    /// Enqueues this job to run after a delay: a `Duration`, or text such as `"10m"`.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue_in(
        client: &::asynq_runtime::__private::Client,
        delay: impl ::asynq_runtime::__private::IntoSpan,
        to: impl ::asynq_runtime::__private::IntoText<String>,
        text: impl ::asynq_runtime::__private::IntoText<String>,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(to, text).process_in(delay).enqueue(client)
    }
    /// Enqueues this job to run at a given time.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue_at(
        client: &::asynq_runtime::__private::Client,
        when: impl ::asynq_runtime::__private::IntoInstant,
        to: impl ::asynq_runtime::__private::IntoText<String>,
        text: impl ::asynq_runtime::__private::IntoText<String>,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(to, text).process_at(when).enqueue(client)
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
    impl __rt::Checked for greet {
        const OK: usize = {
            let () = <String as __rt::Argument>::FITS;
            let () = <String as __rt::Argument>::FITS;
            0
        };
    }
    impl __rt::Job for greet {
        const NAME: &'static str = "greet";
        const OPTIONS: __rt::JobOptions = __rt::JobOptions::new()
            .unique(__rt::Duration::from_secs(86400));
        type Output = JobResult;
        fn unique_by(
            &self,
        ) -> __rt::Option<__rt::Result<__rt::Bytes, __rt::CodecError>> {
            __rt::Option::Some(__rt::encode_key::<Self>(&(&self.to,)))
        }
        fn run(
            self,
            _ctx: &__rt::JobContext,
        ) -> impl __rt::Future<Output = Self::Output> + ::core::marker::Send {
            async move { greet(self.to, self.text).await }
        }
    }
    __rt::inventory::submit! {
        __rt::JobDescriptor::of:: < greet > (::core::file!(), ::core::line!())
    }
};
