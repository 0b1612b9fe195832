//! Sample values for types that check their input.

use crate::job::shape::Leaf;

/// The first suits every plain `String`; the others are for types that parse.
pub(in crate::job) const STRINGS: [&str; 38] = [
    "",
    "2000-01-01T00:00:00Z",
    "2000-01-01",
    "2000-01-01T00:00:00",
    "2000-01-01 00:00:00",
    "00:00:00",
    "2000-01-01T00:00:00+00:00[UTC]",
    "00000000-0000-0000-0000-000000000000",
    "127.0.0.1",
    "::1",
    "127.0.0.1:80",
    "[::1]:80",
    "127.0.0.0/8",
    "http://localhost/",
    "0",
    "1",
    "0.5",
    "a",
    "A",
    "a@b.example",
    "localhost",
    "1.0.0",
    "text/plain",
    "UTC",
    "Europe/Berlin",
    "en",
    "en-US",
    "EUR",
    "DE",
    "1s",
    "PT1S",
    "P1D",
    "true",
    "00",
    "#000000",
    "+4930123456",
    "00:00:00:00:00:00",
    "01ARZ3NDEKTSV4RRFFQ69G5FAV",
];
/// 1 stands before 0, because a `NonZero` refuses 0.
pub(super) const INTEGERS: [i8; 9] = [1, 0, 2, 3, 5, 10, 20, 100, -1];
pub(super) const FLOATS: [f32; 5] = [1.0, 0.0, 0.5, 100.0, -1.0];
pub(super) const CHARS: [char; 4] = ['a', 'A', '0', ' '];
pub(super) const BOOLS: [bool; 2] = [true, false];
/// Lengths of byte strings: none, then those of ids, addresses and digests.
pub(super) const BYTES: [&[u8]; 9] = [&[], &[0; 16], &[0; 4], &[0; 8], &[0; 12], &[0; 20], &[0; 32], &[0; 64], &[0; 1]];

/// Returns how many samples there are for a leaf.
pub(super) fn count(leaf: Leaf) -> usize {
    match leaf {
        Leaf::Str => STRINGS.len(),
        Leaf::Bytes => BYTES.len(),
        Leaf::Bool => BOOLS.len(),
        Leaf::Char => CHARS.len(),
        Leaf::Float32 | Leaf::Float64 => FLOATS.len(),
        _ => INTEGERS.len(),
    }
}
