// #[job(
//     queue = "critical",
//     retry = 5,
//     timeout = "3m",
//     deadline = "1h30m",
//     expires = "1h500ms",
//     unique = "1h",
//     unique_by = "to, campaign",
//     unique_until = "success",
//     unique_extend = true,
//     group = "mails",
//     backoff = "exponential(500ms, 10m)",
//     retention = "7d",
//     name = "email:send",
//     alias = ["send_mail", "mail"],
//     upgrade = [old::from_v1, from_v2],
//     codec = "postcard",
//     fingerprint = "v2",
//     on_error = policies::mail,
//     on_archive = gave_up,
//     max_crashes = 3,
// )]
// async fn send_email(to: String, campaign: u64, subject: String) -> Result<(), MailError> {
//     todo!()
// }

async fn send_email(
    to: String,
    campaign: u64,
    subject: String,
) -> Result<(), MailError> {
    todo!()
}
/// Job `email:send` · queue `critical` · up to 5 retries · times out after 3m · to be done within 1h30m of the enqueue · expires 1h500ms after the enqueue · waits in group `mails` to be aggregated · unique for 1h · unique until it succeeds · unique as long as it runs · kept for 7d · archived at crash 3 · unique by `to` and `campaign` · backs off exponential(500ms, 10m).
/// Runs [`send_email()`].
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
struct send_email {
    /// Argument `to` of [`send_email()`].
    #[serde(
        bound(
            serialize = "for<'__job> String: ::asynq_runtime::__private::Stored<'__job, { <send_email as ::asynq_runtime::__private::Checked>::OK }>",
            deserialize = "for<'__job> String: ::asynq_runtime::__private::Stored<'__job, { <send_email as ::asynq_runtime::__private::Checked>::OK }>"
        )
    )]
    to: String,
    /// Argument `campaign` of [`send_email()`].
    #[serde(
        bound(
            serialize = "for<'__job> u64: ::asynq_runtime::__private::Stored<'__job, { <send_email as ::asynq_runtime::__private::Checked>::OK }>",
            deserialize = "for<'__job> u64: ::asynq_runtime::__private::Stored<'__job, { <send_email as ::asynq_runtime::__private::Checked>::OK }>"
        )
    )]
    campaign: u64,
    /// Argument `subject` of [`send_email()`].
    #[serde(
        bound(
            serialize = "for<'__job> String: ::asynq_runtime::__private::Stored<'__job, { <send_email as ::asynq_runtime::__private::Checked>::OK }>",
            deserialize = "for<'__job> String: ::asynq_runtime::__private::Stored<'__job, { <send_email as ::asynq_runtime::__private::Checked>::OK }>"
        )
    )]
    subject: String,
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
impl send_email {
    /// This job with these arguments, ready for options of one enqueue, such as `.queue("low")`.
    ///
    /// Nothing is sent before `.enqueue(&client)`.
    fn job(
        to: impl ::asynq_runtime::__private::IntoText<String>,
        campaign: u64,
        subject: impl ::asynq_runtime::__private::IntoText<String>,
    ) -> ::asynq_runtime::__private::JobBuilder<Self> {
        ::asynq_runtime::__private::JobBuilder::new(Self {
            to: ::asynq_runtime::__private::IntoText::into_text(to),
            campaign,
            subject: ::asynq_runtime::__private::IntoText::into_text(subject),
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
        campaign: u64,
        subject: impl ::asynq_runtime::__private::IntoText<String>,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(to, campaign, subject).enqueue(client)
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
        campaign: u64,
        subject: impl ::asynq_runtime::__private::IntoText<String>,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(to, campaign, subject).process_in(delay).enqueue(client)
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
        campaign: u64,
        subject: impl ::asynq_runtime::__private::IntoText<String>,
    ) -> ::asynq_runtime::__private::BoxFuture<
        'static,
        ::asynq_runtime::__private::Result<
            ::asynq_runtime::__private::Enqueued<Self>,
            ::asynq_runtime::__private::EnqueueError,
        >,
    > {
        Self::job(to, campaign, subject).process_at(when).enqueue(client)
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
    impl __rt::Checked for send_email {
        const OK: usize = {
            let () = <String as __rt::Argument>::FITS;
            let () = <u64 as __rt::Argument>::FITS;
            let () = <String as __rt::Argument>::FITS;
            let () = <Result<(), MailError> as __rt::IntoJobResult>::FITS;
            0
        };
    }
    impl __rt::Job for send_email {
        const NAME: &'static str = "email:send";
        const OPTIONS: __rt::JobOptions = __rt::JobOptions::new()
            .queue("critical")
            .retry(5)
            .timeout(__rt::Duration::from_secs(180))
            .deadline(__rt::Duration::from_secs(5400))
            .expires(__rt::Duration::from_millis(3600500))
            .group("mails")
            .unique(__rt::Duration::from_secs(3600))
            .unique_until(__rt::UniqueUntil::Success)
            .unique_extend()
            .retention(__rt::Duration::from_secs(604800))
            .max_crashes(3);
        const FINGERPRINT: __rt::Option<&'static str> = __rt::Option::Some("v2");
        const ALIASES: &'static [&'static str] = &["send_mail", "mail"];
        const UPGRADES: &'static [__rt::Upgrade<Self>] = &[
            __rt::Upgrade::new(|earlier| {
                let upgrade: fn(_) -> Self = old::from_v1;
                earlier.through(upgrade)
            }),
            __rt::Upgrade::new(|earlier| {
                let upgrade: fn(_) -> Self = from_v2;
                earlier.through(upgrade)
            }),
        ];
        const BACKOFF: __rt::Option<__rt::Backoff> = __rt::Option::Some(
            __rt::Backoff::exponential(
                __rt::Duration::from_millis(500),
                __rt::Duration::from_secs(600),
            ),
        );
        const ON_ARCHIVE: __rt::Option<__rt::OnArchive<Self>> = __rt::Option::Some(
            __rt::OnArchive::new(|task| task.tell(gave_up)),
        );
        type Output = __rt::JobResult<
            <Result<
                (),
                MailError,
            > as __rt::Returned<{ <send_email as __rt::Checked>::OK }>>::Value,
        >;
        fn unique_by(
            &self,
        ) -> __rt::Option<__rt::Result<__rt::Bytes, __rt::CodecError>> {
            __rt::Option::Some(__rt::encode_key::<Self>(&(&self.to, &self.campaign)))
        }
        fn run(
            self,
            _ctx: &__rt::JobContext,
        ) -> impl __rt::Future<Output = Self::Output> + ::core::marker::Send {
            async move {
                __rt::OnError {
                    result: send_email(self.to, self.campaign, self.subject).await,
                    policy: policies::mail,
                }
                    .into_job_result::<{ <send_email as __rt::Checked>::OK }>()
            }
        }
    }
    __rt::inventory::submit! {
        __rt::JobDescriptor::of:: < send_email > (::core::file!(), ::core::line!())
    }
};
