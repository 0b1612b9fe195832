//! Checks whether Redis may evict keys when its memory is full: that silently loses tasks, or the locks of unique ones.

use std::{
    fmt::Display,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::timeout;

use super::{
    super::{BrokerError, config},
    connection_manager::is_unconnected,
    identity::info_field,
    reply,
    router::{Answer, Router},
    script::Call,
};

/// Longest wait of a beat for a further check: a server counts as alive for ten seconds after a beat, and beats every five.
const LONGEST_CHECK: Duration = Duration::from_secs(1);

/// The findings of the last check of a broker.
#[derive(Debug)]
pub(super) struct EvictionPolicy {
    /// The [`Router::generation`] that was checked.
    generation: AtomicU64,
    /// A policy of one of the servers, if it evicts keys.
    evicting: Mutex<Option<String>>,
}

impl EvictionPolicy {
    /// Refuses a Redis that may evict keys, and warns of one that does not tell its policy.
    pub(super) async fn check(router: &Router) -> Result<Self, BrokerError> {
        let policies = policies(router).await;
        if let Some(policy) = evicting(&policies) {
            return Err(config(may_evict(policy)));
        }
        // It is used: the warning leaves the check to the operator.
        if let Some(warning) = policies.iter().find_map(|policy| policy.as_ref().err()) {
            log!(warn, "{warning}");
        }
        // In a cluster the check has opened the connections.
        Ok(Self { generation: AtomicU64::new(router.generation()), evicting: Mutex::new(None) })
    }

    /// Checks the policies again if a connection was made since the last check that was answered: it may lead to a server that was
    /// promoted, or that has other settings by now. Warns of a policy that evicts keys and was not found the last time.
    pub(super) async fn check_again(&self, router: &Router) {
        let generation = router.generation();
        if self.generation.load(Ordering::Relaxed) == generation {
            return;
        }
        let Ok(policies) = timeout(LONGEST_CHECK, policies(router)).await else { return };
        self.generation.store(generation, Ordering::Relaxed);
        let evicting = evicting(&policies);
        if evicting.is_none() && policies.iter().all(Result::is_err) {
            return;
        }
        let before = std::mem::replace(&mut *self.evicting.lock(), evicting.map(str::to_owned));
        if let Some(policy) = evicting.filter(|policy| before.as_deref() != Some(*policy)) {
            log!(warn, "{}", may_evict(policy));
        }
    }
}

/// Returns the policy of each server that can be reached, or a warning of one that does not tell it.
async fn policies(router: &Router) -> Vec<Result<String, String>> {
    let told = |info: Answer| match info {
        Ok(info) => Some(match info_field(&reply::text(info).unwrap_or_default(), "maxmemory_policy") {
            None | Some("") => Err(untold("its INFO has no maxmemory_policy")),
            Some(policy) => Ok(policy.to_owned()),
        }),
        Err(error) if error.is_unavailable() => None,
        // The other nodes go on. Its certificate or our login is refused, so that advice about the policy would mislead.
        Err(error) if is_unconnected(&error) => Some(Err(format!("a node of the cluster cannot be used: {error}"))),
        Err(error) => Some(Err(untold(error))),
    };
    // A master that cannot be reached holds up no start: a short program would wait for it each time.
    let answers = router.send_to_reachable(Call::plain("INFO").arg("memory")).await.unwrap_or_default();
    answers.into_iter().filter_map(told).collect()
}

/// Returns the first policy that evicts keys.
fn evicting(policies: &[Result<String, String>]) -> Option<&str> {
    policies.iter().flatten().map(String::as_str).find(|policy| *policy != "noeviction")
}

fn untold(why: impl Display) -> String {
    format!(
        "this Redis does not tell its maxmemory-policy, so whether it may evict tasks is not known: see to it that the policy is \
         noeviction, and end this line by allow_eviction=true, or grant this program's user +info ({why})"
    )
}

fn may_evict(policy: &str) -> String {
    format!(
        "this Redis may evict tasks when its memory is full (maxmemory-policy {policy}): \
         set it to noeviction, on its replicas, too, or allow_eviction=true in the URL or the options"
    )
}

#[cfg(test)]
mod tests {
    use asynq_test_support::{Log, PATIENCE};

    use super::super::{
        RedisBroker, RedisOptions,
        fake_server::{Reaction, serve},
    };

    #[tokio::test]
    async fn a_server_whose_info_does_not_tell_the_eviction_is_used_with_one_warning() {
        let (url, log) = (serve(|_, _| Reaction::Answer), Log::keep());
        let options = RedisOptions { call_timeout: PATIENCE, connect_timeout: PATIENCE, ..RedisOptions::default() };
        RedisBroker::connect(&url, options).await.unwrap();
        let warned = log.with("does not tell its maxmemory-policy");
        assert!(warned.len() == 1 && warned[0].contains("its INFO has no maxmemory_policy"), "{log:?}");
    }
}
