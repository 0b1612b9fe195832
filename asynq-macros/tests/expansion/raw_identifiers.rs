// #[job(unique = "5m", unique_by = "type")]
// async fn r#match(r#type: u8, value: u8) -> JobResult {
//     Ok(())
// }

async fn r#match(r#type: u8, value: u8) -> JobResult {
    Ok(())
}
/// Job `match` · unique for 5m · unique by `type`.
/// Runs `match()`.
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
struct r#match {
    /// Argument `type` of `match()`.
    #[serde(
        bound(
            serialize = "for<'__job> u8: ::asynq_runtime::__private::Stored<'__job, { <r#match as ::asynq_runtime::__private::Checked>::OK }>",
            deserialize = "for<'__job> u8: ::asynq_runtime::__private::Stored<'__job, { <r#match as ::asynq_runtime::__private::Checked>::OK }>"
        )
    )]
    r#type: u8,
    /// Argument `value` of `match()`.
    #[serde(
        bound(
            serialize = "for<'__job> u8: ::asynq_runtime::__private::Stored<'__job, { <r#match as ::asynq_runtime::__private::Checked>::OK }>",
            deserialize = "for<'__job> u8: ::asynq_runtime::__private::Stored<'__job, { <r#match as ::asynq_runtime::__private::Checked>::OK }>"
        )
    )]
    value: u8,
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
impl r#match {
    /// This job with these arguments, ready for options of one enqueue, such as `.queue("low")`.
    ///
    /// Nothing is sent before `.enqueue(&client)`.
    fn job(r#type: u8, value: u8) -> ::asynq_runtime::__private::JobBuilder<Self> {
        ::asynq_runtime::__private::JobBuilder::new(Self { r#type, value })
    }
    /// Enqueues this job with the options declared on the function.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue(
        client: &::asynq_runtime::__private::Client,
        r#type: u8,
        value: u8,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(r#type, value).enqueue(client)
    }
    /// Enqueues this job to run after a delay: a `Duration`, or text such as `"10m"`.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue_in(
        client: &::asynq_runtime::__private::Client,
        delay: impl ::asynq_runtime::__private::IntoSpan,
        r#type: u8,
        value: u8,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(r#type, value).process_in(delay).enqueue(client)
    }
    /// Enqueues this job to run at a given time.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue_at(
        client: &::asynq_runtime::__private::Client,
        when: impl ::asynq_runtime::__private::IntoInstant,
        r#type: u8,
        value: u8,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(r#type, value).process_at(when).enqueue(client)
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
    impl __rt::Checked for r#match {
        const OK: usize = {
            let () = <u8 as __rt::Argument>::FITS;
            let () = <u8 as __rt::Argument>::FITS;
            0
        };
    }
    impl __rt::Job for r#match {
        const NAME: &'static str = "match";
        const OPTIONS: __rt::JobOptions = __rt::JobOptions::new()
            .unique(__rt::Duration::from_secs(300));
        type Output = JobResult;
        fn unique_by(
            &self,
        ) -> __rt::Option<__rt::Result<__rt::Bytes, __rt::CodecError>> {
            __rt::Option::Some(__rt::encode_key::<Self>(&(&self.r#type,)))
        }
        fn run(
            self,
            _ctx: &__rt::JobContext,
        ) -> impl __rt::Future<Output = Self::Output> + ::core::marker::Send {
            async move { r#match(self.r#type, self.value).await }
        }
    }
    __rt::inventory::submit! {
        __rt::JobDescriptor::of:: < r#match > (::core::file!(), ::core::line!())
    }
};
