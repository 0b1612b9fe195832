// #[job(retry = 3)]
// pub async fn deliver(ctx: &JobContext, mailer: State<Mailer>, to: &str, pool: runtime::State<Pool>) -> JobResult {
//     mailer.send(to).await
// }

pub async fn deliver(
    ctx: &JobContext,
    mailer: State<Mailer>,
    to: &str,
    pool: runtime::State<Pool>,
) -> JobResult {
    mailer.send(to).await
}
/// Job `deliver` · up to 3 retries.
/// Runs [`deliver()`].
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
pub struct deliver {
    /// Argument `to` of [`deliver()`].
    #[serde(
        bound(
            serialize = "for<'__job> :: asynq_runtime :: __private :: String: ::asynq_runtime::__private::Stored<'__job, { <deliver as ::asynq_runtime::__private::Checked>::OK }>",
            deserialize = "for<'__job> :: asynq_runtime :: __private :: String: ::asynq_runtime::__private::Stored<'__job, { <deliver as ::asynq_runtime::__private::Checked>::OK }>"
        )
    )]
    pub to: ::asynq_runtime::__private::String,
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
impl deliver {
    /// This job with these arguments, ready for options of one enqueue, such as `.queue("low")`.
    ///
    /// Nothing is sent before `.enqueue(&client)`.
    pub fn job(to: &str) -> ::asynq_runtime::__private::JobBuilder<Self> {
        ::asynq_runtime::__private::JobBuilder::new(Self {
            to: ::std::borrow::ToOwned::to_owned(to),
        })
    }
    /// Enqueues this job with the options declared on the function.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    pub fn enqueue(
        client: &::asynq_runtime::__private::Client,
        to: &str,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(to).enqueue(client)
    }
    /// Enqueues this job to run after a delay: a `Duration`, or text such as `"10m"`.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    pub fn enqueue_in(
        client: &::asynq_runtime::__private::Client,
        delay: impl ::asynq_runtime::__private::IntoSpan,
        to: &str,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(to).process_in(delay).enqueue(client)
    }
    /// Enqueues this job to run at a given time.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    pub fn enqueue_at(
        client: &::asynq_runtime::__private::Client,
        when: impl ::asynq_runtime::__private::IntoInstant,
        to: &str,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(to).process_at(when).enqueue(client)
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
    impl __rt::Checked for deliver {
        const OK: usize = {
            let () = <__rt::String as __rt::Argument>::FITS;
            let _ = <State<Mailer> as __rt::FromContext>::REQUIRES;
            let _ = <runtime::State<Pool> as __rt::FromContext>::REQUIRES;
            let () = <JobResult as __rt::IntoJobResult>::FITS;
            0
        };
    }
    impl __rt::Job for deliver {
        const NAME: &'static str = "deliver";
        const OPTIONS: __rt::JobOptions = __rt::JobOptions::new().retry(3);
        const REQUIRES: &'static [__rt::StateKey] = &[
            __rt::StateKey::of::<Mailer>(),
            __rt::StateKey::of::<Pool>(),
        ];
        const ARGUMENT: __rt::Option<&'static str> = __rt::Option::Some("to");
        type Output = __rt::JobResult<
            <JobResult as __rt::Returned<{ <deliver as __rt::Checked>::OK }>>::Value,
        >;
        fn run(
            self,
            ctx: &__rt::JobContext,
        ) -> impl __rt::Future<Output = Self::Output> + ::core::marker::Send {
            async move {
                <JobResult as __rt::Returned<
                    { <deliver as __rt::Checked>::OK },
                >>::into_job_result(
                    deliver(
                            ctx,
                            <State<
                                Mailer,
                            > as __rt::Supplied<
                                { <deliver as __rt::Checked>::OK },
                            >>::from_context(ctx)
                                .await?,
                            &self.to,
                            <runtime::State<
                                Pool,
                            > as __rt::Supplied<
                                { <deliver as __rt::Checked>::OK },
                            >>::from_context(ctx)
                                .await?,
                        )
                        .await,
                )
            }
        }
    }
    __rt::inventory::submit! {
        __rt::JobDescriptor::of:: < deliver > (::core::file!(), ::core::line!())
    }
};
