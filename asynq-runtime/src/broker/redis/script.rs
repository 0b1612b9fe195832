//! The table of Lua scripts, and calls of them that can be sent once more when Redis has forgotten the script.

use std::sync::LazyLock;

use redis::{Cmd, ToRedisArgs};

/// One Lua file with its digest.
#[derive(Debug)]
pub(super) struct Script {
    code: &'static str,
    digest: LazyLock<String>,
}

macro_rules! scripts {
    ($($name:ident = $file:literal;)*) => {
        $(pub(super) static $name: Script = Script {
            code: concat!(include_str!("lua/clock.lua"), include_str!(concat!("lua/", $file, ".lua"))),
            digest: LazyLock::new(|| redis::Script::new($name.code).get_hash().to_owned()),
        };)*

        #[cfg(test)]
        const ALL: &[(&str, &Script)] = &[$(($file, &$name)),*];
    };
}

scripts! {
    ENQUEUE = "produce/enqueue";
    DEQUEUE = "consume/dequeue";
    RESUME = "consume/resume";
    SETTLE = "settle/settle";
    WRITE = "settle/write";
    FORWARD = "maintain/forward";
    RECOVER = "maintain/recover";
    EXTEND = "maintain/extend";
    SWEEP = "maintain/sweep";
    DELETE_EXPIRED = "maintain/delete_expired";
    TRIM_ARCHIVE = "maintain/trim_archive";
    ANNOUNCE = "presence/announce";
    BEAT = "presence/beat";
    LIVE = "presence/live";
    STATS = "inspect/stats";
    LIST = "inspect/list";
    AGGREGATING = "inspect/aggregating";
    TASK = "inspect/task";
}

impl Script {
    /// A call of the script on `keys`; add its arguments to it.
    pub(super) fn on<K: ToRedisArgs>(&'static self, keys: &[K]) -> Call {
        let mut command = redis::cmd("EVALSHA");
        command.arg(self.digest.as_str()).arg(keys.len());
        for key in keys {
            command.arg(key);
        }
        Call { script: Some(self), command }
    }
}

/// One command to send: a script, or a plain one.
#[derive(Debug, Clone)]
pub(super) struct Call {
    script: Option<&'static Script>,
    command: Cmd,
}

impl Call {
    /// A command that is no script.
    pub(super) fn plain(name: &str) -> Self {
        Self { script: None, command: redis::cmd(name) }
    }

    /// The call with one more argument.
    pub(super) fn arg(mut self, argument: impl ToRedisArgs) -> Self {
        self.command.arg(argument);
        self
    }

    /// Adds one more argument.
    pub(super) fn push(&mut self, argument: impl ToRedisArgs) {
        self.command.arg(argument);
    }

    pub(super) fn command(&self) -> &Cmd {
        &self.command
    }

    /// The same call with the script's text, which loads and runs it in one step. `None` for a plain command.
    pub(super) fn with_text(&self) -> Option<Cmd> {
        let script = self.script?;
        let mut command = redis::cmd("EVAL");
        command.arg(script.code);
        for argument in self.command.args_iter().skip(2) {
            if let redis::Arg::Simple(bytes) = argument {
                command.arg(bytes);
            }
        }
        Some(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_says_what_it_takes_and_returns() {
        for (file, script) in ALL {
            for part in ["-- KEYS ", "-- ARGV ", "-- Returns "] {
                assert!(script.code.contains(part), "{file}.lua lacks {part:?}");
            }
        }
    }

    #[test]
    fn a_call_can_be_sent_with_the_text_in_place_of_the_digest() {
        let call = RESUME.on(&["a"]).arg("prefix").arg(7);
        let text = call.with_text().unwrap();
        let tail = |command: &Cmd| {
            command
                .args_iter()
                .skip(2)
                .map(|argument| match argument {
                    redis::Arg::Simple(bytes) => bytes.to_vec(),
                    _ => Vec::new(),
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(tail(&text), tail(call.command()));
        assert_eq!(tail(&text), [b"1".to_vec(), b"a".to_vec(), b"prefix".to_vec(), b"7".to_vec()]);
        assert!(Call::plain("PING").with_text().is_none());
    }
}
