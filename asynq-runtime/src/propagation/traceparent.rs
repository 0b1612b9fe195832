//! Reads `traceparent` as <https://www.w3.org/TR/trace-context/> defines it; any other text is not one.

/// The parts of a `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TraceParent {
    pub(super) trace_id: u128,
    pub(super) span_id: u64,
    pub(super) is_sampled: bool,
}

/// Longest `tracestate` that is forwarded, in bytes: the standard obliges every program to forward as many.
const LONGEST_STATE: usize = 512;

/// Returns the parts of version 00, or of a later version that begins like it.
pub(super) fn parse(text: &str) -> Option<TraceParent> {
    let hex = |range: std::ops::Range<usize>| {
        let part = text.get(range)?;
        let is_hex = part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_hex.then(|| u128::from_str_radix(part, 16).ok()).flatten()
    };
    let version = hex(0..2).filter(|&version| version != 0xff)?;
    let is_whole = match text.len() {
        55 => true,
        longer => longer > 55 && longer <= 512 && version > 0 && text.get(55..56) == Some("-"),
    };
    let has_dashes = [2, 35, 52].iter().all(|&at| text.get(at..at + 1) == Some("-"));
    let trace_id = hex(3..35).filter(|&id| id != 0)?;
    let span_id = hex(36..52).filter(|&id| id != 0)?;
    let flags = hex(53..55)?;
    (is_whole && has_dashes).then(|| TraceParent {
        trace_id,
        span_id: u64::try_from(span_id).unwrap_or_default(),
        is_sampled: flags & 1 == 1,
    })
}

/// Returns whether a `tracestate` may be forwarded: it is printable and not too long.
pub(super) fn is_tracestate(text: &str) -> bool {
    !text.is_empty() && text.len() <= LONGEST_STATE && text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn only_the_traceparents_of_the_standard_are_read() {
        let sampled = TraceParent {
            trace_id: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736,
            span_id: 0x00f0_67aa_0ba9_02b7,
            is_sampled: true,
        };
        let not_sampled = TraceParent { is_sampled: false, ..sampled };
        let good = [
            (GOOD.to_owned(), sampled),
            (GOOD.replace("-01", "-00"), not_sampled),
            (GOOD.replace("-01", "-ff"), sampled),
            (GOOD.replacen("00", "01", 1), sampled),
            (GOOD.replacen("00", "cc", 1) + "-more", sampled),
        ];
        for (text, expected) in good {
            assert_eq!(parse(&text), Some(expected), "{text}");
        }
        let bad = [
            String::new(),
            "-".repeat(55),
            GOOD.to_uppercase(),
            GOOD.replacen("00", "ff", 1),
            GOOD.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            GOOD.replace("00f067aa0ba902b7", &"0".repeat(16)),
            GOOD.replace('-', "_"),
            GOOD[..54].to_owned(),
            format!("{GOOD}-more"),
            format!("{GOOD} "),
            format!(" {GOOD}"),
            GOOD.replacen("00", "01", 1) + "more",
            GOOD.replacen("00", "01", 1) + "-" + &"m".repeat(1 << 20),
            GOOD.replace("4bf9", "4b\u{e4}"),
            GOOD.replace("4bf9", "+bf9"),
            "\u{1f980}".repeat(14),
        ];
        for text in bad {
            assert_eq!(parse(&text), None, "{text:.80}");
        }
    }

    #[test]
    fn a_tracestate_is_printable_and_short() {
        for (text, expected) in [("a=1,b=2", true), ("", false), ("a=\n", false), ("a=\u{e4}", false)] {
            assert_eq!(is_tracestate(text), expected, "{text:?}");
        }
        assert!(is_tracestate(&"a".repeat(512)) && !is_tracestate(&"a".repeat(513)));
    }
}
