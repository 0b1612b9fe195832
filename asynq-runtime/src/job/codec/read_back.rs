//! Reads arguments back before they are sent, where their shape does not say how they are read.
//!
//! The shape of a type is known in part if one of its types refuses every sample or has variants with aliases. And a type may
//! be written under another name than it is read (`#[serde(try_from)]`), or two types have one name. And a value may be nested deeper
//! than it is read. Only such jobs pay for the reading.

use serde::{Serialize, de::DeserializeOwned, ser::Error as _};

use super::{
    Unreadable,
    checked::{self, Refusal, Written},
    kinds,
    reason::reason,
    take_whole,
};
use crate::job::shape::of_type::Reads;

/// Returns `value` behind `prefix`, as [`checked::write`] does, unless it would be read as another value.
pub(super) fn write_readable<T: Serialize + DeserializeOwned>(
    prefix: &[u8],
    value: &T,
    reads: &Reads,
) -> Result<Vec<u8>, Refusal> {
    let written = checked::write(prefix, value, Some(reads))?;
    let is_known = written.is_known;
    let is_read_alike = is_known && reads.is_whole;
    unless_changed(written, prefix.len(), (is_read_alike, reads.needs_bounds), &|bytes| {
        // A type may tidy its values when they are read, so that the kinds alone are compared; but where another type reads the
        // fields, they may change places, which only the values show. Equal bytes are the cheap proof of equal values; the entries of a
        // `HashMap` may come in another order.
        let has_same_values = |read: &T| {
            checked::write(&[], read, None).is_ok_and(|again| again.bytes == bytes)
                || kinds::are_equal(value, read, true)
        };
        let read: T = take_whole(bytes, reads)?;
        Ok(is_read_alike || kinds::are_equal(value, &read, false) && (is_known || has_same_values(&read)))
    })
}

/// Returns the bytes that were written, unless `is_same`, which reads the value behind the prefix back, says that it would be another one.
/// A value that is read alike needs this only for its bounds.
fn unless_changed(
    Written { bytes, suspect, .. }: Written,
    behind: usize,
    (is_read_alike, needs_bounds): (bool, bool),
    is_same: &dyn Fn(&[u8]) -> Result<bool, Unreadable>,
) -> Result<Vec<u8>, Refusal> {
    if is_read_alike && !needs_bounds {
        return Ok(bytes);
    }
    let is_same = match is_same(&bytes[behind..]) {
        // Its worker would not read it either.
        Err(Unreadable::Endless(why)) => return Err(Refusal::custom(why)),
        read => read.unwrap_or(false),
    };
    if is_read_alike || is_same {
        return Ok(bytes);
    }
    Err(suspect.unwrap_or_else(Refusal::another_value))
}

/// Returns the value as JSON, unless it holds a null and would be read as another value: `serde_json` writes null for `None`, for
/// `Some(None)` and for a float that JSON does not have. Only JSON with `null` in it pays for the reading.
pub(super) fn write_readable_json<T: Serialize + DeserializeOwned>(value: &T) -> Result<Vec<u8>, String> {
    let json = serde_json::to_string(value).map_err(|e| e.to_string())?;
    unless_changed_in_json(json, &|json| Ok(has_same_kinds(value, &serde_json::from_slice::<T>(json)?)))
}

/// Returns the JSON that was written; `is_same` reads it back.
fn unless_changed_in_json(
    json: String,
    is_same: &dyn Fn(&[u8]) -> serde_json::Result<bool>,
) -> Result<Vec<u8>, String> {
    if json.contains("null") && has_null(&json) {
        let problem = match is_same(json.as_bytes()) {
            Ok(true) => return Ok(json.into_bytes()),
            Ok(false) => "it would be read as another value".to_owned(),
            Err(error) => format!("it could not be read back ({})", reason(&error)),
        };
        return Err(format!(
            "{problem}: JSON has null in place of a float that is not finite (NaN, an infinity) and of a `Some` of nothing (`Some(None)`, `Some(Value::Null)`), or a field is \
             written otherwise than it is read"
        ));
    }
    Ok(json.into_bytes())
}

/// Returns whether `value` would be read from its JSON as another value, such as `None` in place of `Some(None)`.
pub(in crate::job) fn changes_in_json<T: Serialize + DeserializeOwned>(value: &T) -> bool {
    // Through the value that people see and the text of it, as the arguments that they edit come back.
    let json = serde_json::to_value(value).and_then(|value| serde_json::to_vec(&value));
    let read = json.and_then(|json| serde_json::from_slice::<T>(&json));
    read.is_ok_and(|read| !has_same_kinds(value, &read))
}

/// Returns `true` for a type that can be written only for people, because it has no kinds.
fn has_same_kinds<T: Serialize>(value: &T, read: &T) -> bool {
    kinds::of(value).is_none_or(|kinds| kinds::of(read) == Some(kinds))
}

/// Returns whether compact JSON has a null outside of its texts, where no other word has an `n`.
fn has_null(json: &str) -> bool {
    let (mut in_text, mut is_escaped) = (false, false);
    json.bytes().any(|byte| {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => in_text = !in_text,
            b'n' if !in_text => return true,
            _ => {}
        }
        false
    })
}

#[cfg(test)]
mod tests;
