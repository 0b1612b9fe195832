//! Reads the facts that a Redis reports about itself: INFO, TIME and its list of slow calls.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use redis::Value;

use super::super::{
    super::{BrokerError, Fact, Node, SlowCall, WriteRefusal},
    RedisBroker, reply,
    script::Call,
    url::Endpoints,
};

/// Number of slow calls to ask for.
const SLOW_CALLS: usize = 20;
/// Facts one of which is not `ok` while Redis cannot save its data.
const SAVES: [&str; 2] = ["rdb_last_bgsave_status", "aof_last_write_status"];
/// The number of replicas that follow closely enough. INFO has it only if `min-replicas-to-write` is set.
const GOOD_REPLICAS: &str = "min_slaves_good_slaves";

impl RedisBroker {
    pub(super) async fn describe_nodes(&self) -> Result<Vec<Node>, BrokerError> {
        let begun = Utc::now();
        let times = self.looking().send_to_each(Call::plain("TIME")).await?;
        let took = (Utc::now() - begun).max(TimeDelta::zero());
        let infos = self.looking().send_to_each(Call::plain("INFO")).await?;
        let slow = self.looking().send_to_each(Call::plain("SLOWLOG").arg("GET").arg(SLOW_CALLS)).await?;
        let is_cluster = matches!(self.role.target.endpoints, Endpoints::Cluster(_));
        let mut clusters = match is_cluster {
            true => self.looking().send_to_each(Call::plain("CLUSTER").arg("INFO")).await?.into_iter(),
            false => Vec::new().into_iter(),
        };
        let endpoints = self.looking().endpoints().await?;
        if times.len() != infos.len() || times.len() != slow.len() || times.len() != endpoints.len() {
            return Err(reply::unexpected("the nodes of the cluster changed meanwhile; ask again"));
        }
        let (place, is_one) = (self.role.target.to_string(), times.len() == 1);
        let mut nodes = Vec::new();
        for (((time, info), slow), endpoint) in times.into_iter().zip(infos).zip(slow).zip(endpoints) {
            // The ACL may forbid these commands; the node is listed all the same.
            let mut facts = info.ok().and_then(reply::text).map(|info| read_info(&info)).unwrap_or_default();
            if let Some(cluster) = clusters.next().and_then(Result::ok).and_then(reply::text) {
                facts.extend(read_info(&format!("# Cluster info\n{cluster}")));
            }
            let slow_calls = slow.ok().map(read_slow_calls);
            let mut node = Node { facts, slow_calls, endpoint, ..Node::new("", "") };
            node.address = match node.fact("tcp_port") {
                Some(port) if !is_one => format!("{place} (node on port {port})"),
                _ => place.clone(),
            };
            node.version = version(&node);
            if let Some(time) = time.ok().as_ref().and_then(reply::time) {
                node.ahead = time - (begun + took / 2);
                node.precision = (took / 2).to_std().unwrap_or_default();
            }
            nodes.push(node);
        }
        self.note_write_refusals(&mut nodes).await?;
        Ok(nodes)
    }

    /// Notes why nodes take no writes. A node is asked for more than INFO tells only where INFO raises the question, so that a sound
    /// Redis gets no command that its ACL may forbid.
    async fn note_write_refusals(&self, nodes: &mut [Node]) -> Result<(), BrokerError> {
        let (mut wanted, mut pings) = (Vec::new(), Vec::new());
        if nodes.iter().any(|node| node.number(GOOD_REPLICAS).is_some_and(|good| good > 0)) {
            let call = Call::plain("CONFIG").arg("GET").arg("min-replicas-to-write");
            wanted = self.looking().send_to_each(call).await?;
        }
        if nodes.iter().any(|node| SAVES.iter().any(|save| node.fact(save).is_some_and(|status| status != "ok"))) {
            pings = self.looking().send_to_each(Call::plain("PING")).await?;
        }
        for (i, node) in nodes.iter_mut().enumerate() {
            let wanted = wanted.get(i).and_then(|answer| read_setting(answer.as_ref().ok()?));
            let ping = pings.get(i).and_then(|answer| answer.as_ref().err());
            node.refuses_writes = write_refusal(node, wanted, ping);
        }
        Ok(())
    }
}

/// Returns why a node takes no writes, by its facts, by the number of replicas that it asks for, if it told, and by its refusal of a
/// `PING`: a Redis that cannot save refuses that, too, but only where `stop-writes-on-bgsave-error` is on.
fn write_refusal(node: &Node, wanted: Option<u64>, ping: Option<&BrokerError>) -> Option<WriteRefusal> {
    if node.fact("role") == Some("slave") && node.fact("slave_read_only") != Some("0") {
        return Some(WriteRefusal::Replica);
    }
    if node.number(GOOD_REPLICAS).is_some_and(|good| good < wanted.unwrap_or(1)) {
        return Some(WriteRefusal::TooFewReplicas);
    }
    ping.is_some_and(reply::cannot_save).then_some(WriteRefusal::CannotSave)
}

/// Reads the number in an answer to `CONFIG GET` of one setting.
fn read_setting(answer: &Value) -> Option<u64> {
    let value = match answer {
        Value::Map(pairs) => &pairs.first()?.1,
        Value::Array(pair) => pair.get(1)?,
        _ => return None,
    };
    reply::count(value)
}

/// Returns the version of a server for people. Valkey has one of its own beside the one of Redis that it stands in for.
fn version(node: &Node) -> String {
    match node.fact("valkey_version") {
        Some(version) => format!("Valkey {version}"),
        None => node.fact("redis_version").unwrap_or("unknown").to_owned(),
    }
}

/// Reads `# Section` and `name:value` lines.
fn read_info(info: &str) -> Vec<Fact> {
    let mut section = String::new();
    let mut facts = Vec::new();
    for line in info.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('#') {
            section = name.trim().to_ascii_lowercase();
        } else if let Some((name, value)) = line.split_once(':') {
            facts.push(Fact { section: section.clone(), name: name.to_owned(), value: value.to_owned() });
        }
    }
    facts
}

fn read_slow_calls(value: Value) -> Vec<SlowCall> {
    let entry = |entry: Value| {
        let parts = reply::array(entry).ok()?;
        let [_, at, micros, words, ..] = &parts[..] else { return None };
        let words = reply::array(words.clone()).ok()?.into_iter().filter_map(reply::text);
        Some(SlowCall {
            at: DateTime::from_timestamp(reply::number(at)?, 0)?,
            took: Duration::from_micros(reply::count(micros)?),
            command: summary(words),
        })
    };
    reply::array(value).map(|entries| entries.into_iter().filter_map(entry).collect()).unwrap_or_default()
}

/// Returns the command and the names of asynq's keys. Any other argument may be a payload, so it is left out.
fn summary(words: impl Iterator<Item = String>) -> String {
    let mut words = words;
    let command = words.next().unwrap_or_default();
    words
        .filter(|word| word.starts_with("asynq:") && word.len() <= 512)
        .fold(command, |summary, key| summary + " " + &key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn info_is_read_by_sections() {
        let facts =
            read_info("# Server\r\nredis_version:7.0.15\r\n\r\n# Memory\r\nmaxmemory_policy:noeviction\r\nrubbish\r\n");
        let fact = |section: &str, name: &str, value: &str| Fact {
            section: section.into(),
            name: name.into(),
            value: value.into(),
        };
        assert_eq!(
            facts,
            [fact("server", "redis_version", "7.0.15"), fact("memory", "maxmemory_policy", "noeviction")]
        );
    }

    #[test]
    fn a_version_is_that_of_the_program_and_not_of_the_redis_that_it_stands_in_for() {
        let shown = |info: &str| version(&Node { facts: read_info(info), ..Node::new("", "") });
        assert_eq!(shown("# Server\r\nredis_version:8.0.2\r\n"), "8.0.2");
        assert_eq!(shown("# Server\r\nredis_version:7.2.4\r\nvalkey_version:9.1.2\r\n"), "Valkey 9.1.2");
        assert_eq!(shown("# Server\r\n"), "unknown");
    }

    #[test]
    fn the_reason_why_a_redis_takes_no_writes_is_read_from_what_it_tells() {
        let misconf = redis::parse_redis_value(b"-MISCONF Redis is configured to save RDB snapshots\r\n").unwrap();
        let misconf = reply::answer(misconf).unwrap_err();
        let denied = reply::unexpected("no PING");
        let master = "role:master\nrdb_last_bgsave_status:ok\n";
        for (info, wanted, ping, expected) in [
            (master.to_owned(), None, None, None),
            (format!("{master}min_slaves_good_slaves:0"), None, None, Some(WriteRefusal::TooFewReplicas)),
            (format!("{master}min_slaves_good_slaves:1"), None, None, None),
            (format!("{master}min_slaves_good_slaves:1"), Some(2), None, Some(WriteRefusal::TooFewReplicas)),
            (format!("{master}min_slaves_good_slaves:2"), Some(2), None, None),
            ("role:slave\nslave_read_only:1".to_owned(), None, None, Some(WriteRefusal::Replica)),
            ("role:slave\nmin_slaves_good_slaves:0".to_owned(), None, None, Some(WriteRefusal::Replica)),
            ("role:slave\nslave_read_only:0".to_owned(), None, None, None),
            (master.to_owned(), None, Some(&misconf), Some(WriteRefusal::CannotSave)),
            (master.to_owned(), None, Some(&denied), None),
        ] {
            let node = Node { facts: read_info(&info), ..Node::new("", "") };
            assert_eq!(write_refusal(&node, wanted, ping), expected, "{info} {wanted:?}");
        }
    }

    #[test]
    fn a_setting_is_read_from_both_protocols() {
        let (name, value) = (|| text("min-replicas-to-write"), || text("2"));
        assert_eq!(read_setting(&Value::Array(vec![name(), value()])), Some(2));
        assert_eq!(read_setting(&Value::Map(vec![(name(), value())])), Some(2));
        for nothing in [Value::Array(Vec::new()), Value::Map(Vec::new()), Value::Okay] {
            assert_eq!(read_setting(&nothing), None);
        }
    }

    #[test]
    fn a_slow_call_shows_keys_and_nothing_of_a_payload() {
        let words = ["EVALSHA", "0f3a", "2", "asynq:{q}:pending", "asynq:{q}:t:1", "{\"card\":\"4111\"}"].map(text);
        let entry = |at: Value| Value::Array(vec![Value::Int(7), at, Value::Int(12_000), Value::Array(words.to_vec())]);
        let calls = read_slow_calls(Value::Array(vec![entry(Value::Int(1_700_000_000)), entry(text("soon"))]));
        assert_eq!(calls.len(), 1, "an entry that cannot be read is left out");
        assert_eq!(calls[0].command, "EVALSHA asynq:{q}:pending asynq:{q}:t:1");
        assert_eq!(calls[0].took, Duration::from_millis(12));
        assert!(read_slow_calls(Value::Okay).is_empty());
    }
}
