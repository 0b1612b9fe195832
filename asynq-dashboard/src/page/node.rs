//! One server or file that keeps tasks: its most important facts, its slow calls, and all of its facts.

use std::time::Duration;

use asynq_runtime::broker::{Fact, Node, SlowCall};
use chrono::{DateTime, TimeDelta, Utc};
use maud::{Markup, html};

use super::{
    format::{count, distance, percent, size, span, when},
    part::text::{BLOCK, beginning, cell},
};

/// How far a clock may be off before the page says so.
const APART: TimeDelta = TimeDelta::seconds(1);

/// One figure.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Card {
    name: &'static str,
    value: String,
    /// A remark in small letters.
    note: String,
    /// Whether tasks are in danger.
    is_alarm: bool,
}

impl Card {
    fn new(name: &'static str, value: impl Into<String>) -> Self {
        Self { name, value: value.into(), note: String::new(), is_alarm: false }
    }

    fn note(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    fn alarm(self, is_alarm: bool) -> Self {
        Self { is_alarm, ..self }
    }
}

/// Renders the panel of one node.
pub(super) fn render(number: usize, node: &Node, now: DateTime<Utc>) -> Markup {
    html! {
        section.panel id={ "node-" (number) } aria-label={ "Node " (cell(&node.address)) } {
            h2 { (cell(&node.address)) }
            dl.figures {
                @for card in cards(node, now) {
                    div { dt { (card.name) } dd.alarm[card.is_alarm] { (cell(&card.value)) @if !card.note.is_empty() { " " small { (beginning(&card.note, BLOCK)) } } } }
                }
            }
            @if let Some(skew) = skew(node) { p.notice { (skew) } }
            @if let Some(calls) = &node.slow_calls { (slow_calls(calls, now)) }
            @if !node.facts.is_empty() { (facts(&node.facts)) }
        }
    }
}

/// Returns the most important facts of a node, as far as the node reports them.
fn cards(node: &Node, now: DateTime<Utc>) -> Vec<Card> {
    let bytes = |name, fact: &str| node.number(fact).map(|bytes| Card::new(name, size(bytes)));
    let known: Vec<Option<Card>> = if node.fact("page_size").is_some() {
        let (file, log) = (bytes("File", "bytes"), bytes("Write-ahead log", "wal_bytes"));
        vec![file, log, free(node), disk(node), durability(node), check(node)]
    } else {
        vec![
            memory(node),
            eviction(node),
            persistence(node, now),
            clients(node),
            uptime(node),
            clock(node),
            cluster(node),
        ]
    };
    let version = Card::new("Version", &node.version).note(node.mode().unwrap_or_default());
    std::iter::once(version).chain(known.into_iter().flatten()).collect()
}

fn memory(node: &Node) -> Option<Card> {
    let used = node.number("used_memory")?;
    let card = Card::new("Memory used", size(used));
    Some(match node.number("maxmemory") {
        Some(most @ 1..) => {
            let note = format!("of {}, {}", size(most), percent(used, most));
            card.note(note).alarm(used >= most - most / 10)
        }
        _ => card.note("no limit"),
    })
}

fn eviction(node: &Node) -> Option<Card> {
    let policy = node.fact("maxmemory_policy")?;
    let is_alarm = policy != "noeviction";
    let card = Card::new("Eviction", policy).alarm(is_alarm);
    Some(if is_alarm { card.note("tasks may be thrown away") } else { card })
}

fn persistence(node: &Node, now: DateTime<Utc>) -> Option<Card> {
    let log = node.number("aof_enabled")? == 1;
    let failed = ["rdb_last_bgsave_status", "aof_last_write_status", "aof_last_bgrewrite_status"]
        .into_iter()
        .find(|name| node.fact(name).is_some_and(|status| status != "ok"));
    let card = Card::new("Persistence", if log { "append-only file" } else { "snapshots only" });
    if let Some(failed) = failed {
        return Some(card.note(format!("{failed} is not ok")).alarm(true));
    }
    let saved = node.number("rdb_last_save_time").and_then(|at| DateTime::from_timestamp(i64::try_from(at).ok()?, 0));
    let unsaved = node.number("rdb_changes_since_last_save").unwrap_or_default();
    let saved = saved.map_or_else(String::new, |at| format!("snapshot {}, ", distance(now, at)));
    Some(card.note(format!("{saved}{} changes since", count(unsaved))))
}

fn clients(node: &Node) -> Option<Card> {
    let all = node.number("connected_clients")?;
    let most = node.number("maxclients").unwrap_or_default();
    let mut note = format!("{} blocked", count(node.number("blocked_clients").unwrap_or_default()));
    if most > 0 {
        note = format!("of {}, {note}", count(most));
    }
    Some(Card::new("Clients", count(all)).note(note).alarm(most > 0 && all >= most - most / 10))
}

fn uptime(node: &Node) -> Option<Card> {
    Some(Card::new("Uptime", span(Duration::from_secs(node.number("uptime_in_seconds")?))))
}

fn clock(node: &Node) -> Option<Card> {
    if node.precision.is_zero() {
        return None;
    }
    let (apart, direction) = (node.ahead.abs(), if node.ahead < TimeDelta::zero() { "behind" } else { "ahead" });
    let apart = span(apart.to_std().unwrap_or_default());
    Some(
        Card::new("Clock", format!("{apart} {direction}"))
            .note(format!("± {}", span(node.precision)))
            .alarm(is_apart(node)),
    )
}

fn cluster(node: &Node) -> Option<Card> {
    let state = node.fact("cluster_state")?;
    let many = |name: &str| count(node.number(name).unwrap_or_default());
    let note = format!("{} masters with slots, {} nodes", many("cluster_size"), many("cluster_known_nodes"));
    Some(Card::new("Cluster", state).note(note).alarm(state != "ok"))
}

fn free(node: &Node) -> Option<Card> {
    let free = node.number("free_pages")?;
    let bytes = free.saturating_mul(node.number("page_size")?);
    let part = percent(free, node.number("pages").unwrap_or_default());
    Some(Card::new("Free pages", count(free)).note(format!("{}, {part}", size(bytes))))
}

fn disk(node: &Node) -> Option<Card> {
    let (room, reserve) = (node.number("disk_room_bytes")?, node.number("disk_reserve_bytes")?);
    let is_short = room < reserve;
    let note = if is_short {
        "nothing can be enqueued".to_owned()
    } else {
        format!("the last {} take no new task", size(reserve))
    };
    Some(Card::new("Free for the file", size(room)).note(note).alarm(is_short))
}

fn durability(node: &Node) -> Option<Card> {
    let durability = node.fact("durability")?;
    let means = if durability == "full" { "survives a power cut" } else { "a power cut may cost the last moments" };
    Some(Card::new("Durability", durability).note(means))
}

fn check(node: &Node) -> Option<Card> {
    let result = node.fact("quick_check")?;
    let card = Card::new("Quick check", result.split(':').next().unwrap_or(result));
    Some(match result.split_once(':') {
        _ if result == "ok" => card,
        Some(("unknown", why)) => card.note(why.trim()),
        _ => Card::new("Quick check", "damaged").note(result).alarm(true),
    })
}

/// Returns whether the node's clock is off for sure.
fn is_apart(node: &Node) -> bool {
    let precision = TimeDelta::from_std(node.precision).unwrap_or(TimeDelta::MAX);
    node.ahead.abs().checked_sub(&precision).is_some_and(|apart| apart > APART)
}

fn skew(node: &Node) -> Option<String> {
    let direction = if node.ahead < TimeDelta::zero() { "behind" } else { "ahead of" };
    let apart = span(node.ahead.abs().to_std().unwrap_or_default());
    is_apart(node)
        .then(|| format!("Its clock is {apart} {direction} that of the host that serves this page; set both by NTP."))
}

fn slow_calls(calls: &[SlowCall], now: DateTime<Utc>) -> Markup {
    html! {
        details.slow {
            summary { h2 { "Slow calls " small { (count(calls.len() as u64)) " of late" } } }
            @if calls.is_empty() { p.soft { "None." } } @else {
                div.scroll tabindex="0" { table {
                    thead { tr { th scope="col" { "When" } th.num scope="col" { "Took" } th scope="col" { "Command" } } }
                    tbody { @for call in calls {
                        tr { td { (when(now, call.at)) } td.num { (took(call.took)) } td.mono { (cell(&call.command)) } }
                    } }
                } }
            }
        }
    }
}

/// Formats tenths of milliseconds: Redis calls a command slow from 10 ms on.
fn took(took: Duration) -> String {
    if took >= Duration::from_secs(1) { span(took) } else { format!("{:.1} ms", took.as_secs_f64() * 1000.0) }
}

/// Renders all facts, section by section in the node's order.
fn facts(facts: &[Fact]) -> Markup {
    html! {
        details.said {
            summary { h2 { "All that it says of itself" } }
            @for section in facts.chunk_by(|a, b| a.section == b.section) {
                h3 { (cell(section.first().map_or("", |fact| &fact.section))) }
                dl.facts { @for fact in section { dt { (cell(&fact.name)) } dd.mono { (beginning(&fact.value, BLOCK)) } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: DateTime<Utc> = DateTime::UNIX_EPOCH;

    fn node(facts: &[(&str, &str)]) -> Node {
        let mut node = Node::new("here", "7.2");
        let fact = |(name, value): &(&str, &str)| Fact {
            section: "s".to_owned(),
            name: (*name).to_owned(),
            value: (*value).to_owned(),
        };
        node.facts = facts.iter().map(fact).collect();
        node
    }

    #[test]
    fn figures_have_an_explanation_and_a_warning_where_one_is_due() {
        for (facts, name, value, note, is_alarm) in [
            (&[("used_memory", "1048576")][..], "Memory used", "1 MiB", "no limit", false),
            (&[("used_memory", "1024"), ("maxmemory", "2048")], "Memory used", "1 KiB", "of 2 KiB, 50 %", false),
            (&[("used_memory", "2000"), ("maxmemory", "2048")], "Memory used", "1.9 KiB", "of 2 KiB, 97 %", true),
            (&[("maxmemory_policy", "noeviction")], "Eviction", "noeviction", "", false),
            (&[("maxmemory_policy", "allkeys-lru")], "Eviction", "allkeys-lru", "tasks may be thrown away", true),
            (&[("aof_enabled", "1")], "Persistence", "append-only file", "0 changes since", false),
            (
                &[("aof_enabled", "0"), ("rdb_last_bgsave_status", "err")],
                "Persistence",
                "snapshots only",
                "rdb_last_bgsave_status is not ok",
                true,
            ),
            (&[("connected_clients", "7")], "Clients", "7", "0 blocked", false),
            (&[("connected_clients", "95"), ("maxclients", "100")], "Clients", "95", "of 100, 0 blocked", true),
            (&[("uptime_in_seconds", "90")], "Uptime", "1 min 30 s", "", false),
            (
                &[("cluster_state", "fail"), ("cluster_size", "3"), ("cluster_known_nodes", "6")],
                "Cluster",
                "fail",
                "3 masters with slots, 6 nodes",
                true,
            ),
            (&[("page_size", "4096"), ("bytes", "8192")], "File", "8 KiB", "", false),
            (&[("page_size", "4096"), ("wal_bytes", "0")], "Write-ahead log", "0 B", "", false),
            (&[("page_size", "4096"), ("pages", "8"), ("free_pages", "2")], "Free pages", "2", "8 KiB, 25 %", false),
            (
                &[("page_size", "1"), ("disk_room_bytes", "4096"), ("disk_reserve_bytes", "2048")],
                "Free for the file",
                "4 KiB",
                "the last 2 KiB take no new task",
                false,
            ),
            (
                &[("page_size", "1"), ("disk_room_bytes", "1024"), ("disk_reserve_bytes", "2048")],
                "Free for the file",
                "1 KiB",
                "nothing can be enqueued",
                true,
            ),
            (&[("page_size", "1"), ("durability", "full")], "Durability", "full", "survives a power cut", false),
            (&[("page_size", "1"), ("quick_check", "ok")], "Quick check", "ok", "", false),
            (&[("page_size", "1"), ("quick_check", "unknown: large")], "Quick check", "unknown", "large", false),
            (&[("page_size", "1"), ("quick_check", "row 7: gone")], "Quick check", "damaged", "row 7: gone", true),
        ] {
            let cards = cards(&node(facts), NOW);
            let expected = Card { name, value: value.to_owned(), note: note.to_owned(), is_alarm };
            assert_eq!(cards.get(1), Some(&expected), "{facts:?}");
        }
    }

    #[test]
    fn a_fact_that_a_node_lacks_is_not_shown() {
        assert_eq!(cards(&node(&[]), NOW), [Card::new("Version", "7.2")]);
        assert_eq!(cards(&node(&[("used_memory", "much"), ("maxclients", "-1")]), NOW).len(), 1);
    }

    #[test]
    fn a_clock_is_off_only_beyond_the_round_trip_time() {
        for (ahead, precision, expected) in [(900, 1, false), (1500, 1, true), (-1500, 1, true), (1500, 600, false)] {
            let mut node = node(&[]);
            (node.ahead, node.precision) = (TimeDelta::milliseconds(ahead), Duration::from_millis(precision));
            assert_eq!(skew(&node).is_some(), expected, "{ahead} ± {precision}");
            assert_eq!(clock(&node).map(|card| card.is_alarm), Some(expected));
        }
    }

    #[test]
    fn foreign_text_stays_text_and_sections_keep_their_order() {
        let mut node = node(&[("<b>", "<i>")]);
        node.facts.push(Fact { section: "a".into(), name: "x".into(), value: "y".repeat(200) });
        let command = "EVAL <script>".to_owned();
        node.slow_calls = Some(vec![SlowCall { at: NOW, took: Duration::from_micros(12_300), command }]);
        let html = render(0, &node, NOW).into_string();
        assert!(!html.contains("<i>") && !html.contains("<script>"), "{html}");
        assert!(html.contains(&"y".repeat(200)), "{html}");
        assert!(html.contains("12.3 ms") && html.find("<h3>s</h3>") < html.find("<h3>a</h3>"), "{html}");
    }
}
