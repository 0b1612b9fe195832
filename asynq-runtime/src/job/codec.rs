//! Arguments and results as bytes, in postcard or JSON.
//!
//! A postcard payload starts with one format byte and the four bytes of the [`Fingerprint`] of the arguments' shape, so that
//! a program whose arguments have another shape notices instead of reading nonsense. A JSON payload has no prefix, because
//! Go's `json.Unmarshal` reads it.

mod checked;
mod checkpoint;
mod kinds;
mod read_back;
mod reason;

use std::{ops::RangeInclusive, sync::Arc};

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

pub(crate) use self::checkpoint::{decode_checkpoint, encode_checkpoint};
pub(super) use self::read_back::changes_in_json;
use self::reason::reason;
pub(super) use self::reason::without_place;
use super::{
    Codec, Job, PayloadError, bounded,
    fingerprint::Fingerprint,
    shape::of_type::Reads,
    upgrade::{Content, Earlier, Upgrade},
};

/// First byte of a postcard payload.
pub(super) const POSTCARD: u8 = 0x01;
/// First byte of a postcard result.
const RESULT: u8 = 0x02;
/// First bytes of payloads of later versions of this crate. Neither JSON nor protobuf, as Go programs enqueue them, begins with one.
const LATER: RangeInclusive<u8> = 0x03..=0x07;
const PREFIX: usize = 5;

/// Arguments or a result that cannot be encoded.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot encode {what} as {codec}: {reason}")]
pub struct CodecError {
    what: String,
    codec: &'static str,
    reason: String,
}

debug_as_text!(CodecError);

/// Encodes the arguments of a job.
pub(crate) fn encode_arguments<J: Job>(job: &J) -> Result<Bytes, CodecError> {
    let what = || format!("the arguments of `{}`", J::NAME);
    // A constant, so that a job is compiled for its own codec alone.
    if const { matches!(J::CODEC, Codec::Json) } {
        encode_json(&what, job)
    } else {
        encode_postcard(&what, Fingerprint::of::<J>, job, "")
    }
}

fn encode_json<T: Serialize + DeserializeOwned>(what: &dyn Fn() -> String, value: &T) -> Result<Bytes, CodecError> {
    encoded(what, Codec::Json, read_back::write_readable_json(value))
}

/// Encodes a value with the fingerprint of its shape. `place` ends the advice to write another codec.
fn encode_postcard<T: Serialize + DeserializeOwned>(
    what: &dyn Fn() -> String,
    fingerprint: fn() -> Arc<Fingerprint>,
    value: &T,
    place: &str,
) -> Result<Bytes, CodecError> {
    let fingerprint = fingerprint();
    let written = prefix(&fingerprint, place).and_then(|prefix| {
        let written = read_back::write_readable(&prefix, value, &fingerprint.reads);
        written.map_err(|refusal| refusal.to_string())
    });
    encoded(what, Codec::Postcard, written)
}

/// Returns the first bytes of arguments in postcard.
fn prefix(fingerprint: &Fingerprint, place: &str) -> Result<[u8; PREFIX], String> {
    match &fingerprint.self_describing {
        // Postcard would write the value, and no worker could ever read it.
        Some(kind) => Err(needs_json(kind, place)),
        None => Ok(header(POSTCARD, fingerprint.value)),
    }
}

fn needs_json(kind: &str, place: &str) -> String {
    format!("`{kind}` needs a self-describing format; write `codec = \"json\"`{place}")
}

/// Returns the first bytes of a payload or a result.
pub(super) fn header(format: u8, number: u32) -> [u8; PREFIX] {
    let [a, b, c, d] = number.to_le_bytes();
    [format, a, b, c, d]
}

/// Reads the arguments of a job. A job without arguments takes any payload: Go enqueues nil. A payload of an earlier version
/// is read if it says enough by itself; [`resolve`](super::resolve) reads more.
pub(crate) fn decode_arguments<J: Job>(payload: &[u8]) -> Result<J, PayloadError> {
    if Fingerprint::of::<J>().no_arguments {
        let undecodable = |e: postcard::Error| PayloadError::Undecodable { job: J::NAME, reason: e.to_string() };
        return postcard::from_bytes(&[]).map_err(undecodable);
    }
    match split(payload) {
        Some((found, arguments)) => decode_postcard(found, arguments),
        None => decode_json(payload),
    }
}

/// Returns the fingerprint and the arguments of a postcard payload; `None` for any other payload.
pub(super) fn split(payload: &[u8]) -> Option<(u32, &[u8])> {
    split_behind(POSTCARD, payload)
}

/// Returns the number of a [`header`] of this format and the value behind it; `None` for any other bytes.
fn split_behind(format: u8, bytes: &[u8]) -> Option<(u32, &[u8])> {
    let ([first, number @ ..], value) = bytes.split_first_chunk::<PREFIX>()?;
    (*first == format).then_some((u32::from_le_bytes(*number), value))
}

fn decode_postcard<J: Job>(found: u32, arguments: &[u8]) -> Result<J, PayloadError> {
    let fingerprint = Fingerprint::in_postcard::<J>();
    if !fingerprint.is(found) {
        let earlier = Earlier(Content::Postcard(found, arguments));
        return Upgrade::first(&earlier).unwrap_or_else(|| {
            Err(PayloadError::UnknownFingerprint {
                job: J::NAME,
                expected: fingerprint.value,
                found,
                shape: fingerprint.text(),
            })
        });
    }
    take_whole(arguments, &fingerprint.reads).map_err(|error| match (error.to_string(), error) {
        // Another version of the type may take the value, and earlier versions of this crate had no bounds.
        (reason, Unreadable::Refused | Unreadable::Endless(_)) => PayloadError::Unfit { job: J::NAME, reason },
        (reason, _) => PayloadError::Undecodable { job: J::NAME, reason },
    })
}

/// Why bytes are not a postcard value of a type.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum Unreadable {
    #[error("{0} bytes too many")]
    TooLong(usize),
    #[error("a value that its type does not take")]
    Refused,
    #[error("{0}")]
    Endless(&'static str),
    #[error(transparent)]
    Damaged(postcard::Error),
}

/// Reads a postcard value that takes all of these bytes. Only a type whose values may be endless pays for the bounds.
fn take_whole<T: DeserializeOwned>(bytes: &[u8], reads: &Reads) -> Result<T, Unreadable> {
    let read = if reads.needs_bounds {
        bounded::take_from_bytes(bytes).map_err(Unreadable::Endless)?
    } else {
        postcard::take_from_bytes(bytes)
    };
    match read {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(Unreadable::TooLong(rest.len())),
        Err(postcard::Error::SerdeDeCustom) => Err(Unreadable::Refused),
        Err(error) => Err(Unreadable::Damaged(error)),
    }
}

fn decode_json<J: Job>(payload: &[u8]) -> Result<J, PayloadError> {
    if let Some(first) = payload.first()
        && LATER.contains(first)
    {
        let reason = format!("its first byte {first:#04x} is kept for later versions of asynq-runtime");
        return Err(PayloadError::Unfit { job: J::NAME, reason });
    }
    let undecodable = |reason: String| PayloadError::Undecodable { job: J::NAME, reason };
    // A postcard job has JSON payloads only if it was JSON before, or if its tasks come from another language.
    if J::CODEC == Codec::Postcard && !is_json(payload) {
        return Err(undecodable(not_postcard(payload)));
    }
    serde_json::from_slice(payload).or_else(|error| {
        if !error.is_data() || !is_json(payload) {
            return Err(undecodable(reason(&error)));
        }
        let earlier = Earlier(Content::Json(payload));
        Upgrade::first(&earlier).unwrap_or_else(|| {
            let reason = match J::CODEC {
                Codec::Json => reason(&error),
                Codec::Postcard => format!("{JSON_FOUND}: {}", reason(&error)),
            };
            Err(PayloadError::Unfit { job: J::NAME, reason })
        })
    })
}

/// Returns whether these bytes are one JSON value: a value of another type may come before a mistake in the syntax.
pub(super) fn is_json(payload: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(payload).is_ok()
}

/// Returns the format byte and the fingerprint of a postcard payload; `None` for any other payload. Bytes of a foreign
/// program that begin like a postcard payload are taken for one.
pub(crate) fn postcard_header(payload: &[u8]) -> Option<&[u8]> {
    if payload.first() == Some(&POSTCARD) { payload.get(..PREFIX) } else { None }
}

/// Returns the fingerprint that a postcard payload carries, as [`postcard_header`] does.
pub(crate) fn fingerprint_of(payload: &[u8]) -> Option<u32> {
    split(payload).map(|(fingerprint, _)| fingerprint)
}

/// The reason for JSON where postcard is expected.
const JSON_FOUND: &str = "it looks like JSON; write `codec = \"json\"` if it should be";

/// Returns why bytes are not a postcard payload. Most often they are JSON of another language, or of the job with another
/// `codec`.
fn not_postcard(payload: &[u8]) -> String {
    let found = match payload {
        [] => "it is empty",
        [b'{' | b'[' | b'"', ..] => JSON_FOUND,
        [POSTCARD, ..] => "it is cut off",
        _ => "its first byte is not the format byte 0x01",
    };
    format!("not a postcard payload of asynq-runtime: {found} ({} bytes)", payload.len())
}

/// Encodes the result of a job; postcard results carry their [`kinds`] where arguments carry their fingerprint.
pub(crate) fn encode_result<T: Serialize>(job: &str, codec: Codec, value: &T) -> Result<Bytes, CodecError> {
    // A value that refuses to be written has no kinds, and is refused below.
    let kinds = if codec == Codec::Postcard { kinds::of(value).unwrap_or_default() } else { 0 };
    encode(&|| format!("the result of `{job}`"), codec, &header(RESULT, kinds), value)
}

/// Reads the result of a job. `None` is the stored result of a job that returns `()`.
pub(crate) fn decode_result<T>(codec: Codec, result: Option<&[u8]>) -> Result<T, String>
where
    T: Serialize + DeserializeOwned + 'static,
{
    if codec == Codec::Json {
        return serde_json::from_slice(result.unwrap_or(b"null")).map_err(|e| reason(&e));
    }
    let fingerprint = Fingerprint::of_value::<T>();
    let Some(result) = result else {
        return take_whole(&[], &fingerprint.reads).map_err(|error| error.to_string());
    };
    let Some((found, value)) = split_behind(RESULT, result) else { return Err(not_a_result(result)) };
    let of_another_type = || format!("it was not written as this program's type: {}", fingerprint.shape);
    let value = take_whole(value, &fingerprint.reads).map_err(|error| match (&fingerprint.self_describing, error) {
        (Some(kind), _) => needs_json(kind, " on the job"),
        (None, Unreadable::Endless(why)) => why.to_owned(),
        (None, error) => format!("{error}; {}", of_another_type()),
    })?;
    // The kinds do not show that two fields have changed places; that the value would change once more does.
    let is_read_alike = || read_back::write_readable(&[], &value, &fingerprint.reads).is_ok();
    if kinds::of(&value) == Some(found) && is_read_alike() { Ok(value) } else { Err(of_another_type()) }
}

fn not_a_result(result: &[u8]) -> String {
    match result {
        [POSTCARD, ..] => "it was written by an earlier version of asynq-runtime, without its kinds".to_owned(),
        _ => format!("not a postcard result of asynq-runtime ({} bytes)", result.len()),
    }
}

/// Encodes the arguments that make a task unique (`unique_by`), for the expansion of `#[job]`.
///
/// # Errors
///
/// The `Serialize` of a value refuses it.
pub fn encode_key<J: Job>(fields: &impl Serialize) -> Result<Bytes, CodecError> {
    encode(&|| format!("the unique arguments of `{}`", J::NAME), J::CODEC, &[POSTCARD], fields)
}

/// Encodes `value`. Only postcard has the `prefix`, because other languages read the JSON.
fn encode(what: &dyn Fn() -> String, codec: Codec, prefix: &[u8], value: &impl Serialize) -> Result<Bytes, CodecError> {
    let written = match codec {
        Codec::Postcard => checked::write(prefix, value, None).map(|written| written.bytes).map_err(|e| e.to_string()),
        Codec::Json => serde_json::to_vec(value).map_err(|e| e.to_string()),
    };
    encoded(what, codec, written)
}

/// Returns what was written, or the error of `what`.
fn encoded(what: &dyn Fn() -> String, codec: Codec, written: Result<Vec<u8>, String>) -> Result<Bytes, CodecError> {
    written.map(Bytes::from).map_err(|reason| CodecError { what: what(), codec: codec.as_str(), reason })
}

#[cfg(test)]
mod tests;
