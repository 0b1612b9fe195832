// #[job(on_error = PayError::policy)]
// fn pay(cents: u64) -> Result<Receipt, PayError> {
//     charge(cents)
// }

fn pay(cents: u64) -> Result<Receipt, PayError> {
    charge(cents)
}
/// Job `pay`.
/// Runs [`pay()`].
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
struct pay {
    /// Argument `cents` of [`pay()`].
    #[serde(
        bound(
            serialize = "for<'__job> u64: ::asynq_runtime::__private::Stored<'__job, { <pay as ::asynq_runtime::__private::Checked>::OK }>",
            deserialize = "for<'__job> u64: ::asynq_runtime::__private::Stored<'__job, { <pay as ::asynq_runtime::__private::Checked>::OK }>"
        )
    )]
    cents: u64,
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
impl pay {
    /// This job with these arguments, ready for options of one enqueue, such as `.queue("low")`.
    ///
    /// Nothing is sent before `.enqueue(&client)`.
    fn job(cents: u64) -> ::asynq_runtime::__private::JobBuilder<Self> {
        ::asynq_runtime::__private::JobBuilder::new(Self { cents })
    }
    /// Enqueues this job with the options declared on the function.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue(
        client: &::asynq_runtime::__private::Client,
        cents: u64,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(cents).enqueue(client)
    }
    /// Enqueues this job to run after a delay: a `Duration`, or text such as `"10m"`.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue_in(
        client: &::asynq_runtime::__private::Client,
        delay: impl ::asynq_runtime::__private::IntoSpan,
        cents: u64,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(cents).process_in(delay).enqueue(client)
    }
    /// Enqueues this job to run at a given time.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue_at(
        client: &::asynq_runtime::__private::Client,
        when: impl ::asynq_runtime::__private::IntoInstant,
        cents: u64,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(cents).process_at(when).enqueue(client)
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
    impl __rt::Checked for pay {
        const OK: usize = {
            let () = <u64 as __rt::Argument>::FITS;
            let () = <Result<Receipt, PayError> as __rt::IntoJobResult>::FITS;
            0
        };
    }
    impl __rt::Job for pay {
        const NAME: &'static str = "pay";
        const ARGUMENT: __rt::Option<&'static str> = __rt::Option::Some("cents");
        type Output = __rt::JobResult<
            <Result<
                Receipt,
                PayError,
            > as __rt::Returned<{ <pay as __rt::Checked>::OK }>>::Value,
        >;
        fn run(
            self,
            ctx: &__rt::JobContext,
        ) -> impl __rt::Future<Output = Self::Output> + ::core::marker::Send {
            async move {
                __rt::run_blocking(
                        ctx,
                        move |_| {
                            __rt::OnError {
                                result: pay(self.cents),
                                policy: PayError::policy,
                            }
                                .into_job_result::<{ <pay as __rt::Checked>::OK }>()
                        },
                    )
                    .await
            }
        }
    }
    __rt::inventory::submit! {
        __rt::JobDescriptor::of:: < pay > (::core::file!(), ::core::line!())
    }
};
