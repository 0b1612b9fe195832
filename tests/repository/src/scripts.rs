//! The ids that a script touches bound its cost to Redis: none reads a whole set, list, zset or keyspace.

use crate::tree::{files, none, read};

const SCRIPTS: &str = "asynq-runtime/src/broker/redis/lua";

/// Reads without a visible bound, and the reason why each has one.
const BOUNDED: [(&str, &str, &str); 10] = [
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
    ("prelude/carried.lua", "redis.call('HGETALL', key)", "one task"),
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
    ("consume/dequeue.lua", "pcall('HMGET', key, is_long and", "it pushes the ids to pending again"),
    ("prelude/crashes.lua", "redis.pcall('HGET', key, 'msg')", "a crash less is counted"),
    ("prelude/due.lua", "redis.pcall('ZSCORE', zset, id)", "the exact time stays"),
    ("prelude/task.lua", "redis.pcall('GET', lock)", "the lock stays, in the middle of an outcome"),
    ("inspect/memory.lua", "redis.pcall('MEMORY', 'USAGE', key)", "the estimate is smaller"),
];

#[test]
fn no_script_takes_a_refused_read_for_a_key_that_is_gone() {
    const WRITES: [&str; 13] = [
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
        "'HINCRBY'",
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

/// Searches of a list that begin at its head, or at an end that another function has chosen, and the reason why the ids are near it.
const FROM_THE_HEAD: [(&str, &str, &str); 3] = [
    ("consume/dequeue.lua", "1", "this call has pushed the id to the head"),
    ("consume/release_unanswered.lua", "#back", "`unanswered` has found the tasks from the head on"),
    ("prelude/places.lua", "from", "`near` has found the id at this end"),
];

/// Returns the count of each LREM of a line, as the script writes it: LREM searches from the head if the count is positive.
fn lrem_counts(line: &str) -> Vec<&str> {
    let code = line.split("--").next().unwrap_or_default();
    let arguments = code.split("'LREM', ").skip(1);
    arguments.map(|arguments| top_level(top_level(arguments).1).0).collect()
}

/// Splits at the first comma that is outside of brackets.
fn top_level(arguments: &str) -> (&str, &str) {
    let mut depth = 0;
    for (at, c) in arguments.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => return (&arguments[..at], arguments[at + 1..].trim_start()),
            _ => {}
        }
    }
    (arguments, "")
}

/// Whether a search begins at the tail, at the end that was looked for, or, with 0, is bounded as [`BOUNDED`] says.
fn has_a_direction(count: &str) -> bool {
    count.starts_with('-') || count == "0" || ["side", "near"].iter().any(|end| count.contains(end))
}

#[test]
fn every_search_of_a_list_begins_at_the_end_near_which_the_ids_are() {
    let (mut broken, mut needed) = (Vec::new(), FROM_THE_HEAD.map(|_| false));
    for path in files(SCRIPTS).into_iter().filter(|path| path.ends_with(".lua")) {
        let text = read(&path);
        for count in text.lines().flat_map(lrem_counts).filter(|count| !has_a_direction(count)) {
            let is_known = |(file, known, _): &(&str, &str, &str)| path.ends_with(file) && count == *known;
            match FROM_THE_HEAD.iter().position(is_known) {
                Some(i) => needed[i] = true,
                None => broken.push(format!(
                    "{path}: LREM with the count `{count}` searches from the head: search from the tail, or say why the ids are near"
                )),
            }
        }
    }
    let unused = FROM_THE_HEAD.iter().zip(needed).filter(|(_, needed)| !needed);
    broken.extend(unused.map(|((file, count, _), _)| format!("{file} has no LREM with the count `{count}`")));
    none(broken, "a script searches a whole list for ids at its other end");
}

#[test]
fn the_count_of_a_search_is_read_from_its_line() {
    for (line, expected) in [
        ("call('LREM', list, -gone, no_id)", vec![("-gone", true)]),
        ("call('LREM', list, gone, no_id)", vec![("gone", false)]),
        ("if redis.call('LREM', active, (side_of(active, id)), id) > 0 then", vec![("(side_of(active, id))", true)]),
        ("call('LREM', KEYS[1], side[id], id) call('LREM', KEYS[1], 1, id)", vec![("side[id]", true), ("1", false)]),
        ("-- LREM begins; call('LREM', list, 1, id)", vec![]),
    ] {
        let found: Vec<_> = lrem_counts(line).into_iter().map(|count| (count, has_a_direction(count))).collect();
        assert_eq!(found, expected, "{line}");
    }
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
