//! Runs the due tasks of a [`TestApp`](super::TestApp), one after the other.

use std::{collections::HashSet, sync::Arc, time::Duration};

use asynq_grammar::Pattern;
use tokio::sync::Mutex;

use super::unwrap_answer;
use crate::{
    broker::{Action, Broker, Cancellations, RetryOrder, Run, ServerName, Settlement, Wanted},
    client::Client,
    job::{Registry, RegistryError},
    panics::Caught,
    server::{
        Aggregations, Attempt, Executor, LayerStack, Parts, ServerBuilder, ServerError, Stop, Stranded, Unaggregated,
        Why,
    },
    task::{GroupName, QueueName, ServerInfo, TaskId, TaskInfo},
};

/// The limit of attempts in one drain, more than a test runs on purpose.
const ENDLESS: usize = 100_000;

/// The clock of a wait advances at least so far for a group, because a group has no due time, and at most so far.
const SHORTEST_LOOK: Duration = Duration::from_secs(1);
const LONGEST_LOOK: Duration = Duration::from_secs(86_400);

/// The outcome of [`TestApp::drain`](super::TestApp::drain).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// Attempts that succeeded.
    pub succeeded: usize,
    /// Attempts whose job revoked its task.
    pub revoked: usize,
    /// Attempts that failed: [`retried`](Self::retried) and [`archived`](Self::archived).
    pub failed: usize,
    /// Failed attempts whose task waits for a retry.
    pub retried: usize,
    /// Failed attempts whose task was archived.
    pub archived: usize,
    /// Attempts that deferred their task without a failure.
    pub snoozed: usize,
    /// Attempts whose task was requeued, because no job here knows its type or shape.
    pub requeued: usize,
    /// Tasks of groups that became a part of another task, or were released to run by themselves.
    pub aggregated: usize,
    /// Ripe groups that could not be aggregated, with the reason; their tasks are in the group again.
    pub unaggregated: Vec<(GroupName, String)>,
    /// The failed attempts, in their order.
    pub failures: Vec<Failure>,
    /// Queue and job of the attempts that the program's worker would not have made, in their order: the set-up names queues, and
    /// none matches that of the task. Empty if the set-up names no queues.
    pub unserved: Vec<(QueueName, String)>,
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
    /// Whether the task was archived.
    pub archived: bool,
}

/// A worker made of a program's set-up, which runs tasks only in a drain.
pub(super) struct Worker {
    broker: Arc<dyn Broker>,
    /// The queues that the set-up names.
    queues: Vec<Pattern>,
    retries: RetryOrder,
    /// The jobs of the program. As in a server, schedules enqueue also those that `only` and `except` leave to other workers.
    pub(super) program: Registry,
    executor: Executor,
    aggregations: Arc<Aggregations>,
    layers: Option<Arc<LayerStack>>,
    /// Held during a drain, so that tasks run one after the other.
    running: Mutex<()>,
}

impl Worker {
    /// Checks the settings of the builder, and calls the `before_start` hooks.
    pub(super) async fn start(builder: ServerBuilder, client: &Client) -> Self {
        let parts = builder.parts(Arc::clone(client.broker())).unwrap_or_else(|error| match error {
            ServerError::Registry(error @ RegistryError::DuplicateName { .. }) => {
                panic!("{error}; or choose the jobs with `app.server(|server| server.registry(..))`")
            }
            error => panic!("{error}"),
        });
        let Parts { broker, config, program, executor, aggregations, layers, mut lifecycle_hooks, .. } = parts;
        lifecycle_hooks.start(client).await.unwrap_or_else(|error| panic!("{error}"));
        let layers = layers.build(&executor.dispatcher);
        let queues = config.queues.into_iter().map(|entry| entry.pattern).collect();
        let running = Mutex::default();
        Self { broker, queues, retries: config.retries, program, executor, aggregations, layers, running }
    }

    /// Returns after which time the group of this task is looked at again, a tenth of the time in which it may become ripe; `None` if
    /// the worker aggregates no such task.
    pub(super) fn next_look(&self, task: &TaskInfo) -> Option<Duration> {
        let ripens = self.aggregations.rules.ripens();
        let takes = self.aggregations.takes(task.group.as_deref()?, &task.r#type);
        takes.then(|| (ripens / 10).clamp(SHORTEST_LOOK, LONGEST_LOOK))
    }

    pub(super) async fn drain(&self) -> Drained {
        let _running = self.running.lock().await;
        let broker = &self.broker;
        // Each drain joins as a new server, because any time may pass on the clock between two drains.
        let server_id = uuid::Uuid::new_v4().to_string();
        let name = ServerName { host: "test".into(), pid: std::process::id(), server_id };
        let member = unwrap_answer(broker.join(&name, &ServerInfo::default()).await);
        let mut cancellations = unwrap_answer(broker.cancellations().await);
        let (mut drained, mut left_alone) = (Drained::default(), HashSet::new());
        loop {
            let queues = unwrap_answer(broker.queues().await);
            self.make_due(&queues).await;
            for queue in &queues {
                self.aggregate(queue, &mut drained, &mut left_alone).await;
            }
            let mut has_run = false;
            for queue in &queues {
                // A task that waits for its turn is pending, so that the one that runs can change it.
                let wanted = [Wanted { queue: queue.clone(), n: 1 }];
                for run in unwrap_answer(broker.dequeue(&member, &wanted).await) {
                    has_run = true;
                    let (settlement, is_revoked) = self.attempt(run, &mut *cancellations).await;
                    drained.count(&settlement, is_revoked);
                    let queue = &settlement.run.queue;
                    if !self.queues.is_empty() && !self.queues.iter().any(|served| served.matches(queue.as_str())) {
                        drained.unserved.push((queue.clone(), settlement.message.r#type.clone()));
                    }
                    for settled in broker.settle(std::slice::from_ref(&settlement)).await {
                        unwrap_answer(settled);
                    }
                }
            }
            if !has_run {
                break;
            }
            let Drained { succeeded, revoked, failed, snoozed, requeued, .. } = drained;
            let attempts = succeeded + revoked + failed + snoozed + requeued;
            assert!(
                attempts < ENDLESS,
                "drain has run {ENDLESS} tasks and more are due: does a job enqueue itself for ever?"
            );
        }
        unwrap_answer(broker.leave(&member).await);
        drained
    }

    /// Runs a task. A request to cancel it reaches it, as it does in a server.
    async fn attempt(&self, run: Run, cancellations: &mut dyn Cancellations) -> (Settlement, bool) {
        let permit = match &self.layers {
            Some(layers) => {
                let ready = Arc::clone(layers).ready().await;
                Some(ready.unwrap_or_else(|error| panic!("the layers around the jobs take no task: {error}")))
            }
            None => None,
        };
        let mut action = None;
        let decided = |decided| action = Some(decided);
        let (attempt, stop) = (Attempt::from(run), Stop::default());
        let cancel = async {
            loop {
                if unwrap_answer(cancellations.next().await) == attempt.key.id {
                    stop.stop(Why::Cancelled);
                }
            }
        };
        let is_revoked = tokio::select! {
            is_revoked = self.executor.attempt(&attempt, &stop, permit, decided) => is_revoked,
            () = cancel => unreachable!("requests are listened for until the attempt has ended"),
        };
        (attempt.settlement(action.expect("every attempt is decided")), is_revoked)
    }

    /// Makes due tasks pending, those of a drain that was dropped as well once their leases have passed, sends the sets of such a drain
    /// back to their groups, and deletes expired tasks, as a server's forwarder, recoverer and janitor do.
    async fn make_due(&self, queues: &[QueueName]) {
        let Self { broker, retries, .. } = self;
        while unwrap_answer(broker.recover(queues).await).more {}
        while unwrap_answer(broker.forward(queues, *retries).await).more {}
        for queue in queues {
            while unwrap_answer(broker.reclaim_sets(queue).await) == 100 {}
            while unwrap_answer(broker.delete_expired(queue, 100).await) == 100 {}
        }
    }

    /// Aggregates the ripe groups of a queue, as a server's aggregator does. A group that cannot be aggregated is left alone for the
    /// rest of the drain.
    async fn aggregate(
        &self,
        queue: &QueueName,
        drained: &mut Drained,
        left_alone: &mut HashSet<(QueueName, GroupName)>,
    ) {
        let Self { broker, aggregations, executor, .. } = self;
        if aggregations.is_empty() {
            return;
        }
        let mut after = None;
        loop {
            let page = unwrap_answer(broker.groups(queue, after.as_ref(), 100).await);
            for group in page.groups.into_iter().map(|stats| stats.group) {
                let place = (queue.clone(), group.clone());
                if left_alone.contains(&place) {
                    continue;
                }
                while let Some(set) = unwrap_answer(broker.claim_set(queue, &group, &aggregations.rules).await) {
                    let stranded = Stranded::default();
                    let work = aggregations.aggregate(&set, broker, &executor.dispatcher, &stranded);
                    let ended = match Caught::new(work).await {
                        Ok(Ok(outcome)) => broker.finish_set(&set, &outcome).await.map_err(|error| error.to_string()),
                        Ok(Err(why)) => Err(why.to_string()),
                        Err(panic) => Err(Unaggregated::Failed(panic).to_string()),
                    };
                    if let Err(why) = ended {
                        unwrap_answer(broker.release_set(&set).await);
                        left_alone.insert(place);
                        drained.unaggregated.push((group, why));
                        break;
                    }
                    drained.aggregated += set.members.len();
                }
            }
            after = page.next;
            if after.is_none() {
                return;
            }
        }
    }
}

impl Drained {
    fn count(&mut self, settlement: &Settlement, is_revoked: bool) {
        match &settlement.action {
            Action::Revoke { .. } => self.revoked += 1,
            Action::Done if is_revoked => self.revoked += 1,
            Action::Done | Action::Complete { .. } => self.succeeded += 1,
            Action::Retry { counted: true, error, .. } => {
                self.retried += 1;
                self.fail(settlement, error.clone().unwrap_or_default(), false);
            }
            Action::Defer { .. } => self.requeued += 1,
            Action::Retry { .. } => self.snoozed += 1,
            Action::Archive { error, .. } => {
                self.archived += 1;
                self.fail(settlement, error.clone(), true);
            }
            // A server that shuts down requeues tasks, and one that cannot reach the broker before a start.
            Action::Requeue => {}
        }
    }

    fn fail(&mut self, settlement: &Settlement, error: String, archived: bool) {
        self.failed += 1;
        let (job, id) = (settlement.message.r#type.clone(), settlement.run.id.clone());
        self.failures.push(Failure { job, id, error, archived });
    }
}
