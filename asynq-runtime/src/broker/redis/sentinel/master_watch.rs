//! Watches which master the sentinels name, so that no connection stays with one that was replaced: such a server takes writes
//! for some ten seconds more, and then throws them away.

use std::{convert::Infallible, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::{sleep, timeout},
};

use super::{
    super::url::{Address, Sentinels, Target},
    BrokerError, Vote, late, majority, master, open, question,
};
use crate::thread::Tasks;

/// Interval of the questions, and the pause after a sentinel has failed. A sentinel that reports a failover is asked at once.
const EVERY: Duration = Duration::from_secs(2);
/// How far the watch may be behind an answer of the sentinels.
const LAG: Duration = Duration::from_secs(5);

/// The sentinels, and the master that most of them name now.
#[derive(Clone)]
pub(in super::super) struct MasterWatch {
    sentinels: Sentinels,
    /// `None` while the sentinels do not agree, or do not answer.
    named: watch::Receiver<Option<Address>>,
}

/// The last answer of each sentinel.
struct Votes {
    of_each: Mutex<Vec<Vote>>,
    named: watch::Sender<Option<Address>>,
}

impl MasterWatch {
    /// Begins to watch the sentinels on `io`, until `io` ends.
    pub(in super::super) fn start(io: &Tasks, target: &Target, sentinels: &Sentinels, patience: Duration) -> Self {
        let (sender, named) = watch::channel(None);
        let of_each = Mutex::new(sentinels.at.iter().map(|_| Ok(None)).collect());
        let votes = Arc::new(Votes { of_each, named: sender });
        for number in 0..sentinels.at.len() {
            let (target, sentinels, votes) = (target.clone(), sentinels.clone(), Arc::clone(&votes));
            io.spawn(async move {
                loop {
                    let Err(error) = follow(&target, &sentinels, number, patience, &votes).await;
                    log!(debug, sentinel = %sentinels.at[number], "a sentinel is not watched: {error}");
                    votes.note(number, Err(error));
                    sleep(EVERY).await;
                }
            });
        }
        Self { sentinels: sentinels.clone(), named }
    }

    /// Returns the master that most of the sentinels name, and asks them all, as [`master`], only where they did not agree when they were
    /// asked last. Their name counts as known from here on.
    pub(in super::super) async fn ask(&mut self, target: &Target, patience: Duration) -> Result<Address, BrokerError> {
        let named = self.named.borrow_and_update().clone();
        match named {
            Some(master) => Ok(master),
            None => master(target, &self.sentinels, patience).await,
        }
    }

    /// Waits until the sentinels name another master than `server`, which they were [asked](Self::ask) for.
    pub(in super::super) async fn replaced(&mut self, server: &Address) {
        // A name from before the question counts, too, where nothing newer comes.
        let mut change = timeout(LAG, self.named.changed()).await.unwrap_or(Ok(()));
        while change.is_ok() {
            if self.named.borrow_and_update().as_ref().is_some_and(|master| master != server) {
                return;
            }
            change = self.named.changed().await;
        }
        // The watch ends with the broker.
        std::future::pending::<()>().await;
    }
}

/// Asks one sentinel again and again, until it fails.
async fn follow(
    target: &Target,
    sentinels: &Sentinels,
    number: usize,
    patience: Duration,
    votes: &Votes,
) -> Result<Infallible, BrokerError> {
    let (told, at) = (Arc::new(Notify::new()), &sentinels.at[number]);
    let opening = open(target, sentinels, at, patience, Arc::clone(&told));
    let connection = timeout(patience, opening).await.unwrap_or_else(|_| Err(late()))?;
    loop {
        // Without RESP3 no failover is reported, and the interval remains.
        votes.note(number, Ok(question(&connection, sentinels).await?));
        let _ = timeout(EVERY, told.notified()).await;
    }
}

impl Votes {
    fn note(&self, number: usize, vote: Vote) {
        let mut of_each = self.of_each.lock();
        of_each[number] = vote;
        let master = majority(&of_each, of_each.len());
        self.named.send_if_modified(|named| {
            let is_new = *named != master;
            *named = master;
            is_new
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{super::url::Endpoints, BrokerErrorKind},
        *,
    };

    /// Each connection of each program asks while it is opened, at the same moment as all others.
    #[tokio::test]
    async fn sentinels_that_agree_are_not_asked_for_each_connection() {
        let target = Target::parse("redis-sentinel://127.0.0.1:1?master=m").unwrap();
        let Endpoints::Sentinel(sentinels) = &target.endpoints else { panic!("no sentinels") };
        let master = Address::Tcp { host: "h".into(), port: 1 };
        let (sender, named) = watch::channel(Some(master.clone()));
        let mut watch = MasterWatch { sentinels: sentinels.clone(), named };
        assert_eq!(watch.ask(&target, EVERY).await.unwrap(), master);
        sender.send_replace(None);
        assert!(watch.ask(&target, EVERY).await.unwrap_err().is_unavailable(), "the only sentinel is away");
    }

    #[test]
    fn a_master_is_named_by_most_of_all_sentinels_and_by_none_while_they_do_not_agree() {
        let (named, mut watch) = watch::channel(None);
        let votes = Votes { of_each: Mutex::new(vec![Ok(None), Ok(None), Ok(None)]), named };
        let at = |port| Address::Tcp { host: "h".into(), port };
        let away = || Err(BrokerError::new(BrokerErrorKind::Unavailable, "x"));
        let mut note = |number, vote, expected: Option<u16>, is_new| {
            votes.note(number, vote);
            assert_eq!(watch.has_changed().unwrap(), is_new);
            assert_eq!(*watch.borrow_and_update(), expected.map(at));
        };
        note(0, Ok(Some(at(1))), None, false);
        note(1, Ok(Some(at(1))), Some(1), true);
        note(2, Ok(Some(at(2))), Some(1), false);
        note(0, away(), None, true);
        note(1, Ok(None), None, false);
        note(1, Ok(Some(at(2))), Some(2), true);
        note(0, Ok(Some(at(1))), Some(2), false);
    }
}
