// #[job(aggregates = mails::note)]
// async fn digest(ctx: &JobContext, notes: Vec<mails::note>, mailer: State<Mailer>) -> JobResult {
//     mailer.send(ctx.group(), &notes).await
// }

async fn digest(
    ctx: &JobContext,
    notes: Vec<mails::note>,
    mailer: State<Mailer>,
) -> JobResult {
    mailer.send(ctx.group(), &notes).await
}
/// Job `digest` · made of many `note`.
/// Runs [`digest()`].
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
struct digest {
    /// Argument `notes` of [`digest()`].
    #[serde(
        bound(
            serialize = "for<'__job> Vec < mails :: note >: ::asynq_runtime::__private::Stored<'__job, { <digest as ::asynq_runtime::__private::Checked>::OK }>",
            deserialize = "for<'__job> Vec < mails :: note >: ::asynq_runtime::__private::Stored<'__job, { <digest as ::asynq_runtime::__private::Checked>::OK }>"
        )
    )]
    notes: Vec<mails::note>,
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
impl digest {
    /// This job with these arguments, ready for options of one enqueue, such as `.queue("low")`.
    ///
    /// Nothing is sent before `.enqueue(&client)`.
    fn job(notes: Vec<mails::note>) -> ::asynq_runtime::__private::JobBuilder<Self> {
        ::asynq_runtime::__private::JobBuilder::new(Self { notes })
    }
    /// Enqueues this job with the options declared on the function.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue(
        client: &::asynq_runtime::__private::Client,
        notes: Vec<mails::note>,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(notes).enqueue(client)
    }
    /// Enqueues this job to run after a delay: a `Duration`, or text such as `"10m"`.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue_in(
        client: &::asynq_runtime::__private::Client,
        delay: impl ::asynq_runtime::__private::IntoSpan,
        notes: Vec<mails::note>,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(notes).process_in(delay).enqueue(client)
    }
    /// Enqueues this job to run at a given time.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue_at(
        client: &::asynq_runtime::__private::Client,
        when: impl ::asynq_runtime::__private::IntoInstant,
        notes: Vec<mails::note>,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(notes).process_at(when).enqueue(client)
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
    impl __rt::Checked for digest {
        const OK: usize = {
            let () = <Vec<mails::note> as __rt::Argument>::FITS;
            let _ = <State<Mailer> as __rt::FromContext>::REQUIRES;
            let () = <mails::note as __rt::Part>::FITS;
            let () = <JobResult as __rt::IntoJobResult>::FITS;
            0
        };
    }
    impl __rt::Job for digest {
        const NAME: &'static str = "digest";
        const REQUIRES: &'static [__rt::StateKey] = &[__rt::StateKey::of::<Mailer>()];
        const ARGUMENT: __rt::Option<&'static str> = __rt::Option::Some("notes");
        type Output = __rt::JobResult<
            <JobResult as __rt::Returned<{ <digest as __rt::Checked>::OK }>>::Value,
        >;
        fn run(
            self,
            ctx: &__rt::JobContext,
        ) -> impl __rt::Future<Output = Self::Output> + ::core::marker::Send {
            async move {
                <JobResult as __rt::Returned<
                    { <digest as __rt::Checked>::OK },
                >>::into_job_result(
                    digest(
                            ctx,
                            self.notes,
                            <State<
                                Mailer,
                            > as __rt::Supplied<
                                { <digest as __rt::Checked>::OK },
                            >>::from_context(ctx)
                                .await?,
                        )
                        .await,
                )
            }
        }
    }
    __rt::inventory::submit! {
        __rt::JobDescriptor::of:: < digest > (::core::file!(), ::core::line!())
    }
    impl __rt::Aggregates for digest {
        type Of = <mails::note as __rt::PartOf<{ <digest as __rt::Checked>::OK }>>::Job;
        fn aggregate(tasks: __rt::Vec<mails::note>) -> Self {
            Self { notes: tasks }
        }
    }
    __rt::inventory::submit! {
        __rt::Aggregation::of:: < digest > (::core::file!(), ::core::line!())
    }
};
