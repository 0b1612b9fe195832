//! The list of a scheduler while its provider gives other entries.

use super::*;

/// Takes the provider's only entry, without the entries that the program has itself.
fn provide(work: &mut Work, entry: &Arc<Periodic>) {
    work.entries.retain(|id, _| id != entry.id());
    work.provided(Ok(vec![Periodic::clone(entry)]));
}

/// Takes the same entry with an option that is not valid.
fn provide_invalid(work: &mut Work, entry: &Arc<Periodic>) {
    work.provided(Ok(vec![Periodic::clone(entry).jitter("5 parsecs")]));
}

/// Handles the event of the call that ends next.
async fn take_next(work: &mut Work) {
    let event = soon(work.calls.join_next()).await.expect("a call is under way").expect("it does not panic");
    work.take(event);
}

/// Returns how many entries the broker lists.
async fn count_listed(work: &Work) -> usize {
    work.broker.scheduler_entries().await.expect("the broker answers").len()
}

#[tokio::test]
async fn the_last_entry_of_a_provider_is_not_listed_while_it_is_not_valid() {
    let (mut work, entry, running) = work("@yearly").await;
    provide(&mut work, &entry);
    work.begin_round();
    take_next(&mut work).await;
    assert_eq!(count_listed(&work).await, 1);
    provide_invalid(&mut work, &entry);
    work.begin_round();
    take_next(&mut work).await;
    assert_eq!(count_listed(&work).await, 0);
    running.shutdown().await.expect("it leaves");
}

#[tokio::test]
async fn a_list_and_a_withdrawal_follow_each_other() {
    let (mut work, entry, running) = work("@yearly").await;
    provide(&mut work, &entry);
    work.begin_round();
    work.timers.measure += Duration::from_secs(3_600);
    provide_invalid(&mut work, &entry);
    work.begin_round();
    assert_eq!(work.calls.len(), 1, "no withdrawal while the list is under way");
    take_next(&mut work).await;
    work.begin_round();
    provide(&mut work, &entry);
    work.begin_round();
    assert_eq!(work.calls.len(), 1, "no list while the withdrawal is under way");
    take_next(&mut work).await;
    assert_eq!(count_listed(&work).await, 0);
    work.begin_round();
    take_next(&mut work).await;
    assert_eq!(count_listed(&work).await, 1);
    running.shutdown().await.expect("it leaves");
}
