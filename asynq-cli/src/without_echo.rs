//! Reads a line from the terminal without showing it.

use std::io;

use crossterm::{
    event::{Event, EventStream, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
    terminal,
};
use futures_util::StreamExt as _;

/// Reads the keys of a line in raw mode; Ctrl+C ends it with an error of the kind `Interrupted`, Ctrl+D with `UnexpectedEof`.
pub(crate) async fn type_line() -> io::Result<String> {
    /// Leaves raw mode, also where reading fails and where the future is dropped at a signal.
    struct Raw;
    impl Drop for Raw {
        fn drop(&mut self) {
            let _ = terminal::disable_raw_mode();
        }
    }
    terminal::enable_raw_mode()?;
    let _raw = Raw;
    let (mut keys, mut line) = (EventStream::new(), String::new());
    loop {
        if let Event::Key(key) = keys.next().await.ok_or(io::ErrorKind::UnexpectedEof)??
            && key.kind == KeyEventKind::Press
            && press(&mut line, key)?
        {
            return Ok(line);
        }
    }
}

/// Changes the line as a terminal that shows it would, and returns whether the key ends it.
fn press(line: &mut String, key: KeyEvent) -> io::Result<bool> {
    let modifiers = key.modifiers & (KeyModifiers::CONTROL | KeyModifiers::ALT);
    match (key.code, modifiers) {
        (KeyCode::Enter, _) => return Ok(true),
        (KeyCode::Backspace, _) => drop(line.pop()),
        (KeyCode::Char(c), KeyModifiers::NONE) => line.push(c),
        (KeyCode::Tab, _) => line.push('\t'),
        (KeyCode::Char(c), KeyModifiers::CONTROL) => match c {
            'c' => return Err(io::ErrorKind::Interrupted.into()),
            'd' => return Err(io::ErrorKind::UnexpectedEof.into()),
            // In raw mode a line feed, such as of a pasted text, arrives as Ctrl+J.
            'j' => return Ok(true),
            'h' => drop(line.pop()),
            'u' => line.clear(),
            'w' => {
                let rest = line.trim_end().trim_end_matches(|c: char| !c.is_whitespace());
                line.truncate(rest.len());
            }
            _ => {}
        },
        _ => {}
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_edit_the_line_and_no_control_key_is_a_letter_of_it() {
        let plain = |c| (KeyCode::Char(c), KeyModifiers::NONE);
        let ctrl = |c| (KeyCode::Char(c), KeyModifiers::CONTROL);
        let alt = |c| (KeyCode::Char(c), KeyModifiers::ALT);
        for (keys, expected) in [
            (&[][..], "a secret"),
            (&[ctrl('u')], ""),
            (&[ctrl('w')], "a "),
            (&[ctrl('w'), ctrl('w')], ""),
            (&[ctrl('w'), ctrl('w'), ctrl('w')], ""),
            (&[plain('\u{a0}'), plain('b'), ctrl('w')], "a secret\u{a0}"),
            (&[ctrl('h')], "a secre"),
            (&[(KeyCode::Tab, KeyModifiers::NONE)], "a secret\t"),
            (&[(KeyCode::Backspace, KeyModifiers::NONE)], "a secre"),
            (&[(KeyCode::Char('X'), KeyModifiers::SHIFT)], "a secretX"),
            (&[ctrl('a'), alt('x'), (KeyCode::Left, KeyModifiers::NONE)], "a secret"),
        ] {
            let mut line = "a secret".to_owned();
            for &(code, modifiers) in keys {
                assert!(!press(&mut line, KeyEvent::new(code, modifiers)).unwrap());
            }
            assert_eq!(line, expected, "{keys:?}");
        }
        let end = |(code, modifiers)| press(&mut String::new(), KeyEvent::new(code, modifiers));
        assert!(end((KeyCode::Enter, KeyModifiers::NONE)).unwrap() && end(ctrl('j')).unwrap());
        assert_eq!(end(ctrl('c')).unwrap_err().kind(), io::ErrorKind::Interrupted);
        assert_eq!(end(ctrl('d')).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
