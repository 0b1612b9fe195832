//! Hides passwords in text that quotes user input.

/// Returns the text without passwords of URLs: the part between a colon and an at sign behind a `://`, and the value of any
/// `…pass=` or `…password=`, in any case. Messages that quote user input need it, because a URL may be in the wrong place. An id such as
/// `welcome:ann@example.com` is kept.
pub fn without_passwords(text: &str) -> String {
    let (mut clean, mut rest) = (String::with_capacity(text.len()), text);
    while !rest.is_empty() {
        let (run, behind) = rest.split_at(end_of_run(rest));
        // The password of a URL may have quotes in it.
        if run.contains("://") {
            clean.push_str(&of_parameters(&of_url(run), true));
        } else {
            run.split_inclusive(is_end).for_each(|word| clean.push_str(&of_parameters(word, false)));
        }
        rest = behind;
    }
    clean
}

/// Returns the length of the first word with the white space behind it. A URL that is quoted goes on to its closing quote, or to the first
/// at sign where there is none, because a password may have blanks and at signs in it.
fn end_of_run(text: &str) -> usize {
    let mut words = text.split_inclusive(char::is_whitespace);
    let first = words.next().unwrap_or_default();
    let quote = first.chars().next().filter(|&c| is_quote(c));
    let (Some(quote), Some((_, behind))) = (quote, first.split_once("://")) else { return first.len() };
    let closes = |word: &str| {
        let quoted = word.trim_end_matches(|c: char| c.is_whitespace() || ",.:;)".contains(c));
        quoted.ends_with(quote)
    };
    if closes(behind) {
        return first.len();
    }
    let (mut end, mut at_sign) = (first.len(), behind.contains('@').then_some(first.len()));
    for word in words {
        end += word.len();
        if closes(word) {
            return end;
        }
        at_sign = at_sign.or(word.contains('@').then_some(end));
    }
    at_sign.unwrap_or(end)
}

/// Returns the text of a usage error as [`without_passwords`] does, also without the part between a colon and an at sign in any
/// word: it quotes arguments and settings in the wrong place, and a URL among them may lack its scheme.
pub fn usage_without_passwords(text: &str) -> String {
    // A password may have other quotes in it; quotation marks part the texts of JSON.
    without_passwords(text).split_inclusive(|c: char| c.is_whitespace() || c == '"').map(of_url).collect()
}

/// Returns whether a word ends here.
fn is_end(c: char) -> bool {
    c.is_whitespace() || is_quote(c)
}

fn is_quote(c: char) -> bool {
    matches!(c, '\'' | '"' | '`')
}

/// Hides the password before the last at sign.
fn of_url(text: &str) -> String {
    let mut text = text.to_owned();
    if let Some(at) = text.rfind('@') {
        // The search begins after the scheme, if there is one. Where an at sign was not encoded, the last one counts.
        let start = text[..at].find("://").map_or(0, |scheme| scheme + 3);
        if let Some(colon) = text[start..at].find(':') {
            text.replace_range(start + colon + 1..at, "***");
        }
    }
    text
}

/// Hides the values of parameters that hold passwords, in whatever case their names are. A value in a URL may have quotes in it; the
/// quote that ends the URL stays.
fn of_parameters(word: &str, is_url: bool) -> String {
    let mut word = word.to_owned();
    let mut from = 0;
    while let Some(found) = ["pass=", "password="]
        .iter()
        .filter_map(|key| word[from..].to_ascii_lowercase().find(key).map(|at| from + at + key.len()))
        .min()
    {
        let last = if is_url { word.trim_end_matches(is_end).len() } else { word.len() };
        let ends = |c: char| c == '&' || (!is_url && is_end(c));
        let end = word[found..].find(ends).map_or(last, |end| found + end);
        word.replace_range(found..end, "***");
        from = found + 3;
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_hidden_and_all_else_is_repeated() {
        for (text, expected) in [
            (
                "unexpected argument 'redis://jobs:p%40ss@h:1/0' found",
                "unexpected argument 'redis://jobs:***@h:1/0' found",
            ),
            ("redis://:secret@h", "redis://:***@h"),
            ("'redis://u:p'w\"x`y@h' found", "'redis://u:***@h' found"),
            ("redis://jobs:p@ss:w@h:6379", "redis://jobs:***@h:6379"),
            ("redis+unix:///s?user=u&pass=secret&db=1", "redis+unix:///s?user=u&pass=***&db=1"),
            ("x?sentinel_pass=a&password=b'", "x?sentinel_pass=***&password=***'"),
            ("--queues: \"redis://u:p@h\"", "--queues: \"redis://u:***@h\""),
            ("'redis://jobs:correct horse battery@h:6379' found", "'redis://jobs:***@h:6379' found"),
            ("'unix:///s?user=u&pass=it's-mine' found", "'unix:///s?user=u&pass=***' found"),
            ("`unix:///s?pass=it's mine&db=1`: found", "`unix:///s?pass=***&db=1`: found"),
            ("'redis://jobs:p@ss word@h:6379' found", "'redis://jobs:***@h:6379' found"),
            ("'unix:///s?user=u&pass=co@rrect horse' found", "'unix:///s?user=u&pass=***' found"),
            ("'redis://jobs:correct horse@h, ask ann@example.com", "'redis://jobs:***@h, ask ann@example.com"),
            ("`redis://h:6379/0`: ask ann@example.com", "`redis://h:6379/0`: ask ann@example.com"),
            ("at redis://h:6379, ask ann@example.com", "at redis://h:6379, ask ann@example.com"),
            ("pass= password=", "pass=*** password=***"),
            ("x?Password=a&passWord=b&REDIS_PASS=c", "x?Password=***&passWord=***&REDIS_PASS=***"),
            // Other text is kept.
            ("mail to ann@example.com", "mail to ann@example.com"),
            ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0"),
            ("{\"to\":\"a@b.c\"}", "{\"to\":\"a@b.c\"}"),
            ("the queue `mail:*`", "the queue `mail:*`"),
            ("task `welcome:ann@example.com` was not found", "task `welcome:ann@example.com` was not found"),
            ("", ""),
            ("://\u{1f980}:\u{1f980}@\u{e4}", "://\u{1f980}:***@\u{e4}"),
        ] {
            assert_eq!(without_passwords(text), expected);
        }
    }

    #[test]
    fn a_usage_error_hides_the_password_of_a_url_without_its_scheme_too() {
        for (text, expected) in [
            ("jobs:secret@h, jobs:other@h", "jobs:***@h, jobs:***@h"),
            ("unexpected argument 'jobs:secret@h' found", "unexpected argument 'jobs:***@h' found"),
            ("'redis://u:p'w\"x`y@h' found", "'redis://u:***@h' found"),
            ("cannot listen at jobs:pa`ss'word@h:80: refused", "cannot listen at jobs:***@h:80: refused"),
            ("`jobs:pa`ss@h` is not an address", "`jobs:***@h` is not an address"),
            ("{\"from\":\"ann\",\"to\":\"a@b.c\"}", "{\"from\":\"ann\",\"to\":\"a@b.c\"}"),
            ("jobs:secret@h?password=b", "jobs:***@h?password=***"),
            ("mail to ann@example.com", "mail to ann@example.com"),
            ("\u{1f980}:\u{1f980}@\u{e4}", "\u{1f980}:***@\u{e4}"),
        ] {
            assert_eq!(usage_without_passwords(text), expected);
        }
    }
}
