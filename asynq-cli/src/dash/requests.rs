//! The requests to the broker that are under way.

use std::{io, panic::resume_unwind, time::Duration};

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
    Acted(Result<String, CliError>),
}

/// The requests that are under way.
#[derive(Debug)]
pub(crate) struct Requests {
    client: Client,
    loads: JoinSet<Answer>,
    /// The content that was loaded last, or is being loaded.
    loaded: Option<Wanted>,
    acts: JoinSet<Answer>,
}

impl Requests {
    pub(crate) fn new(client: &Client) -> Self {
        Self { client: client.clone(), loads: JoinSet::new(), loaded: None, acts: JoinSet::new() }
    }

    pub(crate) fn is_loading(&self) -> bool {
        !self.loads.is_empty()
    }

    /// Whether the last load was for this content.
    pub(crate) fn is_of(&self, wanted: &Wanted) -> bool {
        self.loaded.as_ref() == Some(wanted)
    }

    /// Starts to load the content of the screen, and cancels earlier loads, which nothing needs any more.
    pub(crate) fn load(&mut self, wanted: Wanted) {
        let client = self.client.clone();
        // A set that is dropped cancels its loads, and none of them answers.
        self.loads = JoinSet::new();
        self.loaded = Some(wanted.clone());
        self.loads.spawn(async move { Answer::Loaded(load::load(&client, wanted).await) });
    }

    /// Starts a change.
    pub(crate) fn act(&mut self, act: Act) {
        let client = self.client.clone();
        self.acts.spawn(async move { Answer::Acted(act::perform(&client, act).await) });
    }

    /// Returns the next answer; waits for ever while nothing is under way. Dropping the future loses no answer. Goes on with the panic
    /// of a request: the hook of ratatui has restored the terminal for it, so that the view cannot go on.
    pub(crate) async fn answer(&mut self) -> Answer {
        let joined = tokio::select! {
            Some(joined) = self.loads.join_next() => joined,
            Some(joined) = self.acts.join_next() => joined,
            else => std::future::pending().await,
        };
        joined.unwrap_or_else(|error| resume_unwind(error.into_panic()))
    }

    /// Waits for the changes that are under way, which were confirmed, and returns the first failure. Calls `note` with a
    /// line for the user before a wait, which `break_off` ends.
    pub(crate) async fn end(
        self,
        note: impl FnOnce(&str),
        break_off: impl Future<Output = ()>,
    ) -> Result<(), CliError> {
        let Self { loads, mut acts, .. } = self;
        // The screen is closed: a load would only delay the changes.
        drop(loads);
        if !acts.is_empty() {
            note(&format!(
                "waiting up to {} s for changes that are under way; Ctrl+C breaks them off",
                LAST_CHANGES.as_secs()
            ));
        }
        let ends = async {
            let mut ended = Ok(());
            while let Some(joined) = acts.join_next().await {
                ended = ended.and(match joined {
                    Ok(Answer::Acted(Err(error))) => Err(error),
                    Ok(_) => Ok(()),
                    Err(panicked) => Err(CliError::System {
                        context: "a change broke off: look whether it was made".into(),
                        source: io::Error::other(panicked),
                    }),
                });
            }
            ended
        };
        tokio::select! {
            ended = ends => return ended,
            () = tokio::time::sleep(LAST_CHANGES) => {}
            () = break_off => {}
        }
        Err(CliError::Stopped("a change was still under way and was broken off: look whether it was made".into()))
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_change_that_panicked_is_told_at_the_end_and_no_load_is_waited_for() {
        let client = Client::connect("sqlite::memory:").await.unwrap();
        let mut requests = Requests::new(&client);
        let (load, loading) = oneshot::channel::<()>();
        requests.loads.spawn(async move {
            let _load = load;
            pending().await
        });
        let (note, noted) = oneshot::channel();
        requests.acts.spawn(async move {
            let _: String = noted.await.unwrap();
            panic!("boom")
        });
        let error = requests.end(|line| note.send(line.to_owned()).unwrap(), pending()).await.unwrap_err();
        assert!(error.line().starts_with("a change broke off: look whether it was made: "), "{}", error.line());
        // The load was dropped.
        loading.await.unwrap_err();
        Requests::new(&client).end(|line| panic!("no change is under way: {line}"), pending()).await.unwrap();
    }

    #[tokio::test]
    #[should_panic(expected = "boom")]
    async fn a_request_that_panicked_ends_the_view() {
        let client = Client::connect("sqlite::memory:").await.unwrap();
        let mut requests = Requests::new(&client);
        requests.acts.spawn(async { panic!("boom") });
        requests.answer().await;
    }

    #[tokio::test]
    async fn the_wait_for_a_change_is_broken_off_by_a_signal() {
        let client = Client::connect("sqlite::memory:").await.unwrap();
        let mut requests = Requests::new(&client);
        requests.acts.spawn(pending());
        let error = requests.end(|_| {}, async {}).await.unwrap_err();
        assert!(matches!(error, CliError::Stopped(_)), "{}", error.line());
    }
}
