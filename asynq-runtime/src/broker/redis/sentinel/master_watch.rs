//! Watches which master the sentinels name, so that no connection stays with one that was replaced: such a server takes writes
//! for some ten seconds more, and then throws them away.

use std::{convert::Infallible, sync::Arc, time::Duration};

use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

use super::{
    super::{
        reply::code_of,
        url::{Address, Sentinels, Target},
    },
    BrokerError, Vote, late, majority, most_named, open, question,
};
use crate::thread::Tasks;

/// Interval of the questions, and the pause after a sentinel has failed. A sentinel that reports a failover is asked at once.
const EVERY: Duration = Duration::from_secs(2);

/// The sentinels of one URL, which are asked again and again.
#[derive(Clone)]
pub(in super::super) struct MasterWatch {
    /// The name of the master.
    name: String,
    /// The last answer of each; `None` while the sentinel is asked, as at the start.
    votes: watch::Sender<Vec<Option<Vote>>>,
    /// Each has its sentinel asked at once.
    told: Vec<Arc<Notify>>,
}

impl MasterWatch {
    /// Begins to watch the sentinels on `io`, until `io` ends.
    pub(in super::super) fn start(io: &Tasks, target: &Target, sentinels: &Sentinels, patience: Duration) -> Self {
        let votes = watch::Sender::new(vec![None; sentinels.at.len()]);
        let told: Vec<Arc<Notify>> = sentinels.at.iter().map(|_| Arc::default()).collect();
        for (number, told) in told.iter().enumerate() {
            let (target, sentinels, votes, told) = (target.clone(), sentinels.clone(), votes.clone(), Arc::clone(told));
            io.spawn(async move {
                let sentinel = &sentinels.at[number];
                let note = |vote: Vote| votes.send_modify(|votes| votes[number] = Some(vote));
                loop {
                    let Err(error) = follow(&target, &sentinels, sentinel, patience, &told, note).await;
                    log!(debug, sentinel = %sentinel, "a sentinel is not watched: {error}");
                    // The login of the URL is that of the servers.
                    let login = match code_of(&error) {
                        Some("NOAUTH" | "WRONGPASS") => " takes a login of its own (sentinel_user and sentinel_pass)",
                        _ => "",
                    };
                    let message = format!("the sentinel {sentinel}{login}: {error}");
                    note(Err(BrokerError::with_source(error.kind(), message, error)));
                    let _ = timeout(EVERY, told.notified()).await;
                }
            });
        }
        Self { name: sentinels.master.clone(), votes, told }
    }

    /// Returns the master that most of the sentinels name. Where they did not agree when they were asked last, asks them all at once.
    /// Returns as soon as most of them agree, at the latest after `patience`.
    ///
    /// # Errors
    ///
    /// [`Config`](super::BrokerErrorKind::Config): no sentinel knows the name. Otherwise the reason why none answered.
    pub(in super::super) async fn ask(&self, patience: Duration) -> Result<Address, BrokerError> {
        self.votes.send_modify(|votes| {
            if majority(votes).is_none() {
                // One that has not answered yet is being asked.
                for (vote, told) in votes.iter_mut().zip(&self.told).filter(|(vote, _)| vote.is_some()) {
                    *vote = None;
                    told.notify_one();
                }
            }
        });
        let mut votes = self.votes.subscribe();
        let is_decided = |votes: &Vec<Option<Vote>>| majority(votes).is_some() || votes.iter().all(Option::is_some);
        let decided = timeout(patience, votes.wait_for(is_decided)).await.ok().and_then(Result::ok);
        // The votes that decide are kept, because another connection may ask anew meanwhile.
        let decided = decided.map(|votes| votes.clone());
        let votes = decided.unwrap_or_else(|| self.votes.borrow().clone()).into_iter();
        let mut votes: Vec<Vote> = votes.map(|vote| vote.unwrap_or_else(|| Err(late()))).collect();
        // The next attempt may follow another of as many votes: the master of these may be gone.
        fastrand::shuffle(&mut votes);
        most_named(votes, &self.name)
    }

    /// Waits until the sentinels name another master than `server`.
    pub(in super::super) async fn replaced(&self, server: &Address) {
        let is_other = |votes: &Vec<Option<Vote>>| majority(votes).is_some_and(|master| master != *server);
        let mut votes = self.votes.subscribe();
        // `self` keeps the channel open.
        let _ = votes.wait_for(is_other).await;
    }
}

/// Asks one sentinel again and again, until it fails.
async fn follow(
    target: &Target,
    sentinels: &Sentinels,
    sentinel: &Address,
    patience: Duration,
    told: &Notify,
    note: impl Fn(Vote),
) -> Result<Infallible, BrokerError> {
    // Redis confirms the subscription by a push, too. That of a connection which then fails must not shorten the pause behind it.
    let pushed = Arc::new(Notify::new());
    let opening = open(target, sentinels, sentinel, patience, Arc::clone(&pushed));
    let connection = timeout(patience, opening).await.unwrap_or_else(|_| Err(late()))?;
    loop {
        // Without RESP3 no failover is reported, and the interval remains.
        note(Ok(question(&connection, sentinels).await?));
        let asked = async {
            tokio::select! {
                () = told.notified() => {}
                () = pushed.notified() => {}
            }
        };
        let _ = timeout(EVERY, asked).await;
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        task::{Context, Waker},
    };

    use asynq_test_support::soon;

    use super::{super::BrokerErrorKind, *};

    fn at(port: u16) -> Address {
        Address::Tcp { host: "h".into(), port }
    }

    /// The watch of three sentinels that have not answered yet.
    fn of_three() -> MasterWatch {
        let told = (0..3).map(|_| Arc::default()).collect();
        MasterWatch { name: "m".into(), votes: watch::Sender::new(vec![None; 3]), told }
    }

    impl MasterWatch {
        fn note(&self, number: usize, vote: Vote) {
            self.votes.send_modify(|votes| votes[number] = Some(vote));
        }
    }

    fn away() -> Vote {
        Err(BrokerError::new(BrokerErrorKind::Unavailable, "x"))
    }

    /// Each connection of each program asks while it is opened, at the same moment as all others.
    #[tokio::test]
    async fn sentinels_that_agree_are_not_asked_for_each_connection() {
        let watch = of_three();
        assert_eq!(watch.ask(Duration::ZERO).await.unwrap_err().kind(), BrokerErrorKind::Timeout);
        watch.note(0, Ok(Some(at(1))));
        watch.note(1, Ok(Some(at(1))));
        assert_eq!(soon(watch.ask(Duration::MAX)).await.unwrap(), at(1), "the third does not matter");
        watch.note(2, away());
        watch.note(1, away());
        let answers = async {
            for (number, vote) in [Ok(Some(at(2))), Ok(None), away()].into_iter().enumerate() {
                soon(watch.told[number].notified()).await;
                watch.note(number, vote);
            }
        };
        assert_eq!(tokio::join!(soon(watch.ask(Duration::MAX)), answers).0.unwrap(), at(2));
    }

    #[tokio::test]
    async fn a_master_is_named_by_most_of_all_sentinels_and_by_none_while_they_do_not_agree() {
        let (watch, server) = (of_three(), at(1));
        let mut replaced = pin!(watch.replaced(&server));
        for (number, vote) in
            [(0, Ok(Some(at(1)))), (1, Ok(Some(at(1)))), (2, Ok(Some(at(2)))), (0, away()), (1, Ok(None))]
        {
            watch.note(number, vote);
            assert!(replaced.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        watch.note(1, Ok(Some(at(2))));
        soon(replaced).await;
    }
}
