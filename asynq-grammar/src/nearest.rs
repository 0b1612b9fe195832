//! Finds the known word that was probably meant by an unknown one.

/// Returns the word of `known` that was probably meant by `word`: at most a third of its characters differ, and case does not
/// count. `None` if no known word is that near.
///
/// ```
/// assert_eq!(asynq_grammar::nearest("retyr", ["queue", "retry"]), Some("retry"));
/// assert_eq!(asynq_grammar::nearest("priority", ["queue", "retry"]), None);
/// ```
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.chars().count().div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_keyboard_is_understood_and_a_guess_is_not() {
        let known = ["send_email", "resize", "mail:welcome"];
        for (word, meant) in [
            ("send_mail", Some("send_email")),
            ("sendemail", Some("send_email")),
            ("SEND_EMAIL", Some("send_email")),
            ("resise", Some("resize")),
            ("ersize", Some("resize")),
            ("mail:welcom", Some("mail:welcome")),
            ("cleanup", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), meant, "{word}");
        }
        assert_eq!(nearest("", []), None);
    }
}
