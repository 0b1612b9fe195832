//! The requests to the broker that are under way.

use std::time::Duration;

use asynq_runtime::{Client, inspector::InspectError};
use tokio::task::JoinSet;

use super::{
    act,
    load::{self, Loaded, Wanted},
    model::Act,
};
use crate::error::CliError;

/// How long the end of the view waits for changes that are under way.
const LAST_CHANGES: Duration = Duration::from_secs(10);

/// An answer from the broker.
#[derive(Debug)]
pub(crate) enum Answer {
    Loaded(Result<Loaded, InspectError>),
    Acted(Result<String, InspectError>),
}

/// The requests that are under way.
#[derive(Debug)]
pub(crate) struct Work {
    client: Client,
    loads: JoinSet<Answer>,
    acts: JoinSet<Answer>,
}

impl Work {
    pub(crate) fn new(client: &Client) -> Self {
        Self { client: client.clone(), loads: JoinSet::new(), acts: JoinSet::new() }
    }

    pub(crate) fn is_loading(&self) -> bool {
        !self.loads.is_empty()
    }

    /// Starts to load the content of the screen, and cancels earlier loads, which nothing needs any more.
    pub(crate) fn load(&mut self, wanted: Wanted) {
        let client = self.client.clone();
        // A set that is dropped cancels its loads, and none of them answers.
        self.loads = JoinSet::new();
        self.loads.spawn(async move { Answer::Loaded(load::load(&client, wanted).await) });
    }

    /// Starts a change.
    pub(crate) fn act(&mut self, act: Act) {
        let client = self.client.clone();
        self.acts.spawn(async move { Answer::Acted(act::perform(&client, act).await) });
    }

    /// Returns the next answer; waits for ever while nothing is under way. Dropping the future loses no answer.
    pub(crate) async fn answer(&mut self) -> Answer {
        loop {
            let joined = tokio::select! {
                Some(joined) = self.loads.join_next() => joined,
                Some(joined) = self.acts.join_next() => joined,
                else => std::future::pending().await,
            };
            // A request that panicked has no answer; the others still have theirs.
            if let Ok(answer) = joined {
                return answer;
            }
        }
    }

    /// Waits for the changes that are under way, which were confirmed, and returns the first failure.
    pub(crate) async fn end(mut self) -> Result<(), CliError> {
        let acts = async {
            let mut ended = Ok(());
            while let Some(joined) = self.acts.join_next().await {
                if let Ok(Answer::Acted(Err(error))) = joined {
                    ended = ended.and(Err(error.into()));
                }
            }
            ended
        };
        tokio::time::timeout(LAST_CHANGES, acts).await.unwrap_or_else(|_| {
            Err(CliError::Stopped("a change was still under way and was broken off: look whether it was made".into()))
        })
    }
}
