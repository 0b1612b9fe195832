// #[job]
// async fn archive(to: &str, tags: &[Tag], order: &Order, file: &Path) -> JobResult {
//     Ok(())
// }

async fn archive(to: &str, tags: &[Tag], order: &Order, file: &Path) -> JobResult {
    Ok(())
}
/// Job `archive`.
/// Runs [`archive()`].
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
struct archive {
    /// Argument `to` of [`archive()`].
    #[serde(
        bound(
            serialize = "for<'__job> :: asynq_runtime :: __private :: String: ::asynq_runtime::__private::Stored<'__job, { <archive as ::asynq_runtime::__private::Checked>::OK }>",
            deserialize = "for<'__job> :: asynq_runtime :: __private :: String: ::asynq_runtime::__private::Stored<'__job, { <archive as ::asynq_runtime::__private::Checked>::OK }>"
        )
    )]
    to: ::asynq_runtime::__private::String,
    /// Argument `tags` of [`archive()`].
    #[serde(
        bound(
            serialize = "for<'__job> :: asynq_runtime :: __private :: Vec < Tag >: ::asynq_runtime::__private::Stored<'__job, { <archive as ::asynq_runtime::__private::Checked>::OK }>",
            deserialize = "for<'__job> :: asynq_runtime :: __private :: Vec < Tag >: ::asynq_runtime::__private::Stored<'__job, { <archive as ::asynq_runtime::__private::Checked>::OK }>"
        )
    )]
    tags: ::asynq_runtime::__private::Vec<Tag>,
    /// Argument `order` of [`archive()`].
    #[serde(
        bound(
            serialize = "for<'__job> Order: ::asynq_runtime::__private::Stored<'__job, { <archive as ::asynq_runtime::__private::Checked>::OK }>",
            deserialize = "for<'__job> Order: ::asynq_runtime::__private::Stored<'__job, { <archive as ::asynq_runtime::__private::Checked>::OK }>"
        )
    )]
    order: Order,
    /// Argument `file` of [`archive()`].
    #[serde(
        bound(
            serialize = "for<'__job> < Path as :: std :: borrow :: ToOwned > :: Owned: ::asynq_runtime::__private::Stored<'__job, { <archive as ::asynq_runtime::__private::Checked>::OK }>",
            deserialize = "for<'__job> < Path as :: std :: borrow :: ToOwned > :: Owned: ::asynq_runtime::__private::Stored<'__job, { <archive as ::asynq_runtime::__private::Checked>::OK }>"
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
impl archive {
    /// This job with these arguments, ready for options of one enqueue, such as `.queue("low")`.
    ///
    /// Nothing is sent before `.enqueue(&client)`.
    fn job(
        to: &str,
        tags: &[Tag],
        order: &Order,
        file: &Path,
    ) -> ::asynq_runtime::__private::JobBuilder<Self> {
        ::asynq_runtime::__private::JobBuilder::new(Self {
            to: ::std::borrow::ToOwned::to_owned(to),
            tags: ::std::borrow::ToOwned::to_owned(tags),
            order: <Order as ::core::clone::Clone>::clone(order),
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
        to: &str,
        tags: &[Tag],
        order: &Order,
        file: &Path,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(to, tags, order, file).enqueue(client)
    }
    /// Enqueues this job to run after a delay: a `Duration`, or text such as `"10m"`.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue_in(
        client: &::asynq_runtime::__private::Client,
        delay: impl ::asynq_runtime::__private::IntoSpan,
        to: &str,
        tags: &[Tag],
        order: &Order,
        file: &Path,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(to, tags, order, file).process_in(delay).enqueue(client)
    }
    /// Enqueues this job to run at a given time.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue_at(
        client: &::asynq_runtime::__private::Client,
        when: impl ::asynq_runtime::__private::IntoInstant,
        to: &str,
        tags: &[Tag],
        order: &Order,
        file: &Path,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(to, tags, order, file).process_at(when).enqueue(client)
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
    impl __rt::Checked for archive {
        const OK: usize = {
            let () = <__rt::String as __rt::Argument>::FITS;
            let () = <__rt::Vec<Tag> as __rt::Argument>::FITS;
            let () = <Order as __rt::Argument>::FITS;
            let () = <<Path as ::std::borrow::ToOwned>::Owned as __rt::Argument>::FITS;
            0
        };
    }
    impl __rt::Job for archive {
        const NAME: &'static str = "archive";
        type Output = JobResult;
        fn run(
            self,
            _ctx: &__rt::JobContext,
        ) -> impl __rt::Future<Output = Self::Output> + ::core::marker::Send {
            async move { archive(&self.to, &self.tags, &self.order, &self.file).await }
        }
    }
    __rt::inventory::submit! {
        __rt::JobDescriptor::of:: < archive > (::core::file!(), ::core::line!())
    }
};
