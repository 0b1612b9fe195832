//! Makes servers visible to asynq's tools, and learns Redis's time with each beat.

use std::{mem::take, sync::atomic::Ordering, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use prost::Message as _;
use sha1_smol::Sha1;

use super::{
    super::{BrokerError, Cancellations, Member, Presence, ServerName, ServerState, config},
    RedisBroker, cancel,
    clock::since_boot,
    keys::{CANCEL, SERVERS, WORKERS, server_info, workers_info},
    reply,
    script::{ANNOUNCE, BEAT, Call, LIVE},
};
use crate::task::{ServerInfo, TaskId, WorkerInfo};

/// The length of Go's own leases, which its recoverer expects.
const GO_LEASE: Duration = Duration::from_secs(30);
/// How long a server counts as alive after a beat, seconds.
const ALIVE_FOR: u64 = 10;
/// A stable part of so many bytes, such as that of a server of some ten queues, costs less in each beat than the command that takes it
/// from the beat before.
const SHORT: usize = 512;

#[async_trait::async_trait]
impl Presence for RedisBroker {
    async fn join(&self, name: &ServerName, info: &ServerInfo) -> Result<Member, BrokerError> {
        self.check_lease_beside_go().await?;
        let member = Member { name: name.clone(), number: 0 };
        match self.show_alive(&member, info, &[], true).await {
            // In a cluster, the lists of servers lie on masters that may have no queue of this server. A later beat adds the server.
            Err(error) if error.is_unavailable() && self.router.has_parts() => {
                log!(warn, "the server is not listed yet: {error}");
            }
            shown => shown?,
        }
        Ok(member)
    }

    async fn beat(&self, member: &Member, info: &ServerInfo, workers: &[WorkerInfo]) -> Result<(), BrokerError> {
        self.show_alive(member, info, workers, false).await?;
        if let Some(policy) = &self.eviction_policy {
            policy.check_again(&self.router).await;
        }
        Ok(())
    }

    async fn leave(&self, member: &Member) -> Result<(), BrokerError> {
        self.unanswered.forget(member);
        self.announced.lock().remove(&member.name);
        let (info_key, workers_key) = (server_info(&member.name), workers_info(&member.name));
        let calls = vec![
            Call::plain("ZREM").arg(SERVERS).arg(&info_key),
            Call::plain("ZREM").arg(WORKERS).arg(&workers_key),
            Call::plain("DEL").arg(info_key).arg(workers_key),
        ];
        self.router.send_all(calls).await
    }

    fn servers_alive(&self) -> usize {
        self.servers.load(Ordering::Relaxed)
    }

    async fn servers(&self) -> Result<Vec<ServerState>, BrokerError> {
        let live = self.looking().send_one(self.timed(&LIVE, &[SERVERS])).await?;
        let listed = reply::array(live)?.into_iter().filter_map(reply::text).collect::<Vec<_>>();
        let (listed, _) = listed.as_chunks::<2>();
        let mut calls = Vec::with_capacity(3 * listed.len());
        for [name, _] in listed {
            calls.push(Call::plain("GET").arg(name));
            // The keys of a server and of its workers differ in this one word.
            calls.push(Call::plain("HVALS").arg(name.replacen("asynq:servers:", "asynq:workers:", 1)));
            calls.push(Call::plain("PTTL").arg(name));
        }
        let before = self.clock.now();
        let mut answers = self.looking().send(calls).await?.into_iter();
        let read_at = before + (self.clock.now() - before) / 2;
        let mut servers = Vec::with_capacity(listed.len());
        for [_, listed_until] in listed {
            let (Some(info), Some(workers), Some(left)) = (answers.next(), answers.next(), answers.next()) else {
                break;
            };
            // An entry that is gone, or that cannot be read, does not hide the others.
            let Some(info) = info.ok().and_then(reply::bytes) else { continue };
            let Ok(info) = ServerInfo::decode(info.as_slice()) else { continue };
            let workers = workers.and_then(reply::array).unwrap_or_default();
            let workers = workers.into_iter().filter_map(reply::bytes);
            let workers = workers.filter_map(|worker| WorkerInfo::decode(worker.as_slice()).ok()).collect();
            let clock_ahead = match info.clock_ahead_ms {
                Some(ahead) => TimeDelta::try_milliseconds(ahead),
                // Redis counts the time to live of its keys by its own clock, and not by a given one.
                None if self.clock.is_given() => None,
                None => gos_clock(listed_until, left.ok().as_ref().and_then(reply::number), read_at),
            };
            servers.push(ServerState { info, workers, clock_ahead });
        }
        ServerState::sort(&mut servers);
        Ok(servers)
    }

    async fn cancel(&self, id: &TaskId) -> Result<(), BrokerError> {
        self.router.send_one(Call::plain("PUBLISH").arg(CANCEL).arg(id.as_str())).await.map(|_| ())
    }

    async fn cancellations(&self) -> Result<Box<dyn Cancellations>, BrokerError> {
        let listener = cancel::Listener::open(&self.io, self.role.clone()).await?;
        Ok(Box::new(listener))
    }
}

impl RedisBroker {
    /// Sends a beat. The first beat of a server removes the names of dead servers from the lists as well.
    async fn show_alive(
        &self,
        member: &Member,
        info: &ServerInfo,
        workers: &[WorkerInfo],
        is_first: bool,
    ) -> Result<(), BrokerError> {
        let clock_ahead_ms = self.clock.host_ahead().map(|ahead| ahead.num_milliseconds()).or(info.clock_ahead_ms);
        let info = AnnouncedInfo::new(ServerInfo { clock_ahead_ms, ..info.clone() });
        // Removed until the beat is answered: the effect of an unanswered beat is unknown.
        let is_long = info.stable.len() > SHORT;
        let is_known =
            !is_first && is_long && self.announced.lock().remove(&member.name).as_ref() == Some(&info.stable);
        let is_written = self.send_beat(member, &info, is_known, workers, is_first).await?;
        if !is_written {
            self.send_beat(member, &info, false, workers, is_first).await?;
        }
        self.announced.lock().insert(member.name.clone(), info.stable);
        Ok(())
    }

    /// Sends one beat, without the stable part of `info` if Redis has it (`is_known`). Returns `false` if nothing was written: Redis does
    /// not have it after all, or the lists need calls of their own, which they get from now on.
    async fn send_beat(
        &self,
        member: &Member,
        info: &AnnouncedInfo,
        is_known: bool,
        workers: &[WorkerInfo],
        is_first: bool,
    ) -> Result<bool, BrokerError> {
        let (info_key, workers_key) = (server_info(&member.name), workers_info(&member.name));
        let mut keys = vec![info_key.as_str(), workers_key.as_str()];
        let mut calls = Vec::new();
        // In a cluster the lists lie on other nodes, as they may behind an endpoint.
        let are_apart = is_first || self.is_spread();
        if are_apart {
            let lists = [(SERVERS, &info_key), (WORKERS, &workers_key)];
            let announce = |list| self.timed(&ANNOUNCE, &[list]).arg(ALIVE_FOR);
            calls.extend(lists.map(|(list, key)| announce(list).arg(key)));
        } else {
            keys.extend([SERVERS, WORKERS]);
        }
        let stable = if is_known { &[][..] } else { &info.stable };
        let beat = self.timed(&BEAT, &keys).arg(ALIVE_FOR).arg(stable).arg(info.stable.len());
        let sha1 = Sha1::from(&info.stable).digest().to_string();
        let mut beat = beat.arg(sha1).arg(&info.changing);
        for worker in workers {
            beat.push(&worker.task_id);
            beat.push(worker.encode_to_vec());
        }
        calls.push(beat);
        let before = since_boot();
        let answers = self.router.send(calls).await?;
        let after = since_boot();
        let answers = answers.into_iter().collect::<Result<Vec<_>, _>>();
        if !are_apart && answers.as_ref().is_err_and(reply::crosses_slots) {
            self.is_sharded.store(true, Ordering::Relaxed);
            return Ok(false);
        }
        let mut answers = answers?;
        let [now, listed, is_missing]: [i64; 3] = reply::counts(answers.pop().unwrap_or_default())?;
        self.clock.learn(before, DateTime::from_timestamp_nanos(now), after);
        if is_missing == 1 {
            return Ok(false);
        }
        // Where the lists have calls of their own, the first answer counts the servers.
        let alive = answers.first().map_or(Some(listed), reply::number).and_then(|alive| usize::try_from(alive).ok());
        self.servers.store(alive.unwrap_or_default().max(1), Ordering::Relaxed);
        Ok(true)
    }

    /// Refuses a lease shorter than Go's while a Go server lives, because that server recovers tasks by its own clock
    /// and expects leases of Go's length.
    async fn check_lease_beside_go(&self) -> Result<(), BrokerError> {
        if self.lease >= GO_LEASE {
            return Ok(());
        }
        // A Go server is one that does not report a Rust version.
        let Some(go) = self.servers().await?.into_iter().find(|server| server.info.is_gos()) else {
            return Ok(());
        };
        Err(config(format!(
            "a lease of less than 30 s is not possible beside the Go server on {} (process {}): use 30 s",
            go.info.host, go.info.pid
        )))
    }
}

/// A `ServerInfo` in two parts. Concatenated, they are its encoding as Go writes it.
#[derive(Debug)]
struct AnnouncedInfo {
    /// The fields up to `strict_priority`. They are the same at most beats, and long where there are thousands of
    /// queues.
    stable: Vec<u8>,
    /// The fields after `strict_priority`.
    changing: Vec<u8>,
}

impl AnnouncedInfo {
    fn new(mut info: ServerInfo) -> Self {
        let stable = ServerInfo {
            host: take(&mut info.host),
            pid: take(&mut info.pid),
            server_id: take(&mut info.server_id),
            concurrency: take(&mut info.concurrency),
            queues: take(&mut info.queues),
            strict_priority: take(&mut info.strict_priority),
            ..ServerInfo::default()
        };
        Self { stable: stable.encode_to_vec(), changing: info.encode_to_vec() }
    }
}

/// Returns how far the clock of a Go server is ahead of Redis's, seen at `read_at`. The Go server writes the end of its
/// listing by its own clock, in whole seconds. Its key ends at the same time, and Redis counts the rest of that key's
/// life by Redis's own clock. The Go server takes the time before it sends the beat, so that a beat which waits for Redis
/// looks like a clock that is behind.
fn gos_clock(listed_until: &str, left_ms: Option<i64>, read_at: DateTime<Utc>) -> Option<TimeDelta> {
    let listed_until = DateTime::from_timestamp(listed_until.parse::<f64>().ok()? as i64, 500_000_000)?;
    let left = left_ms.filter(|&left| left >= 0).and_then(TimeDelta::try_milliseconds)?;
    Some(listed_until - read_at.checked_add_signed(left)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::QueueWeight;

    #[test]
    fn the_parts_of_an_info_are_read_as_one_whatever_a_beat_changes() {
        let info = ServerInfo {
            host: "h".into(),
            pid: 7,
            server_id: "s".into(),
            concurrency: 10,
            queues: vec![QueueWeight { queue: Some("q".into()), weight: Some(1) }; 3],
            strict_priority: true,
            status: "active".into(),
            start_time: Some(DateTime::UNIX_EPOCH.into()),
            active_worker_count: 3,
            rust_version: "1".into(),
            clock_ahead_ms: Some(-5),
            archives: Vec::new(),
            aggregated_types: vec!["t".into()],
            aggregated_groups: vec!["g".into()],
        };
        let parts = AnnouncedInfo::new(info.clone());
        let later =
            ServerInfo { status: "closed".into(), active_worker_count: 0, clock_ahead_ms: Some(9), ..info.clone() };
        let later_parts = AnnouncedInfo::new(later.clone());
        assert_eq!(parts.stable, later_parts.stable);
        for (info, parts) in [(info, parts), (later, later_parts)] {
            assert_eq!([parts.stable, parts.changing].concat(), info.encode_to_vec());
        }
    }

    #[test]
    fn the_clock_of_a_go_server_is_known_to_half_a_second() {
        let read_at = DateTime::from_timestamp_millis(1_800_000_000_400).unwrap();
        let table = [
            // The last beat was 3 s ago, so 7 of 10 s are left: the end is at ..007.4, which the server wrote as 7.
            ("1800000007", Some(7_000), Some(100)),
            ("1800000012", Some(7_000), Some(5_100)),
            ("1800000003", Some(7_000), Some(-3_900)),
            ("1.800000007e9", Some(7_000), Some(100)),
            // The key is gone, has no end or cannot be read, or the score is not a time of asynq's.
            ("1800000007", Some(-2), None),
            ("1800000007", Some(-1), None),
            ("1800000007", None, None),
            ("+inf", Some(7_000), None),
            ("soon", Some(7_000), None),
        ];
        for (until, left, ahead) in table {
            let expected = ahead.map(TimeDelta::milliseconds);
            assert_eq!(gos_clock(until, left, read_at), expected, "{until} {left:?}");
        }
    }
}
