// #[job(crate = ::jobs::inner)]
// async fn hello(state: State<Db>, name: &str) -> JobResult {
//     Ok(())
// }

async fn hello(state: State<Db>, name: &str) -> JobResult {
    Ok(())
}
/// Job `hello`.
/// Runs [`hello()`].
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
#[derive(::jobs::inner::__private::Serialize, ::jobs::inner::__private::Deserialize)]
#[serde(crate = "::jobs::inner::__private::serde")]
#[serde(transparent)]
struct hello {
    /// Argument `name` of [`hello()`].
    #[serde(
        bound(
            serialize = "for<'__job> :: jobs :: inner :: __private :: String: ::jobs::inner::__private::Stored<'__job, { <hello as ::jobs::inner::__private::Checked>::OK }>",
            deserialize = "for<'__job> :: jobs :: inner :: __private :: String: ::jobs::inner::__private::Stored<'__job, { <hello as ::jobs::inner::__private::Checked>::OK }>"
        )
    )]
    name: ::jobs::inner::__private::String,
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
impl hello {
    /// This job with these arguments, ready for options of one enqueue, such as `.queue("low")`.
    ///
    /// Nothing is sent before `.enqueue(&client)`.
    fn job(name: &str) -> ::jobs::inner::__private::JobBuilder<Self> {
        ::jobs::inner::__private::JobBuilder::new(Self {
            name: ::std::borrow::ToOwned::to_owned(name),
        })
    }
    /// Enqueues this job with the options declared on the function.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue(
        client: &::jobs::inner::__private::Client,
        name: &str,
    ) -> ::jobs::inner::__private::BoxFuture<
        'static,
        ::jobs::inner::__private::Result<
            ::jobs::inner::__private::Enqueued<Self>,
            ::jobs::inner::__private::EnqueueError,
        >,
    > {
        Self::job(name).enqueue(client)
    }
    /// Enqueues this job to run after a delay: a `Duration`, or text such as `"10m"`.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue_in(
        client: &::jobs::inner::__private::Client,
        delay: impl ::jobs::inner::__private::IntoSpan,
        name: &str,
    ) -> ::jobs::inner::__private::BoxFuture<
        'static,
        ::jobs::inner::__private::Result<
            ::jobs::inner::__private::Enqueued<Self>,
            ::jobs::inner::__private::EnqueueError,
        >,
    > {
        Self::job(name).process_in(delay).enqueue(client)
    }
    /// Enqueues this job to run at a given time.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue_at(
        client: &::jobs::inner::__private::Client,
        when: impl ::jobs::inner::__private::IntoInstant,
        name: &str,
    ) -> ::jobs::inner::__private::BoxFuture<
        'static,
        ::jobs::inner::__private::Result<
            ::jobs::inner::__private::Enqueued<Self>,
            ::jobs::inner::__private::EnqueueError,
        >,
    > {
        Self::job(name).process_at(when).enqueue(client)
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
    use ::jobs::inner::__private as __rt;
    impl __rt::Checked for hello {
        const OK: usize = {
            let () = <__rt::String as __rt::Argument>::FITS;
            let _ = <State<Db> as __rt::FromContext>::REQUIRES;
            let () = <JobResult as __rt::IntoJobResult>::FITS;
            0
        };
    }
    impl __rt::Job for hello {
        const NAME: &'static str = "hello";
        const REQUIRES: &'static [__rt::StateKey] = &[__rt::StateKey::of::<Db>()];
        const ARGUMENT: __rt::Option<&'static str> = __rt::Option::Some("name");
        type Output = __rt::JobResult<
            <JobResult as __rt::Returned<{ <hello as __rt::Checked>::OK }>>::Value,
        >;
        fn run(
            self,
            ctx: &__rt::JobContext,
        ) -> impl __rt::Future<Output = Self::Output> + ::core::marker::Send {
            async move {
                <JobResult as __rt::Returned<
                    { <hello as __rt::Checked>::OK },
                >>::into_job_result(
                    hello(
                            <State<
                                Db,
                            > as __rt::Supplied<
                                { <hello as __rt::Checked>::OK },
                            >>::from_context(ctx)
                                .await?,
                            &self.name,
                        )
                        .await,
                )
            }
        }
    }
    __rt::inventory::submit! {
        __rt::JobDescriptor::of:: < hello > (::core::file!(), ::core::line!())
    }
};
