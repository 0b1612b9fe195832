//! Reads JSON by its characters: how deep it is, and laid out with every number, key and order as it was written.

/// Tells the characters of JSON's texts from those between them.
#[derive(Default)]
struct Texts {
    is_inside: bool,
    is_escaped: bool,
}

impl Texts {
    /// Returns whether the next character belongs to a text. Its quotation marks do.
    fn has(&mut self, c: char) -> bool {
        let was_inside = self.is_inside;
        match c {
            _ if self.is_escaped => self.is_escaped = false,
            '\\' if was_inside => self.is_escaped = true,
            '"' => self.is_inside = !was_inside,
            _ => {}
        }
        was_inside || self.is_inside
    }
}

/// Returns the deepest nesting of arrays and objects, without parsing their elements.
pub(crate) fn depth_of(bytes: &[u8]) -> usize {
    let (mut depth, mut deepest, mut texts) = (0_usize, 0, Texts::default());
    for &byte in bytes {
        match byte {
            _ if texts.has(char::from(byte)) => {}
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Returns `text`, which must be JSON, with one member a line; ends soon after `limit` bytes, as spaces can be many times the
/// text.
pub(super) fn indented(text: &str, limit: usize) -> String {
    let mut laid_out = String::with_capacity(limit.min(text.len() * 2));
    let (mut depth, mut texts) = (0_usize, Texts::default());
    let mut chars = text.chars().peekable();
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    while laid_out.len() <= limit
        && let Some(c) = chars.next()
    {
        match c {
            c if texts.has(c) => laid_out.push(c),
            c if c.is_ascii_whitespace() => {}
            '{' | '[' => {
                laid_out.push(c);
                while chars.next_if(char::is_ascii_whitespace).is_some() {}
                match chars.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => laid_out.push(end),
                    None => {
                        depth += 1;
                        line(&mut laid_out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut laid_out, depth);
                laid_out.push(c);
            }
            ',' => {
                laid_out.push(c);
                line(&mut laid_out, depth);
            }
            ':' => laid_out.push_str(": "),
            c => laid_out.push(c),
        }
    }
    laid_out
}

/// Returns JSON, or a part of it, without the white space between its elements.
pub(crate) fn compact(text: &str) -> String {
    let mut texts = Texts::default();
    text.chars().filter(|&c| texts.has(c) || !c.is_ascii_whitespace()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_white_space_is_changed() {
        for (text, expected) in [
            ("1e400000", "1e400000"),
            ("{}", "{}"),
            ("[ ]", "[]"),
            ("{\"a\":1,\"a\":[1,{}]}", "{\n  \"a\": 1,\n  \"a\": [\n    1,\n    {}\n  ]\n}"),
            (r#"{"a,[\"":"b : {"}"#, "{\n  \"a,[\\\"\": \"b : {\"\n}"),
        ] {
            assert_eq!(indented(text, 1000), expected);
        }
    }

    #[test]
    fn compact_json_keeps_the_spaces_of_its_texts() {
        for (text, expected) in [
            ("{\n  \"a b\": [ 1, \"\\\" {\" ]\n}", r#"{"a b":[1,"\" {"]}"#),
            (r#""order": 5, "to": "a b"#, r#""order":5,"to":"a b"#),
        ] {
            assert_eq!(compact(text), expected);
        }
    }

    #[test]
    fn deep_json_is_laid_out_only_as_far_as_it_is_shown() {
        let deep = format!("{}{}{}", "[".repeat(60), "1,".repeat(100_000), "1".to_owned() + &"]".repeat(60));
        let laid_out = indented(&deep, 1000);
        assert!((1001..1001 + 2 * 60 + 2).contains(&laid_out.len()), "{}", laid_out.len());
        assert!(indented(&deep, usize::MAX).starts_with(&laid_out));
        let long = format!("[\"{}\"]", "x".repeat(100_000));
        assert_eq!(indented(&long, 1000).len(), 1001);
    }

    #[test]
    fn depth_is_that_of_brackets_outside_of_texts() {
        for (text, expected) in [("1", 0), ("[]", 1), (r#"{"[[\"[":[{}]}"#, 3), ("[[[", 3), ("]]]", 0)] {
            assert_eq!(depth_of(text.as_bytes()), expected, "{text}");
        }
    }
}
