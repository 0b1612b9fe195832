//! Reads arguments back before they are sent, where their shape does not say how they are read.
//!
//! The shape of a type is known in part if one of its types refuses every sample or has variants with aliases. And a type may
//! be written under another name than it is read (`#[serde(try_from)]`), or two types have one name. Only such jobs pay for the
//! reading.

use serde::{Serialize, de::DeserializeOwned};

use super::{
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
    let Written { bytes, is_known, suspect } = checked::write(prefix, value, Some(reads))?;
    let written = &bytes[prefix.len()..];
    // A type may tidy its values when they are read, so that the kinds alone are compared; but where another type reads the
    // fields, they may change places, which only the values show. Equal bytes are the cheap proof of equal values; the entries of a
    // `HashMap` may come in another order.
    let has_same_values = |read: &T| {
        checked::write(&[], read, None).is_ok_and(|again| again.bytes == written) || kinds::are_equal(value, read, true)
    };
    let is_same = |read: T| kinds::are_equal(value, &read, false) && (is_known || has_same_values(&read));
    if (is_known && reads.are_whole()) || take_whole(written).is_ok_and(is_same) {
        return Ok(bytes);
    }
    Err(suspect.unwrap_or_else(Refusal::another_value))
}

/// Returns the value as JSON, unless it holds a null and is not read back: `serde_json` writes a float that JSON does not have as
/// null. Only JSON with `null` in it pays for the reading.
pub(super) fn write_readable_json<T: Serialize + DeserializeOwned>(value: &T) -> Result<Vec<u8>, String> {
    let json = serde_json::to_string(value).map_err(|e| e.to_string())?;
    if json.contains("null")
        && let Err(error) = serde_json::from_str::<T>(&json)
    {
        return Err(format!(
            "it could not be read back ({}): JSON has null in place of a float that is not finite (NaN, an infinity), or a field is \
             written otherwise than it is read",
            reason(&error)
        ));
    }
    Ok(json.into_bytes())
}

#[cfg(test)]
mod tests;
