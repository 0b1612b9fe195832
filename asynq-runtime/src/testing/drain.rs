//! Runs what is due in a [`TestApp`](super::TestApp), one task after the other.

use std::{collections::HashSet, sync::Arc};

use tokio_util::sync::CancellationToken;

use super::said;
use crate::{
    broker::{Action, Broker, RetryOrder, ServerName, Settlement, Wanted},
    job::{BlockingPool, Registry, StateMap},
    server::{Aggregations, Executor, ExecutorParts, OnUnknown},
    task::{GroupName, QueueName, ServerInfo, TaskId},
};

/// More tasks than a test runs on purpose.
const ENDLESS: usize = 100_000;

/// What [`TestApp::drain`](super::TestApp::drain) did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// Attempts that succeeded.
    pub succeeded: usize,
    /// Attempts whose job revoked its task.
    pub revoked: usize,
    /// Attempts that failed: [`retried`](Self::retried) and [`archived`](Self::archived).
    pub failed: usize,
    /// Failed attempts whose task waits for another one.
    pub retried: usize,
    /// Failed attempts whose task was given up.
    pub archived: usize,
    /// Attempts that put their task off without a failure.
    pub snoozed: usize,
    /// Tasks whose type or shape no job here knows.
    pub handed_back: usize,
    /// Tasks in groups that became a part of another task, or run by themselves, or were given up.
    pub aggregated: usize,
    /// Groups that were ripe and could not be aggregated, with the reason; their tasks are in them again.
    pub unaggregated: Vec<(GroupName, String)>,
    /// Why attempts failed, in the order of the attempts.
    pub failures: Vec<Failure>,
}

/// One failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// Name of the job.
    pub job: String,
    /// Id of the task.
    pub id: TaskId,
    /// The error's text.
    pub error: String,
    /// Whether the task was given up.
    pub archived: bool,
}

pub(super) async fn drain(
    broker: &Arc<dyn Broker>,
    registry: &Registry,
    states: &StateMap,
    aggregations: &Aggregations,
) -> Drained {
    let executor = Executor::new(ExecutorParts {
        registry: registry.clone(),
        states: Arc::new(states.clone()),
        blocking: BlockingPool::default(),
        broker: Arc::clone(broker),
        on_unknown: OnUnknown::HandBack,
        backoff: None,
    });
    // A server of its own each time: between two drains any time may pass on the clock.
    let member = said(broker.join(&name(), &ServerInfo::default()).await);
    let mut drained = Drained::default();
    loop {
        let queues = said(broker.queues().await);
        make_due(broker, &queues).await;
        for queue in &queues {
            drained.aggregate(broker, queue, aggregations, registry).await;
        }
        let wanted: Vec<Wanted> = queues.into_iter().map(|queue| Wanted { queue, n: 1 }).collect();
        let runs = said(broker.dequeue(&member, &wanted).await);
        if runs.is_empty() {
            break;
        }
        for run in runs {
            let (settlement, is_revoked) = executor.execute_told(run, CancellationToken::new()).await;
            drained.count(&settlement, is_revoked);
            for settled in broker.settle(std::slice::from_ref(&settlement)).await {
                said(settled);
            }
        }
        let Drained { succeeded, revoked, failed, snoozed, handed_back, .. } = drained;
        let attempts = succeeded + revoked + failed + snoozed + handed_back;
        assert!(
            attempts < ENDLESS,
            "drain has run {ENDLESS} tasks and more are due: does a job enqueue itself for ever?"
        );
    }
    said(broker.leave(&member).await);
    drained
}

/// Does what forwarder and janitor would have done by now.
async fn make_due(broker: &Arc<dyn Broker>, queues: &[QueueName]) {
    while said(broker.forward(queues, RetryOrder::Last).await).more {}
    for queue in queues {
        while said(broker.delete_expired(queue, 100).await) == 100 {}
    }
}

fn name() -> ServerName {
    ServerName { host: "test".into(), pid: std::process::id(), server_id: uuid::Uuid::new_v4().to_string() }
}

impl Drained {
    /// Does what an aggregator would have done by now.
    async fn aggregate(
        &mut self,
        broker: &Arc<dyn Broker>,
        queue: &QueueName,
        aggregations: &Aggregations,
        registry: &Registry,
    ) {
        if aggregations.is_empty() {
            return;
        }
        let failed: HashSet<GroupName> = self.unaggregated.iter().map(|(group, _)| group.clone()).collect();
        let mut after = None;
        loop {
            let page = said(broker.groups(queue, after.as_ref(), 100).await);
            for group in page.groups.into_iter().map(|stats| stats.group).filter(|group| !failed.contains(group)) {
                while let Some(set) = said(broker.claim_set(queue, &group, &aggregations.rules).await) {
                    let knows = |name: &str| registry.get(name).is_some();
                    let ended = match aggregations.aggregate(&set, broker.now(), knows).await {
                        Ok(outcome) => broker.finish_set(&set, &outcome).await.map_err(|error| error.to_string()),
                        Err(why) => Err(why.to_string()),
                    };
                    if let Err(why) = ended {
                        said(broker.release_set(&set).await);
                        self.unaggregated.push((group, why));
                        break;
                    }
                    self.aggregated += set.members.len();
                }
            }
            after = page.next;
            if after.is_none() {
                return;
            }
        }
    }

    fn count(&mut self, settlement: &Settlement, is_revoked: bool) {
        match &settlement.action {
            Action::Revoke { .. } => self.revoked += 1,
            Action::Done if is_revoked => self.revoked += 1,
            Action::Done | Action::Complete { .. } => self.succeeded += 1,
            Action::Retry { counted: true, error, .. } => {
                self.retried += 1;
                self.fail(settlement, error.clone().unwrap_or_default(), false);
            }
            Action::Retry { extra, .. } if extra.unknown.is_some() => self.handed_back += 1,
            Action::Retry { .. } => self.snoozed += 1,
            Action::Archive { error, .. } => {
                self.archived += 1;
                self.fail(settlement, error.clone(), true);
            }
            // Only a server that is leaving hands tasks back.
            Action::Requeue => {}
        }
    }

    fn fail(&mut self, settlement: &Settlement, error: String, archived: bool) {
        self.failed += 1;
        let (job, id) = (settlement.message.r#type.clone(), settlement.run.id.clone());
        self.failures.push(Failure { job, id, error, archived });
    }
}
