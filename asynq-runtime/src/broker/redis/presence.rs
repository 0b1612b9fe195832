//! Makes servers visible to asynq's tools, and asks Redis's time on the way.

use std::time::Duration;

use chrono::{DateTime, Utc};
use prost::Message as _;

use super::{
    super::{BrokerError, BrokerErrorKind, Cancellations, Member, Presence, ServerName, ServerState},
    RedisBroker, cancel,
    connection::Link,
    keys::{CANCEL, SERVERS, WORKERS, server_info, workers_info},
    reply,
    script::{ANNOUNCE, BEAT, Call, LIVE},
};
use crate::task::{ServerInfo, TaskId, WorkerInfo};

/// What Go's recoverer expects of every lease (PROTOCOL D2).
const GO_LEASE: Duration = Duration::from_secs(30);
/// How long a server counts as alive after a beat, seconds.
const ALIVE_FOR: u64 = 10;

#[async_trait::async_trait]
impl Presence for RedisBroker {
    async fn join(&self, name: &ServerName, info: &ServerInfo) -> Result<Member, BrokerError> {
        self.check_lease_beside_go().await?;
        let member = Member { name: name.clone(), number: 0 };
        self.show_alive(&member, info, &[], true).await?;
        Ok(member)
    }

    async fn beat(&self, member: &Member, info: &ServerInfo, workers: &[WorkerInfo]) -> Result<(), BrokerError> {
        self.show_alive(member, info, workers, false).await
    }

    async fn leave(&self, member: &Member) -> Result<(), BrokerError> {
        self.unanswered.forget(member);
        let (info_key, workers_key) = (server_info(&member.name), workers_info(&member.name));
        let calls = vec![
            Call::plain("ZREM").arg(SERVERS).arg(&info_key),
            Call::plain("ZREM").arg(WORKERS).arg(&workers_key),
            Call::plain("DEL").arg(info_key).arg(workers_key),
        ];
        self.link.send(calls).await?.into_iter().try_for_each(|answer| answer.map(|_| ()))
    }

    async fn servers(&self) -> Result<Vec<ServerState>, BrokerError> {
        let live = self.link.send_one(LIVE.on(&[SERVERS]).arg(self.clock.argument())).await?;
        let names: Vec<String> = reply::array(live)?.into_iter().filter_map(reply::text).collect();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let mut calls = Vec::with_capacity(2 * names.len());
        for name in &names {
            calls.push(Call::plain("GET").arg(name));
            // The names differ in this one word (PROTOCOL §2.1).
            calls.push(Call::plain("HVALS").arg(name.replacen("asynq:servers:", "asynq:workers:", 1)));
        }
        let mut answers = self.link.send(calls).await?.into_iter();
        let mut servers = Vec::with_capacity(names.len());
        while let (Some(info), Some(workers)) = (answers.next(), answers.next()) {
            // Gone since, or not ours to read: the others are shown all the same.
            let Some(info) = info.ok().and_then(reply::bytes) else { continue };
            let Ok(info) = ServerInfo::decode(info.as_slice()) else { continue };
            let workers = workers.and_then(reply::array).unwrap_or_default();
            let workers = workers.into_iter().filter_map(reply::bytes);
            let workers = workers.filter_map(|worker| WorkerInfo::decode(worker.as_slice()).ok()).collect();
            servers.push(ServerState { info, workers });
        }
        servers.sort_by(|a, b| {
            (&a.info.host, a.info.pid, &a.info.server_id).cmp(&(&b.info.host, b.info.pid, &b.info.server_id))
        });
        Ok(servers)
    }

    async fn cancel(&self, id: &TaskId) -> Result<(), BrokerError> {
        self.link.send_one(Call::plain("PUBLISH").arg(CANCEL).arg(id.as_str())).await.map(|_| ())
    }

    async fn cancellations(&self) -> Result<Box<dyn Cancellations>, BrokerError> {
        let listener = cancel::Listener::open(&self.io, self.role()).await?;
        Ok(Box::new(listener))
    }
}

impl RedisBroker {
    /// One beat. The first one of a server takes the names of dead servers off the lists as well.
    async fn show_alive(
        &self,
        member: &Member,
        info: &ServerInfo,
        workers: &[WorkerInfo],
        is_first: bool,
    ) -> Result<(), BrokerError> {
        let (info_key, workers_key) = (server_info(&member.name), workers_info(&member.name));
        let mut keys = vec![info_key.as_str(), workers_key.as_str()];
        let mut calls = Vec::new();
        // In a cluster the lists are elsewhere.
        if is_first || !matches!(self.link, Link::One(_)) {
            let lists = [(SERVERS, &info_key), (WORKERS, &workers_key)];
            let announce = |list| ANNOUNCE.on(&[list]).arg(self.clock.argument()).arg(ALIVE_FOR);
            calls.extend(lists.map(|(list, key)| announce(list).arg(key)));
        } else {
            keys.extend([SERVERS, WORKERS]);
        }
        let mut beat = BEAT.on(&keys).arg(self.clock.argument()).arg(ALIVE_FOR).arg(info.encode_to_vec());
        for worker in workers {
            beat.push(&worker.task_id);
            beat.push(worker.encode_to_vec());
        }
        calls.push(beat);
        let before = Utc::now();
        let answers = self.link.send(calls).await?;
        let after = Utc::now();
        if let Some(Ok(now)) = answers.last()
            && let Some(now) = reply::number(now)
        {
            self.clock.learn(before, DateTime::from_timestamp_nanos(now), after);
        }
        answers.into_iter().try_for_each(|answer| answer.map(|_| ()))
    }

    /// Refuses a lease shorter than Go's while a Go server lives, which would read it as one of its own length.
    async fn check_lease_beside_go(&self) -> Result<(), BrokerError> {
        if self.lease >= GO_LEASE {
            return Ok(());
        }
        // Only our servers say their version.
        let Some(go) = self.servers().await?.into_iter().find(|server| server.info.rust_version.is_empty()) else {
            return Ok(());
        };
        Err(BrokerError::new(
            BrokerErrorKind::Config,
            format!(
                "a lease of less than 30 s is not possible beside the Go server on {} (process {}): use 30 s",
                go.info.host, go.info.pid
            ),
        ))
    }
}
