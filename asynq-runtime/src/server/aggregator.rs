//! Takes sets of tasks out of ripe groups, makes new tasks of each set, and ends it.
//!
//! User code makes the new tasks on the jobs' runtime, within a time limit. Several sets are made at once, so that a slow
//! group delays no other. The broker ends a set and stores its new tasks in one step. A server without aggregations runs no
//! aggregator.

use std::{collections::BTreeSet, iter, mem, ops::Range, sync::Arc, time::Duration};

use futures_util::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};
use tokio::{task::JoinSet, time::Instant};
use tokio_util::task::AbortOnDropHandle;

use super::{
    aggregate::{Unaggregated, types},
    backed_off::{BackedOff, GroupKey, Stranded},
    retry_backoff::RetryBackoff,
    server_context::ServerContext,
};
use crate::{
    broker::{BrokerError, Refused, SetError, SetOutcome, TaskSet},
    metrics,
    panics::Caught,
    task::QueueName,
};

/// The shortest and the longest pause between two passes; in between, the pause is a tenth of the time that ripens a group.
const SOONEST: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(5);
/// A walk over the groups is followed by a pause of so many times the duration of its calls for each server that lives, so that very
/// many groups take about a tenth of the broker's time, however many servers walk.
const WALKS: u32 = 9;
/// The longest such pause, if that time is shorter: the walks of very many servers, or a broker that is slow for another
/// reason, must not delay groups for longer.
const LONGEST_WALK_PAUSE: Duration = Duration::from_secs(15);
/// How many sets are made at a time at most.
const CONCURRENT_SETS: usize = 4;
/// How long before the deadline of a set its new tasks must be made.
const MARGIN: Duration = Duration::from_secs(20);
/// How long before the deadline of a set the tries to end it are over: a set that is released in time is not counted as one whose server
/// died. One whose last call takes longer than this may be.
const RELEASE_MARGIN: Duration = Duration::from_secs(5);
/// Longest pause between two tries to end a set.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Why a set was not finished.
#[derive(Debug, Clone, thiserror::Error)]
enum Unfinished {
    #[error(transparent)]
    Unaggregated(#[from] Unaggregated),
    #[error("its aggregation took longer than its set allows")]
    TimedOut,
    #[error("the server is leaving")]
    Leaving,
    #[error("the runtime that called `start` has ended")]
    NoRuntime,
    #[error(transparent)]
    Set(#[from] SetError),
}

impl Unfinished {
    /// Returns the word for the metrics; `None` for a set that the end of the server has released.
    fn outcome(&self) -> Option<&'static str> {
        match self {
            Self::Leaving | Self::NoRuntime => None,
            Self::Unaggregated(Unaggregated::Unknown(_)) => Some("unknown"),
            Self::Unaggregated(_) | Self::TimedOut | Self::Set(_) => Some("failed"),
        }
    }
}

/// Aggregates until the server closes. Sets that are not made by then are released to their groups.
pub(crate) async fn run(context: Arc<ServerContext>) {
    let mut aggregator =
        Aggregator { sets: JoinSet::new(), backed_off: BackedOff::default(), context: Arc::clone(&context) };
    let mut retry_backoff = RetryBackoff::new("aggregator", LATEST);
    let ripens = context.aggregations.rules.ripens();
    let between = (ripens / 10).clamp(SOONEST, LATEST);
    while !context.closing.is_cancelled() {
        let mut passed = Passed::default();
        let ended = aggregator.pass(Instant::now() + between, &mut passed).await;
        let pause = retry_backoff.after(ended.map(|()| between));
        context.signals.aggregated.notify();
        let after_walk = pause_after_walk(passed.walked, context.broker.servers_alive(), ripens);
        // The random part spreads the walks of servers that started together.
        let after_walk = after_walk.mul_f64(0.5 + fastrand::f64());
        aggregator.rest(pause_after_pass(!passed.full.is_empty(), pause, after_walk)).await;
    }
    while aggregator.ended().await {}
    context.aggregated_last.cancel();
}

/// Returns the mean pause after a walk that took so long, on one of so many servers whose groups ripen in this time.
fn pause_after_walk(walked: Duration, servers: usize, ripens: Duration) -> Duration {
    let servers = u32::try_from(servers).unwrap_or(u32::MAX);
    walked.saturating_mul(WALKS).saturating_mul(servers).min(ripens.max(LONGEST_WALK_PAUSE))
}

/// Returns the pause after a pass, which is `pause` or that after its walks: where a queue has failed, the others were walked all the
/// same.
fn pause_after_pass(has_more: bool, pause: Duration, after_walk: Duration) -> Duration {
    // A pass that leaves full groups has taken as long as the pause between two.
    if has_more { Duration::ZERO } else { pause.max(after_walk) }
}

/// Returns the rounds in which so many full groups have further sets claimed. Where fewer groups are full than sets can be made, each
/// has several rounds. Round 0 was the walk's: a set of the walk is the first of its group in the pass.
fn rounds_of(full: usize) -> Range<usize> {
    1..1 + (CONCURRENT_SETS / full.max(1)).max(1)
}

/// One pass over all groups.
#[derive(Debug, Default)]
struct Passed {
    /// The groups that may have more full sets.
    full: Vec<GroupKey>,
    /// Time that the broker took to return the ripe groups.
    walked: Duration,
}

/// A set that is being made and ended.
struct Taken {
    group: GroupKey,
    /// Whether it is the first of its group in this pass, and the last set of the group failed: then it has the same tasks.
    had_failed: bool,
    /// The stranded types of which it has tasks.
    stranded: BTreeSet<String>,
}

struct Aggregator {
    context: Arc<ServerContext>,
    /// The sets that are being made and ended.
    sets: JoinSet<(Taken, Result<(), Unfinished>)>,
    backed_off: BackedOff,
}

impl Aggregator {
    /// Looks once at every group of the queues that may have groups, then takes more sets from the full ones until `again`. A queue
    /// that fails, such as one on a part of a cluster that is away, keeps no other from it.
    async fn pass(&mut self, again: Instant, passed: &mut Passed) -> Result<(), BrokerError> {
        let context = Arc::clone(&self.context);
        let mut failed = Ok(());
        self.backed_off.begin_pass(Instant::now());
        let queues = context.queues.now();
        for queue in &context.answer(context.broker.worth_aggregating(queues.names())).await? {
            failed = failed.and(self.walk(queue, passed).await);
            if context.closing.is_cancelled() {
                return Ok(());
            }
        }
        while !passed.full.is_empty() && Instant::now() < again && !context.closing.is_cancelled() {
            let full = mem::take(&mut passed.full);
            let rounds = rounds_of(full.len());
            failed = failed.and(self.claim_sets(full, rounds, passed).await);
        }
        failed
    }

    /// Looks once at every group of one queue, notes those that may have more full sets, and how long the broker took to return
    /// the ripe ones.
    async fn walk(&mut self, queue: &QueueName, passed: &mut Passed) -> Result<(), BrokerError> {
        let context = Arc::clone(&self.context);
        let mut step = None;
        loop {
            let call = context.broker.ripe_groups(queue, &context.aggregations.rules, step.as_ref());
            let began = Instant::now();
            let ripe = context.answer(call).await?;
            passed.walked += began.elapsed();
            let groups = ripe.groups.into_iter().map(|group| (queue.clone(), group)).collect();
            self.claim_sets(groups, 0..1, passed).await?;
            step = ripe.next;
            if step.is_none() || context.closing.is_cancelled() {
                return Ok(());
            }
        }
    }

    /// Claims a set of each of these groups that is ripe, once per round, and starts to make them. As many sets are claimed at a
    /// time as can be made, so that the broker can store several claims together. The walk is round 0 of a pass. Notes the groups
    /// that may have more full sets.
    async fn claim_sets(
        &mut self,
        groups: Vec<GroupKey>,
        rounds: Range<usize>,
        passed: &mut Passed,
    ) -> Result<(), BrokerError> {
        let context = Arc::clone(&self.context);
        let (mut may_have_more, mut failed) = (vec![true; groups.len()], Ok(()));
        let mut claims = rounds.flat_map(|round| (0..groups.len()).map(move |at| (round, at)));
        loop {
            while self.sets.len() >= CONCURRENT_SETS {
                self.ended().await;
            }
            // A set that has ended may have backed off its group.
            while self.ended().now_or_never() == Some(true) {}
            let mut now = FuturesUnordered::new();
            while self.sets.len() + now.len() < CONCURRENT_SETS
                && let Some((round, at)) = claims.next()
            {
                may_have_more[at] &= !self.backed_off.contains(&groups[at], Instant::now());
                if may_have_more[at] {
                    let (queue, group) = &groups[at];
                    let claim = context.broker.claim_set(queue, group, &context.aggregations.rules);
                    now.push(context.answer(claim).map(move |claimed| (round, at, claimed)));
                }
            }
            if now.is_empty() || context.closing.is_cancelled() {
                break;
            }
            while let Some((round, at, claimed)) = now.next().await {
                match claimed {
                    Ok(Some(set)) => may_have_more[at] &= self.start(set, round == 0),
                    Ok(None) => may_have_more[at] = false,
                    Err(error) => {
                        // Most errors are about the queue: claims of its other groups would fail as well, each after its time.
                        for (may_have_more, (queue, _)) in iter::zip(&mut may_have_more, &groups) {
                            *may_have_more &= *queue != groups[at].0;
                        }
                        failed = failed.and(Err(error));
                    }
                }
            }
        }
        let more = iter::zip(groups, may_have_more).filter_map(|(group, may_have_more)| may_have_more.then_some(group));
        passed.full.extend(more);
        failed
    }

    /// Starts to make a set and to end it; `is_first`: of its group in this pass. Returns whether the set was full.
    fn start(&mut self, set: TaskSet, is_first: bool) -> bool {
        let context = Arc::clone(&self.context);
        let group = (set.queue.clone(), set.group.clone());
        let is_full = set.is_full || set.members.len() >= context.aggregations.rules.enough().unwrap_or(TaskSet::MOST);
        let stranded = self.backed_off.stranded(&group, Instant::now());
        let had_failed = is_first && self.backed_off.has(&group);
        let of_stranded = set.members.iter().filter_map(|member| {
            let message = member.message.as_ref().ok()?;
            stranded.has(&message.r#type, &member.id).then(|| message.r#type.clone())
        });
        let taken = Taken { group, had_failed, stranded: of_stranded.collect() };
        self.sets.spawn(async move { (taken, end(&context, set, stranded).await) });
        is_full
    }

    /// Pauses, and handles the sets that end meanwhile.
    async fn rest(&mut self, pause: Duration) {
        let closing = self.context.closing.clone();
        let end = Instant::now() + pause;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(end) => return,
                () = closing.cancelled() => return,
                true = self.ended() => {}
            }
        }
    }

    /// Waits until a set has ended. Returns `false` if there is none.
    async fn ended(&mut self) -> bool {
        let Some(ended) = self.sets.join_next().await else { return false };
        // The panic hook has reported the panic of a set's task. The set returns to its group at its deadline.
        let Ok((Taken { group: key, had_failed, stranded }, outcome)) = ended else { return true };
        let (queue, group) = &key;
        if let Some(word) = outcome.as_ref().map_or_else(Unfinished::outcome, |()| Some("done")) {
            metrics::aggregated(word);
        }
        match outcome {
            Ok(()) if !stranded.is_empty() => {
                let begins = self.backed_off.go_on(&key, &stranded, Instant::now());
                if begins {
                    log!(
                        warn,
                        %queue, %group,
                        "tasks of type {} have been in this group for twenty minutes, this server has no aggregation for them and no \
                         other server took them: they run by themselves now; where a Go server aggregates them and has a longer \
                         grace period, it needs a queue of its own",
                        types(stranded.iter())
                    );
                }
            }
            Ok(()) if had_failed => self.backed_off.forget(&key),
            Ok(()) | Err(Unfinished::Leaving) => {}
            // A set of the same look has failed before.
            Err(_) if !had_failed && self.backed_off.has(&key) => {}
            Err(why) => {
                let unknown = match &why {
                    Unfinished::Unaggregated(Unaggregated::Unknown(unknown)) => Some(unknown),
                    _ => None,
                };
                let is_warning = unknown.is_none_or(|unknown| self.backed_off.warn_of(queue, unknown));
                let unknown = unknown.cloned().unwrap_or_default();
                let pause = self.backed_off.add(&key, unknown, Instant::now());
                log_failure(&key, pause, &why, is_warning);
            }
        }
        true
    }
}

/// Logs why a group was not aggregated.
fn log_failure((queue, group): &GroupKey, pause: Option<Duration>, why: &Unfinished, is_warning: bool) {
    let pause = pause.map_or_else(|| "the rest of this pass".to_owned(), |pause| format!("{pause:?}"));
    if is_warning {
        log!(warn, %queue, %group, "a group was not aggregated and is backed off for {pause}: {why}");
    } else {
        log!(debug, %queue, %group, "a group was not aggregated and is backed off for {pause}: {why}");
    }
}

/// Makes the new tasks of a set and ends the set, or releases it.
async fn end(context: &Arc<ServerContext>, set: TaskSet, stranded: Stranded) -> Result<(), Unfinished> {
    let set = Arc::new(set);
    let outcome = match make(context, &set, stranded).await {
        Ok(outcome) => finish(context, &set, outcome).await,
        Err(why) => Err(why),
    };
    // Where the broker does not answer this call either, the set returns to its group at its deadline.
    let is_ours = !matches!(outcome, Ok(()) | Err(Unfinished::Set(SetError::Lost)));
    if is_ours && let Err(error) = context.answer(context.broker.release_set(&set)).await {
        log!(
            warn,
            queue = %set.queue, group = %set.group,
            "a set could not be released; it returns to its group at its deadline: {error}"
        );
    }
    outcome
}

/// Runs the aggregation on the runtime of the jobs, until the deadline of the set comes near or the server leaves.
async fn make(context: &Arc<ServerContext>, set: &Arc<TaskSet>, stranded: Stranded) -> Result<SetOutcome, Unfinished> {
    let work = {
        let (context, set) = (Arc::clone(context), Arc::clone(set));
        Caught::new(async move {
            let dispatcher = &context.executor.dispatcher;
            context.aggregations.aggregate(&set, &context.broker, dispatcher, &stranded).await
        })
    };
    let time = (set.deadline - context.broker.now()).to_std().unwrap_or_default().saturating_sub(MARGIN);
    let work = AbortOnDropHandle::new(context.jobs.spawn(work));
    tokio::select! {
        // A finished aggregation counts, even if its time is over or the server is leaving.
        biased;
        made = work => match made {
            Ok(Ok(made)) => Ok(made?),
            Ok(Err(panic)) => Err(Unaggregated::Failed(panic).into()),
            Err(_) => {
                context.runtime_has_ended();
                Err(Unfinished::NoRuntime)
            }
        },
        () = tokio::time::sleep(time) => Err(Unfinished::TimedOut),
        () = context.closing.cancelled() => Err(Unfinished::Leaving),
    }
}

/// Ends a set, until the broker has answered or the deadline of the set is near.
async fn finish(context: &Arc<ServerContext>, set: &TaskSet, mut outcome: SetOutcome) -> Result<(), Unfinished> {
    let mut retry_backoff = RetryBackoff::new("aggregator", LONGEST_PAUSE);
    loop {
        let error = match context.answer(context.broker.finish_set(set, &outcome)).await {
            Err(SetError::Refused(Refused::Broker(error))) => error,
            answer => return Ok(answer?),
        };
        outcome.resend |= error.is_unavailable();
        if context.closing.is_cancelled() || context.broker.now() + RELEASE_MARGIN >= set.deadline {
            return Err(SetError::from(error).into());
        }
        tokio::time::sleep(retry_backoff.on_error(&error)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::GroupRules;

    #[test]
    fn few_full_groups_have_several_rounds_none_of_which_is_the_walks() {
        for (full, rounds) in [(1, 1..5), (2, 1..3), (3, 1..2), (4, 1..2), (1_000, 1..2)] {
            assert_eq!(rounds_of(full), rounds, "{full} full groups");
        }
    }

    #[test]
    fn the_walks_of_all_servers_take_a_tenth_of_the_time_together_and_delay_no_group_for_long() {
        let (ms, minute) = (Duration::from_millis, Duration::from_secs(60));
        for (walked, servers, ripens, pause) in [
            (ms(0), 12, minute, ms(0)),
            (ms(2), 1, minute, ms(18)),
            (ms(900), 1, minute, ms(8_100)),
            (ms(300), 12, minute, ms(32_400)),
            (ms(900), 12, minute, minute),
            (ms(900), 12, ms(1_000), LONGEST_WALK_PAUSE),
            (ms(5_000), usize::MAX, 5 * minute, 5 * minute),
        ] {
            assert_eq!(pause_after_walk(walked, servers, ripens), pause, "{walked:?}, {servers} servers, {ripens:?}");
        }
    }

    #[test]
    fn the_walks_are_paid_for_whichever_queue_has_failed_and_full_groups_do_not_wait() {
        let ms = Duration::from_millis;
        for (has_more, between, after_walk, failed, pause) in [
            (false, 1_000, 18, None, 1_000),
            (false, 1_000, 8_100, None, 8_100),
            (false, 1_000, 18, Some(100), 100),
            (false, 1_000, 8_100, Some(100), 8_100),
            (false, 1_000, 18, Some(5_000), 5_000),
            (true, 1_000, 8_100, None, 0),
            (true, 1_000, 8_100, Some(100), 0),
        ] {
            let found = pause_after_pass(has_more, ms(failed.unwrap_or(between)), ms(after_walk));
            assert_eq!(found, ms(pause), "{has_more}, {after_walk} ms, {failed:?}");
        }
    }

    #[test]
    fn a_short_longest_delay_makes_looks_as_frequent_as_a_short_grace_period() {
        let secs = Duration::from_secs;
        for (grace, max_delay, ripens) in [(600, None, 600), (600, Some(30), 30), (60, Some(3_600), 60)] {
            let rules = GroupRules { grace: secs(grace), max_delay: max_delay.map(secs), max_size: None };
            assert_eq!(rules.ripens(), secs(ripens), "{rules:?}");
        }
    }
}
