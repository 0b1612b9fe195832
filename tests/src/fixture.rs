//! The world of one case: a fresh store, a broker on it, a clock that stands still, and one member that works.

use std::{collections::BTreeMap, future::Future, sync::Arc, task::Poll, time::Duration};

use asynq_runtime::{
    broker::{Broker, Member, RetryOrder, Run, RunKey, ServerName, Settled, Wanted},
    clock::{Clock, ManualClock},
    task::{QueueName, ServerInfo, TaskId},
};
use asynq_test_support::note_skip;
use chrono::{DateTime, Utc};

use crate::{GoPeer, Snapshot, default_queue, patient};

/// Where every manual clock starts: 2030-01-02T03:04:05.678912345Z, the instant of the golden vectors.
pub const PINNED: DateTime<Utc> = match DateTime::from_timestamp(1_893_553_445, 678_912_345) {
    Some(instant) => instant,
    None => panic!("the instant is in range"),
};

/// Something that only some stores can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// A Go program works on the same data.
    GoPeer,
    /// Ids can lie in a list while their task is missing or elsewhere.
    Ghosts,
    /// A lock can be left behind without its task, and gives way to a new task of the same id.
    LeftLock,
    /// A task can be active without a lease.
    LostLease,
    /// A queue may have a name from which no hash tag can be made: only the API for foreign queues takes one.
    NameWithoutTag,
    /// The death of a server is seen at once, not only when its leases pass.
    LivenessLock,
}

/// Where tasks are kept, and the ways around the contract that a test needs.
pub trait Store: Sized + Send + Sync + 'static {
    /// The store's name in the output of tests.
    const NAME: &'static str;
    /// The kind that [`Broker::kind`] returns.
    const KIND: &'static str = Self::NAME;
    /// The needs that this store cannot meet, each with the reason.
    const GAPS: &'static [(Need, &'static str)];

    /// A fresh, private, empty store.
    fn start() -> impl Future<Output = Self> + Send;
    /// The URL for a program to open this store.
    fn url(&self) -> String;
    /// A broker on this store as a program of its own would open it; without a clock it keeps its own time.
    fn connect(&self, clock: Option<Arc<dyn Clock>>) -> impl Future<Output = Arc<dyn Broker>> + Send;
    /// Returns everything stored, as text, without the records of who is alive: equal dumps mean that nothing was changed.
    fn dump(&self) -> String;
    /// Replaces the stored message of a task by `bytes`.
    fn overwrite_message(&self, queue: &QueueName, id: &TaskId, bytes: &[u8]);
    /// Deletes the stored message of a task, and nothing else of it.
    fn lose_message(&self, queue: &QueueName, id: &TaskId);
    /// Lets `by` pass for keys that end by themselves, where the store's own clock counts it; `now` is the time afterwards.
    fn age(&self, by: Duration, now: DateTime<Utc>);
    /// The unique locks of a queue that are held at `now`, and the ids of the tasks that hold them.
    fn locks(&self, queue: &QueueName, now: DateTime<Utc>) -> BTreeMap<String, String>;
    /// Deletes the task behind an id, but not the id.
    fn make_ghost(&self, queue: &QueueName, id: &TaskId);
    /// Puts the id of a task that is in another state on the list of completed tasks whose retention has passed.
    fn list_as_expired(&self, queue: &QueueName, id: &TaskId);
    /// Leaves a unique lock behind that ends at `until`, as a crash between the lock and its task does.
    fn leave_lock(&self, queue: &QueueName, key: &str, id: &TaskId, until: DateTime<Utc>);
    /// Deletes the lease of an active task.
    fn lose_lease(&self, queue: &QueueName, id: &TaskId);
    /// Returns a Go program on the same data, if the store has one.
    fn go(&self) -> Option<GoPeer<'_>>;
}

/// The store, the broker and the member of one case.
#[derive(Debug)]
pub struct Fixture<S> {
    broker: Arc<dyn Broker>,
    member: Member,
    clock: Option<ManualClock>,
    /// The store behind the broker.
    pub store: S,
}

impl<S: Store> Fixture<S> {
    /// Starts on an empty store with a broker whose clock stands at [`PINNED`].
    pub async fn start() -> Self {
        Self::with_clock(Some(ManualClock::new(PINNED))).await
    }

    /// Starts on an empty store with a broker that keeps its own time, for cases about waiting.
    pub async fn real_time() -> Self {
        Self::with_clock(None).await
    }

    /// [`start`](Self::start) with the call timeout that a program has by default, for cases in a module `timing`: otherwise a call
    /// may last as long as a test waits.
    pub async fn with_default_timeout() -> Self {
        let (store, clock) = (S::start().await, ManualClock::new(PINNED));
        let broker = patient::broker_with_default_timeout(&store.url(), Some(Arc::new(clock.clone()))).await;
        let member = join(&*broker, 1).await;
        Self { broker, member, clock: Some(clock), store }
    }

    async fn with_clock(clock: Option<ManualClock>) -> Self {
        let store = S::start().await;
        let broker = store.connect(clock.clone().map(|clock| Arc::new(clock) as Arc<dyn Clock>)).await;
        let member = join(&*broker, 1).await;
        Self { broker, member, clock, store }
    }

    /// Returns whether the store cannot have `need`; then the case is noted as skipped, and must return.
    pub fn lacks(&self, need: Need) -> bool {
        let Some((_, why)) = S::GAPS.iter().find(|(gap, _)| *gap == need) else { return false };
        note_skip(&format!("{}: {why}", S::KIND));
        true
    }

    /// A Go program on the same data. If the store has none, the case is noted as skipped, and must return.
    pub fn go(&self) -> Option<GoPeer<'_>> {
        if self.lacks(Need::GoPeer) {
            return None;
        }
        Some(self.store.go().expect("a store without a Go program says so in its gaps"))
    }

    /// The broker.
    pub fn broker(&self) -> &dyn Broker {
        &*self.broker
    }

    /// The broker, as a handle to share.
    pub fn shared(&self) -> Arc<dyn Broker> {
        self.broker.clone()
    }

    /// A second broker on the same store, as another process would open it, with the same clock.
    pub async fn another_broker(&self) -> Arc<dyn Broker> {
        self.store.connect(self.clock.clone().map(|clock| Arc::new(clock) as Arc<dyn Clock>)).await
    }

    /// The member that [`take`](Self::take) works as.
    pub fn member(&self) -> &Member {
        &self.member
    }

    /// Joins as another member of this broker; `number` makes the member's name.
    pub async fn another_member(&self, number: u32) -> Member {
        join(&*self.broker, number).await
    }

    /// Joins as a member of any broker.
    pub async fn member_of(&self, broker: &dyn Broker, number: u32) -> Member {
        join(broker, number).await
    }

    /// The broker's time.
    pub fn now(&self) -> DateTime<Utc> {
        self.clock.as_ref().map_or_else(Utc::now, Clock::now)
    }

    /// Lets `by` pass.
    pub fn advance(&self, by: Duration) {
        self.clock.as_ref().expect("only a manual clock can be advanced").advance(by);
        self.store.age(by, self.now());
    }

    /// Lets time pass until every lease of this moment has ended, a Go program's grace not counted.
    pub fn let_leases_pass(&self) {
        self.advance(self.broker.lease() + Duration::from_secs(2));
    }

    /// Takes up to `n` tasks of the default queue.
    pub async fn take(&self, n: usize) -> Vec<Run> {
        self.take_as(&self.member, n).await
    }

    /// Takes up to `n` tasks of the default queue as `member`.
    pub async fn take_as(&self, member: &Member, n: usize) -> Vec<Run> {
        self.broker.dequeue(member, &[Wanted { queue: default_queue(), n }]).await.unwrap()
    }

    /// Takes exactly `n` tasks of the default queue, in as many calls as needed; each call has to return some.
    pub async fn take_exactly(&self, n: usize) -> Vec<Run> {
        let mut runs = Vec::new();
        while runs.len() < n {
            let more = self.take(n - runs.len()).await;
            assert!(!more.is_empty(), "only {} of {n} tasks came out", runs.len());
            runs.extend(more);
        }
        runs
    }

    /// Takes the only pending task.
    pub async fn take_one(&self) -> Run {
        only(self.take(2).await)
    }

    /// Takes the only pending task as `member`.
    pub async fn take_one_as(&self, member: &Member) -> Run {
        only(self.take_as(member, 2).await)
    }

    /// Takes every pending task and returns the ids.
    pub async fn drain(&self) -> Vec<String> {
        self.take(100).await.iter().map(|run| run.key.id.to_string()).collect()
    }

    /// Renews one lease.
    pub async fn extend(&self, run: &RunKey) -> Settled {
        let mut answers = self.broker.extend(std::slice::from_ref(run)).await;
        assert_eq!(answers.len(), 1, "one answer per run");
        answers.remove(0).unwrap()
    }

    /// Forwards due tasks and returns their number.
    pub async fn forward(&self) -> usize {
        self.broker.forward(&[default_queue()], RetryOrder::Last).await.unwrap().moved
    }

    /// Requeues the tasks of dead members and returns the ids.
    pub async fn recover(&self) -> Vec<String> {
        let recovered = self.broker.recover(&[default_queue()]).await.unwrap();
        recovered.tasks.iter().map(|(_, id)| id.to_string()).collect()
    }

    /// Reads a snapshot of the default queue.
    pub async fn snapshot(&self) -> Snapshot {
        Snapshot::of(&*self.broker, &default_queue()).await
    }
}

fn only(mut runs: Vec<Run>) -> Run {
    assert_eq!(runs.len(), 1, "exactly one task was expected: {runs:?}");
    runs.remove(0)
}

/// Joins as a server whose host and process id are made from `number`.
pub async fn join(broker: &dyn Broker, number: u32) -> Member {
    let name = ServerName {
        host: format!("host-{number}"),
        pid: 4000 + number,
        server_id: format!("00000000-0000-4000-8000-{number:012}"),
    };
    let info = ServerInfo {
        host: name.host.clone(),
        pid: i32::try_from(name.pid).unwrap(),
        server_id: name.server_id.clone(),
        concurrency: 10,
        status: "active".into(),
        start_time: Some(broker.now().into()),
        ..ServerInfo::default()
    };
    broker.join(&name, &info).await.unwrap()
}

/// Polls `future` so many times, with a turn of the runtime for other tasks before each poll but the first, and drops it.
/// Returns its output if the future was ready by then: so a call can be given up at any of its steps on any machine.
pub async fn polled<F: Future>(future: F, times: usize) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    for poll in 0..times {
        if poll > 0 {
            tokio::task::yield_now().await;
        }
        let output = std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await;
        if let Poll::Ready(output) = output {
            return Some(output);
        }
    }
    None
}
