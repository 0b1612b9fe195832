// #[job]
// async fn hello<T: Send>(name: T) -> JobResult
// where
//     T: Clone,
// {
//     Ok(())
// }

async fn hello<T: Send>(name: T) -> JobResult
where
    T: Clone,
{
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
#[derive(::asynq_runtime::__private::Serialize, ::asynq_runtime::__private::Deserialize)]
#[serde(crate = "::asynq_runtime::__private::serde")]
struct hello {}
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
    fn job(
        argument_0: impl ::core::marker::Sized,
    ) -> ::asynq_runtime::__private::JobBuilder<Self> {
        let _ = (argument_0,);
        ::core::unimplemented!()
    }
    /// Enqueues this job with the options declared on the function.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue(
        client: &::asynq_runtime::__private::Client,
        argument_0: impl ::core::marker::Sized,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(argument_0).enqueue(client)
    }
    /// Enqueues this job to run after a delay: a `Duration`, or text such as `"10m"`.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue_in(
        client: &::asynq_runtime::__private::Client,
        delay: impl ::asynq_runtime::__private::IntoSpan,
        argument_0: impl ::core::marker::Sized,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(argument_0).process_in(delay).enqueue(client)
    }
    /// Enqueues this job to run at a given time.
    ///
    /// # Errors
    ///
    /// When the task is a duplicate, an option or argument is not valid, or the broker cannot be reached.
    fn enqueue_at(
        client: &::asynq_runtime::__private::Client,
        when: impl ::asynq_runtime::__private::IntoInstant,
        argument_0: impl ::core::marker::Sized,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(argument_0).process_at(when).enqueue(client)
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
    impl __rt::Job for hello {
        const NAME: &'static str = "hello";
        type Output = __rt::JobResult<()>;
        async fn run(self, _ctx: &__rt::JobContext) -> Self::Output {
            ::core::unimplemented!()
        }
    }
};
::core::compile_error! {
    "a job has one name on the wire, so it cannot be generic; write a concrete wrapper"
}
::core::compile_error! {
    "a job has no type parameters, so it needs no `where`; leave it out"
}
