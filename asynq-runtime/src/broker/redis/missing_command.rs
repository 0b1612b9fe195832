//! Reads Redis's error for a command that was renamed or forbidden in its configuration.

/// Longest name of a command that is repeated, in bytes.
const LONGEST_NAME: usize = 32;

/// Returns what to say of a command that Redis does not have. Of the error's text only the name of the command is repeated, and only
/// if it is a word: arguments behind it may be a password.
pub(super) fn missing_command(details: &str) -> Option<String> {
    const WHY: &str = "it is renamed or forbidden";
    // The texts of Redis and of Valkey for a command inside a script, which do not name it.
    if ["Unknown Redis command called from", "Unknown command called from"].iter().any(|text| details.contains(text)) {
        return Some(format!("this Redis has no command that asynq's scripts call: {WHY}"));
    }
    let name = details.strip_prefix("unknown command ")?.split(", with args beginning with").next()?;
    let name = name.trim().trim_matches(['`', '\'', '"']);
    let is_word = (1..=LONGEST_NAME).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    let name = if is_word { name.to_ascii_uppercase() } else { "of this name".to_owned() };
    Some(format!("this Redis has no command {name}: {WHY}"))
}

#[cfg(test)]
mod tests {
    use super::{super::reply, *};
    use crate::broker::{BrokerError, BrokerErrorKind};

    fn error(details: &str) -> BrokerError {
        reply::answer(redis::parse_redis_value(format!("-ERR {details}\r\n").as_bytes()).unwrap()).unwrap_err()
    }

    #[test]
    fn a_command_that_redis_does_not_have_is_named_and_its_arguments_are_not() {
        let long = "X".repeat(LONGEST_NAME + 1);
        for (answer, named) in [
            // Redis 6.2, then Redis 7.0 and later and Valkey, each for a command that `rename-command` took away.
            ("unknown command `scan`, with args beginning with: `0`, `secret`, ", "command SCAN:"),
            ("unknown command 'INFO', with args beginning with: ", "command INFO:"),
            ("unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'u' 'secret' ", "command HELLO:"),
            ("unknown command 'FOO'", "command FOO:"),
            ("unknown command 'a secret', with args beginning with: ", "command of this name:"),
            (&format!("unknown command '{long}', with args beginning with: 'secret'"), "command of this name:"),
            ("Unknown Redis command called from script script: 058c, on @user_script:1.", "that asynq's scripts call:"),
            ("Unknown command called from script script: on @user_script:1.", "that asynq's scripts call:"),
            (
                "Error running script (call to f_058c): @user_script:1: @user_script: 1: Unknown Redis command called from \
                 Lua script",
                "that asynq's scripts call:",
            ),
        ] {
            let error = self::error(answer);
            assert_eq!(error.kind(), BrokerErrorKind::Config, "{answer}");
            let text = error.to_string();
            assert!(text.starts_with("Redis refused: this Redis has no command ") && text.contains(named), "{text}");
            let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            assert!(!text.contains("secret") && !source.contains("secret"), "{text} {source}");
        }
    }
}
