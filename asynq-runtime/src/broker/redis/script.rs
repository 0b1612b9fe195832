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
    ($($name:ident = $($file:literal)+;)*) => {
        $(pub(super) static $name: Script = Script {
            code: concat!(include_str!("lua/clock.lua"), $(include_str!(concat!("lua/", $file, ".lua"))),+),
            digest: LazyLock::new(|| redis::Script::new($name.code).get_hash().to_owned()),
        };)*

    };
}

scripts! {
    ENQUEUE = "fits" "new_task" "produce/enqueue";
    DEQUEUE = "consume/dequeue";
    RESUME = "consume/resume";
    SETTLE = "fits" "task" "settle/settle";
    WRITE = "settle/write";
    FREE_LOCK = "settle/free_lock";
    FORWARD = "fits" "maintain/forward";
    RECOVER = "maintain/recover";
    EXTEND = "maintain/extend";
    EXTEND_LOCKS = "maintain/extend_locks";
    SWEEP = "maintain/sweep";
    DELETE_EXPIRED = "maintain/delete_expired";
    TRIM_ARCHIVE = "maintain/trim_archive";
    CLAIM = "groups/claim";
    FINISH = "fits" "new_task" "groups/finish";
    PUT_BACK = "groups/put_back";
    LIST_GROUPS = "groups/list";
    FIND_LOST = "groups/find_lost";
    ACQUIRE = "semaphore/acquire";
    ANNOUNCE = "presence/announce";
    BEAT = "presence/beat";
    LIVE = "presence/live";
    STATS = "inspect/stats";
    LIST = "inspect/list";
    AGGREGATING = "inspect/aggregating";
    TASK = "inspect/task";
    MEMORY = "inspect/memory";
    CHANGE = "task" "places" "repair/change";
    BULK = "task" "places" "repair/bulk";
    EDIT = "task" "places" "repair/edit";
    END_ORPHAN = "task" "places" "repair/end_orphan";
    LOOK = "task" "places" "repair/look";
    HOLD = "task" "places" "repair/hold";
    PLACE = "repair/place";
    DROP = "task" "repair/drop";
    RELEASE = "task" "places" "repair/release";
    DELETE_KEYS = "repair/delete_keys";
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

    /// A call of the script with its text, which loads and runs it in one step.
    pub(super) fn with_text(&self, call: &Cmd) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(self.code);
        for argument in call.args_iter().skip(2) {
            if let redis::Arg::Simple(bytes) = argument {
                command.arg(bytes);
            }
        }
        command
    }
}

/// Most tasks and most bytes of messages that one script carries (PERFORMANCE conclusion 5): a longer one would keep Redis
/// from everybody else, and would not be answered in time.
pub(super) const PER_SCRIPT: (usize, usize) = (64, 1 << 20);

/// Cuts `items` into portions of one script each; a single item may be larger than a portion.
pub(super) fn portions<T>(items: &[T], bytes: impl Fn(&T) -> usize) -> Vec<&[T]> {
    let (most, most_bytes) = PER_SCRIPT;
    let (mut portions, mut begin, mut sum) = (Vec::new(), 0, 0);
    for (i, item) in items.iter().enumerate() {
        let size = bytes(item);
        if i > begin && (i - begin == most || sum + size > most_bytes) {
            portions.push(&items[begin..i]);
            (begin, sum) = (i, 0);
        }
        sum += size;
    }
    if begin < items.len() {
        portions.push(&items[begin..]);
    }
    portions
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

    /// Roughly what it costs to send.
    pub(super) fn bytes(&self) -> usize {
        self.command
            .args_iter()
            .map(|argument| if let redis::Arg::Simple(bytes) = argument { bytes.len() } else { 0 })
            .sum()
    }

    /// The command, and the script that it calls.
    pub(super) fn into_parts(self) -> (Option<&'static Script>, Cmd) {
        (self.script, self.command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_are_bounded_in_tasks_and_in_bytes() {
        let cases: [(&[usize], &[usize]); 5] = [
            (&[], &[]),
            (&[1; 64], &[64]),
            (&[1; 130], &[64, 64, 2]),
            (&[600_000, 400_000, 100_000, 5], &[2, 2]),
            (&[9_000_000, 1, 9_000_000], &[1, 1, 1]),
        ];
        for (items, expected) in cases {
            let sizes: Vec<usize> = portions(items, |&size| size).iter().map(|portion| portion.len()).collect();
            assert_eq!(sizes, expected, "{items:?}");
        }
    }

    #[test]
    fn a_call_can_be_sent_with_the_text_in_place_of_the_digest() {
        let (script, call) = RESUME.on(&["a"]).arg("prefix").arg(7).into_parts();
        let text = script.unwrap().with_text(&call);
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
        assert_eq!(tail(&text), tail(&call));
        assert_eq!(tail(&text), [b"1".to_vec(), b"a".to_vec(), b"prefix".to_vec(), b"7".to_vec()]);
    }
}
