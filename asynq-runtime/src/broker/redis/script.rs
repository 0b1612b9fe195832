//! The table of Lua scripts, and calls of them that can be sent once more when Redis has forgotten the script.

use std::sync::LazyLock;

use redis::{Cmd, ToRedisArgs};

/// A Lua file with its digest.
#[derive(Debug)]
pub(super) struct Script {
    code: &'static str,
    digest: LazyLock<String>,
}

/// Declares scripts. The names in brackets are the prelude files in front of the script, in their order, after the
/// clock and the questions that each script has.
macro_rules! scripts {
    ($($name:ident = $([$($prelude:ident)+])? $file:literal;)*) => {
        $(pub(super) static $name: Script = Script {
            code: concat!(
                include_str!("lua/prelude/clock.lua"),
                include_str!("lua/prelude/peek.lua"),
                $($(include_str!(concat!("lua/prelude/", stringify!($prelude), ".lua")),)+)?
                include_str!(concat!("lua/", $file, ".lua"))
            ),
            digest: LazyLock::new(|| redis::Script::new($name.code).get_hash().to_owned()),
        };)*
    };
}

scripts! {
    ENQUEUE = [fits receipt new_task due] "produce/enqueue";
    ENQUEUE_ONE = "produce/one";
    REPLACE = [receipt new_task due place_new task places] "produce/replace";
    DEQUEUE = [task crashes orphans] "consume/dequeue";
    EXTEND_UNANSWERED = [unanswered] "consume/extend_unanswered";
    RELEASE_UNANSWERED = [unanswered] "consume/release_unanswered";
    DONE = [fits count fence runs leave_active] "settle/done";
    SETTLE = [fits due count task fence runs leave_active probe] "settle/settle";
    WRITE = [fence] "settle/write";
    FREE_LOCK = [fence] "settle/free_lock";
    FORWARD = [fits] "maintain/forward";
    RECOVER = [task crashes runs] "maintain/recover";
    EXTEND = [fence] "maintain/extend";
    EXTEND_LOCKS = [fence] "maintain/extend_locks";
    SWEEP = [orphans] "maintain/sweep";
    DELETE_EXPIRED = "maintain/delete_expired";
    TRIM_ARCHIVE = [task] "maintain/trim_archive";
    CLAIM = [ripe orphans] "groups/claim";
    RIPE = [group_step ripe] "groups/ripe";
    FINISH = [fits new_task due place_new probe] "groups/finish";
    RELEASE_SETS = "groups/release_sets";
    LIST_GROUPS = "groups/list";
    FIND_LOST = "groups/find_lost";
    ACQUIRE = "semaphore/acquire";
    RELEASE_TOKEN = "semaphore/release";
    TICK = [fits new_task due place_new task places held cron] "schedule/tick";
    PLAN = [cron] "schedule/plan";
    ENTRY = [cron] "schedule/entry";
    PAUSE_ENTRY = [cron] "schedule/pause";
    LEAD = "schedule/lead";
    DROP_SEEN = "schedule/drop";
    SHOW_ENTRIES = "schedule/show";
    RECORD = "schedule/record";
    ANNOUNCE = "presence/announce";
    BEAT = "presence/beat";
    LIVE = "presence/live";
    STATS = [group_step] "inspect/stats";
    GROUPED = [group_step] "inspect/grouped";
    LIST = [task crashes brief] "inspect/list";
    AGGREGATING = [task crashes brief group_step] "inspect/aggregating";
    TASK = [task crashes brief] "inspect/task";
    MEMORY = [group_step] "inspect/memory";
    EXAMINE_CONTAINER = [task places held] "diagnose/container";
    EXAMINE_KEYS = [task places] "diagnose/keys";
    IS_LOST = [task places] "diagnose/lost";
    CHANGE = [task places held] "repair/change";
    BULK = [task places held group_step] "repair/bulk";
    EDIT = [new_task task places held] "repair/edit";
    END_ORPHAN = [due count task places] "repair/end_orphan";
    LOOK = [task places held carried] "repair/look";
    HOLD = [task places held] "repair/hold";
    INSERT_MOVED = [task new_task held] "repair/insert_moved";
    DROP = [task held] "repair/drop";
    RELEASE = [due task places held] "repair/release";
    PAUSE = "repair/pause";
    UNLOCK = "repair/unlock";
    CLEAR_GROUPS = "repair/clear_groups";
    DELETE_KEYS = "repair/delete_keys";
    KEEP_SHAPE = "shapes/keep";
}

/// Returns the text of a Lua function that runs the files with keys and arguments of its own.
macro_rules! function {
    ($name:literal, $($file:literal)+) => {
        concat!(
            "local function ", $name, "(KEYS, ARGV)\n",
            $(include_str!(concat!("lua/", $file, ".lua")),)+
            "end\n"
        )
    };
}

/// All steps of a move to another queue.
pub(super) static MOVE: Script = Script {
    code: concat!(
        include_str!("lua/prelude/clock.lua"),
        include_str!("lua/prelude/peek.lua"),
        include_str!("lua/prelude/due.lua"),
        include_str!("lua/prelude/task.lua"),
        include_str!("lua/prelude/new_task.lua"),
        include_str!("lua/prelude/held.lua"),
        include_str!("lua/prelude/carried.lua"),
        function!("hold", "prelude/places" "repair/hold"),
        function!("insert_moved", "repair/insert_moved"),
        function!("drop", "repair/drop"),
        function!("release", "prelude/places" "repair/release"),
        include_str!("lua/repair/move.lua")
    ),
    digest: LazyLock::new(|| redis::Script::new(MOVE.code).get_hash().to_owned()),
};

impl Script {
    /// Begins a call of the script on `keys`; the caller adds its arguments.
    pub(super) fn on<K: ToRedisArgs>(&'static self, keys: &[K]) -> Call {
        let mut call = self.on_many(keys.len(), 0, 0);
        keys.iter().for_each(|key| call.push(key));
        call
    }

    /// Begins a call of the script on so many keys, which the caller adds before the arguments. `arguments` and `bytes`
    /// estimate the whole call.
    pub(super) fn on_many(&'static self, keys: usize, arguments: usize, bytes: usize) -> Call {
        let mut command = Cmd::with_capacity(3 + keys + arguments, bytes);
        command.arg("EVALSHA").arg(self.digest.as_str()).arg(keys);
        Call { script: Some(self), command, beside: None, asking: false, with_next: false }
    }

    /// Returns a call of the script that runs those of `steps`, as `move.lua` says.
    pub(super) fn of_steps(&'static self, steps: &[Call]) -> Call {
        // Borrowed, because each step may carry a long message several times.
        let (mut keys, mut arguments) = (Vec::<&[u8]>::new(), Vec::<(usize, Vec<&[u8]>)>::new());
        for step in steps {
            // EVALSHA, digest, number of keys, keys, arguments.
            let mut parts = words(&step.command).skip(2);
            let n = parts.next().and_then(|n| std::str::from_utf8(n).ok()?.parse::<usize>().ok()).unwrap_or_default();
            keys.extend(parts.by_ref().take(n));
            arguments.push((n, parts.collect()));
        }
        let mut call = self.on(&keys);
        for (n, own) in arguments {
            call = call.arg(n).arg(own.len());
            own.into_iter().for_each(|argument| call.push(argument));
        }
        call
    }

    /// Returns a call of the script with its text, which loads and runs it in one step.
    pub(super) fn with_text(&self, call: &Cmd) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(self.code);
        for word in words(call).skip(2) {
            command.arg(word);
        }
        command
    }
}

/// Returns the words of a command.
pub(super) fn words(command: &Cmd) -> impl Iterator<Item = &[u8]> {
    command.args_iter().filter_map(|word| match word {
        redis::Arg::Simple(word) => Some(word),
        _ => None,
    })
}

/// Most tasks and most bytes of messages that one script carries: a longer script would block all other clients of
/// Redis, and would not be answered in time.
pub(super) const PER_SCRIPT: (usize, usize) = (64, 1 << 20);

/// Longer messages go beside the script: Lua hashes each text that it gets, which takes Redis a nanosecond per byte.
pub(super) const LONGEST_IN_SCRIPT: usize = 16 << 10;

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

/// A command to send: a script or a plain one.
#[derive(Debug, Clone)]
pub(super) struct Call {
    script: Option<&'static Script>,
    command: Cmd,
    /// The key whose server gets a command that names no key.
    beside: Option<String>,
    /// Whether `ASKING` goes before the command, for a node that is about to get the slot of its keys.
    asking: bool,
    /// Whether the call is of no use without the one behind it.
    pub(super) with_next: bool,
}

/// Commands without a key: any server may answer them. One that concerns a certain server, such as `SCAN`, says
/// [`beside`](Call::beside) which key it means.
const KEYLESS: [&str; 10] =
    ["PING", "INFO", "TIME", "PUBLISH", "SCAN", "CLUSTER", "CONFIG", "WAIT", "WAITAOF", "SLOWLOG"];

impl Call {
    /// Begins a command that is not a script.
    pub(super) fn plain(name: &str) -> Self {
        Self { script: None, command: redis::cmd(name), beside: None, asking: false, with_next: false }
    }

    /// Sends a command that names no key to the server which keeps `key`.
    pub(super) fn beside(mut self, key: impl Into<String>) -> Self {
        self.beside = Some(key.into());
        self
    }

    /// Returns the key that decides where the call goes: the first key of a script, or the first argument of a command;
    /// `None` if any server will do.
    #[cfg_attr(not(feature = "cluster"), allow(dead_code))]
    pub(super) fn routing_key(&self) -> Option<&[u8]> {
        if let Some(key) = &self.beside {
            return Some(key.as_bytes());
        }
        let argument = |n| words(&self.command).nth(n);
        let name = argument(0)?;
        match &self.script {
            // EVALSHA, digest, number of keys, keys.
            Some(_) => argument(3),
            None if KEYLESS.iter().any(|keyless| name.eq_ignore_ascii_case(keyless.as_bytes())) => None,
            // MEMORY USAGE key, OBJECT ENCODING key.
            None if [&b"MEMORY"[..], b"OBJECT"].iter().any(|two| name.eq_ignore_ascii_case(two)) => argument(2),
            None => argument(1),
        }
    }

    /// Makes the call go out in one write with the one behind it.
    pub(super) fn with_next(mut self) -> Self {
        self.with_next = true;
        self
    }

    /// Sets whether `ASKING` goes before the call, for a node that is about to get the slot of its keys.
    #[cfg(feature = "cluster")]
    pub(super) fn asking(mut self, asking: bool) -> Self {
        self.asking = asking;
        self
    }

    /// Returns the call with one more argument.
    pub(super) fn arg(mut self, argument: impl ToRedisArgs) -> Self {
        self.command.arg(argument);
        self
    }

    /// Returns the call with one more argument, a number as scripts read it: '' for `None`.
    pub(super) fn optional(self, number: Option<impl ToString>) -> Self {
        self.arg(number.map(|number| number.to_string()).unwrap_or_default())
    }

    /// Adds one more argument.
    pub(super) fn push(&mut self, argument: impl ToRedisArgs) {
        self.command.arg(argument);
    }

    /// Returns roughly how many bytes are sent.
    pub(super) fn bytes(&self) -> usize {
        words(&self.command).map(<[u8]>::len).sum()
    }

    /// Returns the script of the call, whether `ASKING` goes before it, and the command.
    pub(super) fn into_parts(self) -> (Option<&'static Script>, bool, Cmd) {
        (self.script, self.asking, self.command)
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
    fn a_call_goes_where_its_first_key_is() {
        let cases = [
            (DEQUEUE.on(&["a", "b"]).arg("c"), Some("a")),
            (Call::plain("LLEN").arg("a"), Some("a")),
            (Call::plain("DEL").arg("a").arg("b"), Some("a")),
            (Call::plain("memory").arg("USAGE").arg("a"), Some("a")),
            (Call::plain("TIME"), None),
            (Call::plain("publish").arg("asynq:cancel").arg("id"), None),
            (Call::plain("SCAN").arg(0).arg("MATCH").arg("a*"), None),
            (Call::plain("SCAN").arg(0).beside("b"), Some("b")),
        ];
        for (call, expected) in cases {
            assert_eq!(call.routing_key(), expected.map(str::as_bytes), "{call:?}");
        }
    }

    #[test]
    fn the_calls_of_steps_become_one_with_all_keys_in_front() {
        let steps = [HOLD.on(&["a", "b"]).arg("x"), DROP.on(&["a"]).arg("y").arg("")];
        let (_, _, call) = MOVE.of_steps(&steps).into_parts();
        let words: Vec<&[u8]> = words(&call).skip(2).collect();
        assert_eq!(words, ["3", "a", "b", "a", "2", "1", "x", "1", "2", "y", ""].map(str::as_bytes));
    }

    #[test]
    fn a_call_can_be_sent_with_the_text_in_place_of_the_digest() {
        let (script, _, call) = DEQUEUE.on(&["a"]).arg("prefix").arg(7).into_parts();
        let text = script.unwrap().with_text(&call);
        let tail = |command| words(command).skip(2).map(<[u8]>::to_vec).collect::<Vec<_>>();
        assert_eq!(tail(&text), tail(&call));
        assert_eq!(tail(&text), ["1", "a", "prefix", "7"].map(str::as_bytes));
    }
}
