//! The ids that a script touches bound its cost to Redis: none reads a whole set, list, zset or keyspace.

use crate::tree::{files, none, read};

const SCRIPTS: &str = "asynq-runtime/src/broker/redis/lua";

/// Reads without a visible bound, and the reason why each has one.
const BOUNDED: [(&str, &str, &str); 11] = [
    (
        "groups/finish.lua",
        "peek('ZRANGE', KEYS[2], 0, -1)",
        "the tasks of the set that it ends, each of which it touches",
    ),
    (
        "places.lua",
        "call('ZRANGE', KEYS[10], 0, -1)",
        "the sets that are being made at this moment; a task may be in any",
    ),
    ("repair/look.lua", "call('HGETALL', key)", "one task"),
    (
        "diagnose/keys.lua",
        "call('SCAN', ARGV[4], 'MATCH', ARGV[3], 'COUNT', tonumber(ARGV[5]))",
        "a slice, for doctor alone",
    ),
    (
        "presence/live.lua",
        "'ZRANGEBYSCORE', KEYS[1], whole((clock(ARGV[1]))), '+inf'",
        "the servers or schedulers that live",
    ),
    ("places.lua", "call('LPOS', KEYS[1], id)", "an operator's look at one task that is deep in pending"),
    ("places.lua", "call('LREM', KEYS[1], 0, id)", "an operator's change of one task that is deep in pending"),
    ("places.lua", "call('LPOS', KEYS[2], id)", "what runs at this moment"),
    ("repair/end_orphan.lua", "call('LREM', KEYS[2], 0, id)", "what runs at this moment"),
    ("schedule/tick.lua", "pcall('LREM', KEYS[2], 0, previous.id)", "what runs at this moment"),
    ("maintain/recover.lua", "call('LPOS', KEYS[1], id, 'RANK', -1)", "what runs at this moment, from the oldest on"),
];

/// Commands whose cost is that of a whole key, or of all keys.
const WHOLE: [&str; 13] = [
    "'SMEMBERS'",
    "'HGETALL'",
    "'HKEYS'",
    "'HVALS'",
    "'KEYS'",
    "'SCAN'",
    "'SORT'",
    "'SUNION'",
    "'SINTER'",
    "'SDIFF'",
    "'ZUNION'",
    "'ZINTER'",
    "'ZDIFF'",
];

/// Whether a line of a script reads a whole key.
fn is_unbounded(line: &str) -> bool {
    let code = line.split("--").next().unwrap_or_default();
    let by_score = ["'ZRANGEBYSCORE'", "'ZRANGEBYLEX'", "'ZREVRANGEBYSCORE'"].iter().any(|name| code.contains(name));
    let to_the_end = code.contains(", 0, -1)") || code.contains(", '0', '-1')");
    let looks_for_nothing = code.contains("'LREM'") && code.contains("''");
    let looks_for_all = code.contains("'LREM'") && code.contains(", 0, ");
    let looks_to_the_end = code.contains("'LPOS'") && !code.contains("'MAXLEN'");
    WHOLE.iter().any(|name| code.contains(name))
        || to_the_end
        || (by_score && !code.contains("'LIMIT'"))
        || looks_for_nothing
        || looks_for_all
        || looks_to_the_end
}

#[test]
fn no_script_reads_a_whole_key_or_all_keys() {
    let mut broken = Vec::new();
    let mut needed = BOUNDED.map(|_| false);
    for path in files(SCRIPTS).into_iter().filter(|path| path.ends_with(".lua")) {
        for line in read(&path).lines().filter(|line| is_unbounded(line)) {
            let known = |(file, text, _): &(&str, &str, &str)| path.ends_with(file) && line.contains(text);
            match BOUNDED.iter().position(known) {
                Some(i) => needed[i] = true,
                None => broken.push(format!(
                    "{path}: `{}` reads all there is: take a part of it, and go on with the next call",
                    line.trim()
                )),
            }
        }
    }
    let unused = BOUNDED
        .iter()
        .zip(needed)
        .filter(|(_, needed)| !needed)
        .map(|((file, text, _), _)| format!("{file} has no `{text}`"));
    broken.extend(unused);
    none(broken, "a script reads all there is");
}

/// Reads whose error does not end the script, and the reason why no task is lost by that.
const TOLERANT: [(&str, &str, &str); 7] = [
    ("prelude/peek.lua", "redis.pcall(...)", "it tells the errors apart"),
    ("consume/dequeue.lua", "pcall('HSTRLEN', key, 'msg')", "the read behind it tells"),
    ("consume/dequeue.lua", "pcall('HMGET', key, is_long and", "it puts the ids back"),
    ("prelude/crashes.lua", "redis.pcall('HGET', key, 'msg')", "a crash less is counted"),
    ("prelude/due.lua", "redis.pcall('ZSCORE', zset, id)", "the exact time stays"),
    ("prelude/task.lua", "redis.pcall('GET', lock)", "the lock stays, in the middle of an outcome"),
    ("inspect/memory.lua", "redis.pcall('MEMORY', 'USAGE', key)", "the estimate is smaller"),
];

#[test]
fn no_script_takes_a_refused_read_for_a_key_that_is_gone() {
    const WRITES: [&str; 12] = [
        "'DEL'",
        "'UNLINK'",
        "'SET'",
        "'HSET'",
        "'HDEL'",
        "'LPUSH'",
        "'LREM'",
        "'ZADD'",
        "'ZREM'",
        "'SREM'",
        "'INCRBY'",
        "'PUBLISH'",
    ];
    let mut broken = Vec::new();
    for path in files(SCRIPTS).into_iter().filter(|path| path.ends_with(".lua")) {
        for line in read(&path).lines() {
            let code = line.split("--").next().unwrap_or_default();
            let is_known = |(file, text, _): &(&str, &str, &str)| path.ends_with(file) && line.contains(text);
            if code.contains("pcall(")
                && !WRITES.iter().any(|name| code.contains(name))
                && !TOLERANT.iter().any(is_known)
            {
                broken.push(format!("{path}: `{}`: ask by `peek`, whose answer is never a refusal", line.trim()));
            }
        }
    }
    none(broken, "an error other than WRONGTYPE says nothing of the key (docs/design/wire.md#rules-for-scripts)");
}

#[test]
fn reads_without_a_bound_are_distinguished_from_others() {
    for line in [
        "call('SMEMBERS', KEYS[1])",
        "local a = call('ZRANGE', k, 0, -1)",
        "call('ZRANGEBYSCORE', k, '-inf', now)",
        "call('LREM', k, 1, '')",
        "call('LREM', k, 0, id)",
        "call('LPOS', k, id)",
    ] {
        assert!(is_unbounded(line), "{line}");
    }
    for line in [
        "-- SMEMBERS",
        "call('ZRANGE', k, 0, most - 1)",
        "call('ZRANGEBYSCORE', k, '-inf', now, 'LIMIT', 0, n)",
        "call('ZRANGE', k, -1, -1)",
        "call('LREM', k, -1, id)",
        "call('LPOS', k, id, 'MAXLEN', 100)",
    ] {
        assert!(!is_unbounded(line), "{line}");
    }
}
