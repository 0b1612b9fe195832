//! Finds the known word that was probably meant by an unknown one.

/// Returns the word of `known` that was probably meant by `word`: at most a third of its characters differ, and case does not
/// count. `None` if no known word is that near.
///
/// ```
/// assert_eq!(asynq_grammar::nearest("retyr", ["queue", "retry"]), Some("retry"));
/// assert_eq!(asynq_grammar::nearest("priority", ["queue", "retry"]), None);
/// ```
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_within(word, known, |candidate| candidate.chars().count().div_ceil(3))
}

/// Returns the word of `known` of which `word` has one character more, fewer or changed, or two neighbours swapped, where a word
/// that only resembles it is another one. Case does not count.
///
/// ```
/// assert_eq!(asynq_grammar::one_slip("Europe/Berln", ["Europe/Berlin"]), Some("Europe/Berlin"));
/// assert_eq!(asynq_grammar::one_slip("America/Boston", ["America/Creston"]), None);
/// ```
pub fn one_slip<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_within(word, known, |_| 1)
}

fn nearest_within<'a>(
    word: &str,
    known: impl IntoIterator<Item = &'a str>,
    most: impl Fn(&str) -> usize,
) -> Option<&'a str> {
    let word = letters(word);
    known
        .into_iter()
        .filter_map(|candidate| {
            let (letters, most) = (letters(candidate), most(candidate));
            // The distance to a word that is far longer would take long.
            let distance = (word.len().abs_diff(letters.len()) <= most).then(|| distance(&word, &letters))?;
            (distance <= most).then_some((distance, candidate))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn letters(word: &str) -> Vec<char> {
    word.to_lowercase().chars().collect()
}

/// How many characters must be inserted, deleted, changed or swapped with their neighbour.
fn distance(from: &[char], to: &[char]) -> usize {
    let mut rows = vec![(0..=to.len()).collect::<Vec<_>>()];
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let changed = usize::from(from[i - 1] != to[j - 1]);
            let mut best = (rows[i - 1][j - 1] + changed).min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
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
        for (word, meant) in [("resise", Some("resize")), ("ERSIZE", Some("resize")), ("resi", None), ("rezise", None)]
        {
            assert_eq!(one_slip(word, known), meant, "{word}");
        }
    }

    #[test]
    fn a_distance_counts_insertions_deletions_changes_and_swaps_of_neighbours() {
        for (from, to, expected) in [
            ("", "", 0),
            ("ab", "", 2),
            ("", "ab", 2),
            ("ab", "ba", 1),
            ("xaby", "xbay", 1),
            ("abcd", "badc", 2),
            ("axb", "bxa", 2),
            ("abc", "ca", 3),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(&letters(from), &letters(to)), expected, "{from} {to}");
        }
    }
}
