// /// Old.
// #[job]
// #[cfg(feature = "mail")]
// #[deprecated = "use `new`"]
// #[allow(clippy::too_many_lines)]
// #[tracing::instrument(skip_all)]
// #[inline]
// pub async fn old(
//     /// The receiver.
//     to: String,
//     #[serde(default, rename = "Retries")]
//     #[allow(unused)]
//     retries: u8,
// ) -> JobResult {
//     Ok(())
// }

/// Old.
#[cfg(feature = "mail")]
#[deprecated = "use `new`"]
#[allow(clippy::too_many_lines)]
#[tracing::instrument(skip_all)]
#[inline]
pub async fn old(to: String, #[allow(unused)] retries: u8) -> JobResult {
    Ok(())
}
#[cfg(feature = "mail")]
#[allow(clippy::too_many_lines)]
/// Old.
#[deprecated = "use `new`"]
///
/// Job `old`.
/// Runs [`old()`].
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
pub struct old {
    /// The receiver.
    #[serde(
        bound(
            serialize = "for<'__job> String: ::asynq_runtime::__private::Stored<'__job, { <old as ::asynq_runtime::__private::Checked>::OK }>",
            deserialize = "for<'__job> String: ::asynq_runtime::__private::Stored<'__job, { <old as ::asynq_runtime::__private::Checked>::OK }>"
        )
    )]
    pub to: String,
    /// Argument `retries` of [`old()`].
    #[serde(default, rename = "Retries")]
    #[serde(
        bound(
            serialize = "for<'__job> u8: ::asynq_runtime::__private::Stored<'__job, { <old as ::asynq_runtime::__private::Checked>::OK }>",
            deserialize = "for<'__job> u8: ::asynq_runtime::__private::Stored<'__job, { <old as ::asynq_runtime::__private::Checked>::OK }>"
        )
    )]
    pub retries: u8,
}
#[cfg(feature = "mail")]
#[allow(clippy::too_many_lines)]
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
impl old {
    /// This job with these arguments, ready for options of one enqueue, such as `.queue("low")`.
    ///
    /// Nothing is sent before `.enqueue(&client)`.
    pub fn job(
        to: impl ::asynq_runtime::__private::IntoText<String>,
        retries: u8,
    ) -> ::asynq_runtime::__private::JobBuilder<Self> {
        ::asynq_runtime::__private::JobBuilder::new(Self {
            to: ::asynq_runtime::__private::IntoText::into_text(to),
            retries,
        })
    }
    /// Enqueues this job with the options declared on the function.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    pub fn enqueue(
        client: &::asynq_runtime::__private::Client,
        to: impl ::asynq_runtime::__private::IntoText<String>,
        retries: u8,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(to, retries).enqueue(client)
    }
    /// Enqueues this job to run after a delay: a `Duration`, or text such as `"10m"`.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    pub fn enqueue_in(
        client: &::asynq_runtime::__private::Client,
        delay: impl ::asynq_runtime::__private::IntoSpan,
        to: impl ::asynq_runtime::__private::IntoText<String>,
        retries: u8,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(to, retries).process_in(delay).enqueue(client)
    }
    /// Enqueues this job to run at a given time.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    pub fn enqueue_at(
        client: &::asynq_runtime::__private::Client,
        when: impl ::asynq_runtime::__private::IntoInstant,
        to: impl ::asynq_runtime::__private::IntoText<String>,
        retries: u8,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(to, retries).process_at(when).enqueue(client)
    }
}
#[cfg(feature = "mail")]
#[allow(clippy::too_many_lines)]
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
    impl __rt::Checked for old {
        const OK: usize = {
            let () = <String as __rt::Argument>::FITS;
            let () = <u8 as __rt::Argument>::FITS;
            0
        };
    }
    impl __rt::Job for old {
        const NAME: &'static str = "old";
        type Output = JobResult;
        fn run(
            self,
            _ctx: &__rt::JobContext,
        ) -> impl __rt::Future<Output = Self::Output> + ::core::marker::Send {
            async move { old(self.to, self.retries).await }
        }
    }
    __rt::inventory::submit! {
        __rt::JobDescriptor::of:: < old > (::core::file!(), ::core::line!())
    }
};
