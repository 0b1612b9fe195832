//! Reads percent-encoded parts of a broker's URL.

/// Replaces each `%XX`; `None` if the digits are not hexadecimal or the result is not UTF-8.
pub(crate) fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        let (high, low) = (digit()?, digit()?);
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn only_two_hexadecimal_digits_that_give_utf_8_are_taken() {
        for (text, expected) in [
            ("plain", Some("plain")),
            ("a%20b%25", Some("a b%")),
            ("%C3%a4", Some("ä")),
            ("%", None),
            ("%4", None),
            ("%+4", None),
            ("%zz", None),
            ("%ff", None),
        ] {
            assert_eq!(decode(text).as_deref(), expected, "{text}");
        }
    }
}
