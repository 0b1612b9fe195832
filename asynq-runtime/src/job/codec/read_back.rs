//! Reads arguments back before they are sent, where their shape does not say how they are read.
//!
//! The shape of a type is known in part if one of its types refuses every sample or has variants with aliases. And a type may
//! be written under another name than it is read (`#[serde(try_from)]`). Only such jobs pay for the reading.

use serde::{Serialize, de::DeserializeOwned};

use super::{
    checked::{self, Refusal},
    kinds, take_whole,
};
use crate::job::shape::of_type::Reads;

/// Returns `value` behind `prefix`, as [`checked::write`] does, unless it would be read as another value.
pub(super) fn write_readable<T: Serialize + DeserializeOwned>(
    prefix: &[u8],
    value: &T,
    reads: &Reads,
) -> Result<Vec<u8>, Refusal> {
    let (bytes, is_known) = checked::write(prefix, value, Some(reads))?;
    // A type may tidy its values when they are read, so that the kinds alone are compared; but where another type reads the
    // fields, they may change places, which only the values show.
    let is_same = |read: T| kinds::are_equal(value, &read, !is_known);
    if (is_known && reads.are_whole()) || take_whole(&bytes[prefix.len()..]).is_ok_and(is_same) {
        return Ok(bytes);
    }
    Err(Refusal::another_value())
}

#[cfg(test)]
mod tests;
