//! Builds the message for one subscriber: a complete MIME message, in plain text and in HTML.

use asynq_runtime::prelude::BoxError;
use lettre::{
    Message,
    message::{Mailbox, MultiPart},
};

use crate::address::Address;

const FROM: &str = "The Weekly <weekly@newsletter.example>";

/// The facts about a reader that the template needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) name: &'a str,
    pub(crate) city: &'a str,
    pub(crate) plan: &'a str,
}

/// Builds the message to `to`. `task_id` becomes its Message-ID, so that a mailbox can tell if it gets the message twice after a
/// crash.
///
/// # Errors
///
/// The address is not one that a mail server takes.
pub(crate) fn message(task_id: &str, to: &Address, reader: Reader<'_>) -> Result<Message, BoxError> {
    let name = one_line(reader.name);
    let to = Mailbox::new(Some(name.clone()).filter(|name| !name.is_empty()), to.as_str().parse()?);
    Ok(Message::builder()
        .message_id(Some(format!("<{task_id}@newsletter.example>").replacen('@', "=", 1)))
        .from(FROM.parse()?)
        .to(to)
        .subject(format!("{name}, this week near {}", one_line(reader.city)))
        .multipart(MultiPart::alternative_plain_html(plain(reader), html(reader)))?)
}

fn plain(Reader { name, city, plan }: Reader<'_>) -> String {
    format!(
        "Hello {},\n\nthree things worth a walk through {} this week:\n\n  * the market, before ten\n  * the \
         library, after six\n  * the hill, at any time\n\n{}\n\nYours\nThe Weekly\n",
        one_line(name),
        one_line(city),
        offer(plan)
    )
}

fn html(Reader { name, city, plan }: Reader<'_>) -> String {
    format!(
        "<!doctype html><html><body><p>Hello {},</p><p>three things worth a walk through {} this week:</p><ul><li>the \
         market, before ten</li><li>the library, after six</li><li>the hill, at any time</li></ul><p>{}</p><p>Yours<br>The \
         Weekly</p></body></html>",
        escaped(name),
        escaped(city),
        escaped(offer(plan))
    )
}

fn offer(plan: &str) -> &'static str {
    match plan {
        "free" => "You read the free edition. The long one comes with the pro plan.",
        "team" => "Your whole team reads along; thank you.",
        _ => "Thank you for paying for this letter.",
    }
}

/// Joins words with single spaces. Names come from a file that anyone may have typed: no line break reaches a header.
fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(to: &str, reader: Reader<'_>) -> String {
        let message = message("20261124-091500-250.x@example.com", &Address::parse(to).unwrap(), reader).unwrap();
        String::from_utf8(message.formatted()).unwrap()
    }

    #[test]
    fn a_message_is_complete_and_ascii_on_the_wire() {
        let text = rendered("ann@example.com", Reader { name: "Ægir Ólafsson", city: "Ísafjörður", plan: "free" });
        for header in ["From: ", "To: ", "Subject: ", "Date: ", "Message-ID: ", "MIME-Version: 1.0"] {
            assert!(text.lines().any(|line| line.starts_with(header)), "{header} is missing in\n{text}");
        }
        assert!(text.contains("Message-ID: <20261124-091500-250.x=example.com@newsletter.example>"), "{text}");
        assert!(text.contains("multipart/alternative") && text.contains("text/html"), "{text}");
        assert!(text.is_ascii(), "{text}");
    }

    #[test]
    fn a_name_adds_no_header_and_no_markup() {
        let name = "<b>Eve</b>\r\nBcc: all@example.com";
        let text = rendered("eve@example.com", Reader { name, city: "Here & there", plan: "pro" });
        let headers = text.split("\r\n\r\n").next().unwrap();
        assert!(!headers.lines().any(|line| line.starts_with("Bcc:")), "{text}");
        assert!(text.contains("Hello <b>Eve</b> Bcc: all@example.com,"), "{text}");
        assert_eq!(escaped(name), "&lt;b&gt;Eve&lt;/b&gt;\r\nBcc: all@example.com");
        assert!(html(Reader { name, city: "Here & there", plan: "pro" }).contains("Here &amp; there"));
    }

    #[test]
    fn every_subscriber_with_a_good_address_gets_a_message() {
        let path = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/data/subscribers.csv"));
        for row in crate::subscribers::read(path).unwrap() {
            let Ok(to) = Address::parse(&row.to()) else { continue };
            let reader = Reader { name: &row.name, city: &row.city, plan: &row.plan };
            if let Err(error) = message("id", &to, reader) {
                panic!("{row:?}: {error}");
            }
        }
    }
}
