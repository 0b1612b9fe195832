//! Positions in lists by name: the bytes of the last name as hexadecimal digits.
//!
//! Other programs may have stored names that are not UTF-8. The replacement characters of such a name in a text sort elsewhere among the
//! names, so that a list would return the same names again for ever, or leave names out.

/// Returns the position behind a name.
pub(super) fn write(name: &[u8]) -> String {
    name.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the name of a position; `None` for a text that is none.
pub(super) fn read(text: &str) -> Option<Vec<u8>> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_keeps_every_byte_and_other_texts_are_none() {
        for name in [&b""[..], b"a", "\u{fc}brig".as_bytes(), b"\xfcbrig", b"\0\x01\xff"] {
            assert_eq!(read(&write(name)).unwrap(), name);
        }
        for text in ["6", "616", "0x", "group", "\u{fc}", "6\u{fc}1"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
