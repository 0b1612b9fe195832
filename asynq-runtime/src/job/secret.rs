//! An argument that is not shown.

use std::{cell::Cell, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, Visitor},
};

use super::shape::{HIDDEN, of_type};

/// An argument that is not shown in the logs, the errors and the dashboard of the program that has the job: a token, a
/// password.
///
/// ```
/// use asynq_runtime::prelude::*;
///
/// #[job(codec = "json")]
/// async fn import(account: String, token: Secret<String>) -> JobResult {
///     fetch(&account, token.expose()).await
/// }
/// # async fn fetch(_: &str, _: &str) -> JobResult { Ok(()) }
/// # fn main() -> Result<(), BoxError> {
///
/// let job = import { account: "ann".into(), token: Secret::new("t0k3n".into()) };
/// assert_eq!(serde_json::to_string(&job)?, r#"{"account":"ann","token":"t0k3n"}"#);
/// assert_eq!(format!("{}, {:?}", job.token, job.token), "***, ***");
/// # Ok(())
/// # }
/// ```
///
/// On the wire a secret is exactly its value, in JSON as in postcard, and the fingerprint of the arguments is the same with
/// and without it: Go programs read and write it, and an argument can become a secret while tasks wait. It is hidden where a
/// program shows arguments: `Debug` and `Display`, [`JobDescriptor::show`](crate::JobDescriptor::show) and so the dashboard of
/// a worker, and errors about arguments that cannot be read. With the default codec `asynq` and a dashboard that does not know
/// the job hide it too, by the shape that the broker keeps.
///
/// A secret is **not** encrypted, and not hidden from
///
/// - a person or program that can read the broker: the payload holds the value itself, as do files and backups of SQLite and Redis;
/// - tools that do not know the job's type, such as asynqmon and the Go command line, and with JSON `asynq` on its own: they
///   show the payload as it is;
/// - your own `serde_json::to_string(&job)`, which is the wire form;
/// - error texts and log lines of your job that print the [exposed](Self::expose) value;
/// - memory dumps: the value is not overwritten when it is dropped.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Hides `value`.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// Returns the value itself.
    #[doc(alias("expose_secret", "reveal"))]
    pub const fn expose(&self) -> &T {
        &self.0
    }

    /// Returns the value and consumes the secret.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> From<T> for Secret<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl<T> fmt::Display for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl<T: Serialize> Serialize for Secret<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if HIDES_SECRETS.get() { serializer.serialize_str(HIDDEN) } else { self.0.serialize(serializer) }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Secret<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The error of the type itself may quote the value.
        let hidden = |_| D::Error::custom("a secret has a value that its type does not take");
        if !of_type::RECORDING.get() {
            return T::deserialize(deserializer).map(Self).map_err(hidden);
        }
        deserializer.deserialize_newtype_struct(of_type::SECRET, SecretVisitor(PhantomData)).map(Self).map_err(hidden)
    }
}

/// Reports to the recorder that a secret stands here.
struct SecretVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for SecretVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a secret")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        T::deserialize(deserializer)
    }
}

thread_local! {
    /// Whether this thread serialises for people now.
    static HIDES_SECRETS: Cell<bool> = const { Cell::new(false) };
}

/// Serialises a value for people: secrets in it are hidden.
pub(super) fn for_people<T>(serialise: impl FnOnce() -> T) -> T {
    /// Restores the flag, also when the code of the program panics.
    struct Before(bool);

    impl Drop for Before {
        fn drop(&mut self) {
            HIDES_SECRETS.set(self.0);
        }
    }

    let _before = Before(HIDES_SECRETS.replace(true));
    serialise()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        job::{Codec, Fingerprint, Job, JobContext, JobDescriptor, PreparedTask, decode_arguments},
        prelude::JobResult,
    };

    const CANARY: &str = "canary-7f3a";

    macro_rules! jobs {
        ($($job:ident $name:literal $codec:ident $token:ty;)*) => {$(
            #[derive(Debug, Serialize, Deserialize)]
            struct $job { account: String, token: $token }

            impl Job for $job {
                const NAME: &'static str = $name;
                const CODEC: Codec = Codec::$codec;
                type Output = JobResult;
                async fn run(self, _: &JobContext) -> JobResult {
                    Ok(())
                }
            }
        )*};
    }

    jobs! {
        Compact "compact" Postcard Secret<String>;
        CompactOpen "compact" Postcard String;
        Json "json" Json Secret<String>;
        JsonOpen "json" Json String;
        Number "number" Json Secret<u32>;
        Deep "deep" Json Option<Vec<Secret<Choice>>>;
        DeepOpen "deep" Json Option<Vec<Choice>>;
    }

    #[derive(Debug, Serialize, Deserialize)]
    enum Choice {
        One,
        Two(String),
    }

    fn account() -> String {
        "ann".into()
    }

    fn payload(job: impl Job) -> Vec<u8> {
        PreparedTask::from(job).payload().to_vec()
    }

    #[test]
    fn on_the_wire_it_is_its_value_and_the_fingerprint_is_the_same() {
        let token = || CANARY.to_owned();
        assert_eq!(
            payload(Compact { account: account(), token: token().into() }),
            payload(CompactOpen { account: account(), token: token() })
        );
        assert_eq!(
            payload(Json { account: account(), token: token().into() }),
            payload(JsonOpen { account: account(), token: token() })
        );
        let facts = |of: &Fingerprint| {
            let flags = (of.complete, of.no_arguments);
            (of.value, flags, of.shape.clone(), of.fields.clone(), of.self_describing.clone())
        };
        assert_eq!(facts(&Fingerprint::of::<Compact>()), facts(&Fingerprint::of::<CompactOpen>()));
        assert_eq!(facts(&Fingerprint::of::<Deep>()), facts(&Fingerprint::of::<DeepOpen>()));
        let read: Json = decode_arguments(br#"{"account":"ann","token":"canary-7f3a"}"#).expect("what Go writes");
        assert_eq!(read.token.into_inner(), CANARY);
    }

    #[test]
    fn people_see_stars_and_the_wire_is_whole_again_afterwards() {
        let job = || Compact { account: account(), token: CANARY.to_owned().into() };
        let bytes = payload(job());
        let shown = JobDescriptor::of::<Compact>("", 0).show(&bytes).expect("its own payload");
        assert_eq!(shown, serde_json::json!({ "account": "ann", "token": "***" }));
        let deep =
            Deep { account: account(), token: Some(vec![Choice::Two(CANARY.into()).into(), Choice::One.into()]) };
        let shown = JobDescriptor::of::<Deep>("", 0).show(&payload(deep)).expect("its own payload");
        assert_eq!(shown["token"], serde_json::json!(["***", "***"]));
        assert_eq!(payload(job()), bytes);
        assert!(!format!("{:?} {:#?}", job(), job()).contains(CANARY));
        let panicked = std::panic::catch_unwind(|| for_people(|| panic!("on purpose")));
        assert!(panicked.is_err());
        assert_eq!(payload(job()), bytes, "a panic leaves nothing hidden");
    }

    /// A number below ten: its own `Deserialize` panics at any other.
    #[derive(Debug, Serialize)]
    struct Digit(u32);

    impl<'de> Deserialize<'de> for Digit {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let digit = u32::deserialize(deserializer)?;
            assert!(digit < 10, "not a digit");
            Ok(Self(digit))
        }
    }

    jobs! {
        Counted "counted" Json Digit;
    }

    #[test]
    fn a_payload_whose_type_panics_cannot_be_shown() {
        let job = JobDescriptor::of::<Counted>("", 0);
        let error = job.show(br#"{"account":"ann","token":12}"#).expect_err("it is too large");
        assert!(error.to_string().contains("not a digit"), "{error}");
        assert_eq!(job.show(br#"{"account":"ann","token":1}"#).expect("it fits")["token"], 1);
    }

    #[test]
    fn no_error_about_a_payload_quotes_a_secret() {
        let wrong = [
            (r#"{"account":"ann","token":"canary-7f3a"}"#, "number"),
            (r#"{"account":"ann","token":{"canary-7f3a":1}}"#, "json"),
            (r#"{"account":"ann","token":["canary-7f3a"]}"#, "deep"),
            (r#"{"account":"ann","token":[{"canary-7f3a":"x"}]}"#, "deep"),
            (r#"{"account":"ann","token":"canary-7f3a"} x"#, "json"),
            (r#"{"account":"ann","token":"canary-7f3a"#, "json"),
        ];
        let jobs =
            [JobDescriptor::of::<Number>("", 0), JobDescriptor::of::<Json>("", 0), JobDescriptor::of::<Deep>("", 0)];
        for (payload, name) in wrong {
            let job = jobs.iter().find(|job| job.name == name).expect("one of them");
            let error = job.show(payload.as_bytes()).expect_err(payload);
            assert!(!format!("{error} {error:?}").contains(CANARY), "{error:?}");
            let Ok(arguments) = serde_json::from_str(payload) else { continue };
            let error = job.prepare(&arguments).expect_err(payload);
            assert!(!format!("{error} {error:?}").contains(CANARY), "{error:?}");
        }
    }

    #[test]
    fn a_task_that_was_not_enqueued_yet_shows_no_payload() {
        let task = PreparedTask::from(Json { account: account(), token: CANARY.to_owned().into() });
        let text = format!("{task:?}");
        assert!(!text.contains(CANARY) && text.contains("bytes"), "{text}");
    }
}
