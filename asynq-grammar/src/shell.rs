//! Words of command lines that a person copies into a shell.

/// Returns a text as a shell takes it for one word, quoted if need be.
///
/// A shell passes a quoted hyphen on like any other, and the program takes the word for a flag: write the word behind `--`, or behind
/// the equals sign of `--flag=`.
///
/// ```
/// use asynq_grammar::shell;
///
/// assert_eq!(shell::quote("default"), "default");
/// assert_eq!(shell::quote("it's; $(reboot)"), r"'it'\''s; $(reboot)'");
/// ```
pub fn quote(text: &str) -> String {
    let is_plain = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.:/".contains(c));
    if is_plain { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_a_shell_would_misread_is_quoted() {
        for (text, expected) in [
            ("a-b_c.d:e/1", "a-b_c.d:e/1"),
            ("", "''"),
            ("a b", "'a b'"),
            ("$(reboot)", "'$(reboot)'"),
            ("a\nb", "'a\nb'"),
            ("~", "'~'"),
            ("é", "'é'"),
            ("it's", r"'it'\''s'"),
        ] {
            assert_eq!(quote(text), expected);
        }
    }
}
