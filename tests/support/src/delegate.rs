//! Contracts whose calls a fake passes on.

/// Implements contracts for a fake in front of a broker: each call goes to the broker that the expression after
/// `|self, call|` returns. Methods that the fake writes itself follow the calls of their contract in `+ { … }`.
///
/// A method that is not listed keeps the default of its contract, which calls methods that are listed.
#[macro_export]
macro_rules! delegate {
    (
        $fake:ident: |$this:ident, $name:ident| $inner:expr;
        $($contract:ident { $($call:ident($($argument:ident: $type:ty),*) -> $answer:ty;)* } $(+ { $($own:tt)* })?)*
    ) => {
        $(#[async_trait::async_trait]
        impl $contract for $fake {
            $(async fn $call(&$this, $($argument: $type),*) -> $answer {
                let $name = stringify!($call);
                $inner.$call($($argument),*).await
            })*
            $($($own)*)?
        })*
    };
}

/// Implements the contracts of which no fake changes a call, as [`delegate!`] does: they are listed once, for all fakes. The names of
/// the contracts and of their types must be in scope. Methods that have a default are not listed, so that the tests run the default.
/// `Inspect::task` and `Inspect::wait_for_end` may be written by the fake, after `; waits`.
#[macro_export]
macro_rules! delegate_unchanged {
    ($fake:ident: |$this:ident, $name:ident| $inner:expr) => {
        $crate::delegate_unchanged!($fake: |$this, $name| $inner; waits {
            async fn task(&$this, queue: &QueueName, id: &TaskId) -> Result<Option<TaskInfo>, BrokerError> {
                let $name = "task";
                $inner.task(queue, id).await
            }

            async fn wait_for_end(&$this, queue: &QueueName, id: &TaskId, limit: Duration) -> Result<TaskEnd, BrokerError> {
                let $name = "wait_for_end";
                $inner.wait_for_end(queue, id, limit).await
            }
        });
    };
    ($fake:ident: |$this:ident, $name:ident| $inner:expr; waits { $($waits:tt)* }) => {
        $crate::delegate! {
            $fake: |$this, $name| $inner;
            Presence {
                join(name: &ServerName, info: &ServerInfo) -> Result<Member, BrokerError>;
                beat(member: &Member, info: &ServerInfo, workers: &[WorkerInfo]) -> Result<(), BrokerError>;
                leave(member: &Member) -> Result<(), BrokerError>;
                servers() -> Result<Vec<ServerState>, BrokerError>;
                cancel(id: &TaskId) -> Result<(), BrokerError>;
                cancellations() -> Result<Box<dyn Cancellations>, BrokerError>;
            }
            Inspect {
                queues() -> Result<Vec<QueueName>, BrokerError>;
                knows(queue: &QueueName) -> Result<bool, BrokerError>;
                queue_stats(queue: &QueueName) -> Result<QueueStats, BrokerError>;
                list(queue: &QueueName, state: TaskState, group: Option<&GroupName>, page: Page, most: Option<usize>) -> Result<Vec<TaskBrief>, BrokerError>;
                locks(queue: &QueueName, after: Option<&str>) -> Result<LockPage, BrokerError>;
                failures(queue: &QueueName, id: &TaskId) -> Result<Vec<Failure>, BrokerError>;
                history(queue: &QueueName, days: usize) -> Result<Vec<DayStats>, BrokerError>;
                memory_usage(queue: &QueueName) -> Result<u64, BrokerError>;
                pause(queue: &QueueName) -> Result<bool, BrokerError>;
                resume(queue: &QueueName) -> Result<bool, BrokerError>;
                queues_of(id: &TaskId) -> Result<Vec<QueueName>, BrokerError>;
                wait_until_idle(queues: &[QueueName], limit: Duration) -> Result<bool, BrokerError>;
            } + { $($waits)* }
            Diagnose {
                nodes() -> Result<Vec<Node>, BrokerError>;
                examine_with(queue: &QueueName, keys: &QueueKeys, limit: usize) -> Result<Examination, BrokerError>;
            }
            Repair {
                change_task(queue: &QueueName, id: &TaskId, only: Option<TaskState>, action: BulkAction) -> Result<Changed, BrokerError>;
                move_task(queue: &QueueName, id: &TaskId, to: &QueueName) -> Result<Changed, Refused>;
                edit_payload(queue: &QueueName, id: &TaskId, edit: &PayloadEdit) -> Result<Changed, EditError>;
                end_orphan(queue: &QueueName, id: &TaskId, error: &str) -> Result<Changed, BrokerError>;
                change_some(queue: &QueueName, chosen: &Chosen, action: BulkAction, n: usize) -> Result<BulkSlice, BrokerError>;
                release_lock(queue: &QueueName, key: &str, holder: &TaskId, stuck: bool) -> Result<bool, BrokerError>;
                delete_queue(queue: &QueueName) -> Result<QueueDeleted, BrokerError>;
            }
            Schedules {
                tick(tick: &Tick) -> Result<Ticked, BrokerError>;
                plan_entry(plan: &EntryPlan) -> Result<Planned, BrokerError>;
                entry(queue: &QueueName, entry: &EntryId) -> Result<Option<EntryState>, BrokerError>;
                pause_entry(queue: &QueueName, entry: &EntryId, paused: bool) -> Result<bool, BrokerError>;
                forget_entry(queue: &QueueName, entry: &EntryId) -> Result<(), BrokerError>;
                lead(candidate: &Candidate, ttl: Duration) -> Result<Lead, BrokerError>;
                resign(candidate: &Candidate) -> Result<(), BrokerError>;
                wait_for_lead(program: &str, limit: Duration) -> Result<(), BrokerError>;
                show_entries(scheduler: &str, entries: &[SchedulerEntry], ttl: Duration) -> Result<(), BrokerError>;
                withdraw_entries(scheduler: &str) -> Result<(), BrokerError>;
                record_enqueue(entry: &str, event: &SchedulerEnqueueEvent) -> Result<(), BrokerError>;
                scheduler_entries() -> Result<Vec<SchedulerEntry>, BrokerError>;
                enqueue_history(entry: &str, page: Page) -> Result<Vec<SchedulerEnqueueEvent>, BrokerError>;
            }
        }
    };
}
