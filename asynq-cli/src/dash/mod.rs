//! `asynq dash`: a full-screen view of queues, tasks, servers and periodic entries, live.
//!
//! `model` maps keys to steps and says which content has to be loaded, without I/O; `load` and `act` ask the broker;
//! `view` draws. This file only passes events between these modules.

mod act;
mod load;
mod model;
mod screen;
mod view;

use std::{io, time::Duration};

use asynq_runtime::{Client, inspector::InspectError};
use crossterm::event::{Event, EventStream, KeyEventKind};
use futures_util::StreamExt as _;
use ratatui::DefaultTerminal;
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval_at},
};

use self::{
    load::Loaded,
    model::{Act, Model, Step},
};
use crate::error::CliError;

/// Shows the view on this process's terminal until the user leaves it; reads the content again every `refresh`.
pub(crate) async fn run(client: &Client, refresh: Duration) -> Result<(), CliError> {
    let terminal = ratatui::try_init().map_err(on_terminal)?;
    let ended = watch(terminal, client, refresh).await;
    ratatui::restore();
    ended.map_err(on_terminal)
}

fn on_terminal(source: io::Error) -> CliError {
    CliError::System { context: "the terminal cannot be used".into(), source }
}

/// An answer from the broker.
enum Answer {
    Loaded(Result<Loaded, InspectError>),
    Acted(Result<String, InspectError>),
}

async fn watch(mut terminal: DefaultTerminal, client: &Client, refresh: Duration) -> io::Result<()> {
    let mut model = Model::new(client.broker().location());
    let mut keys = EventStream::new();
    let mut ticks = interval_at(Instant::now() + refresh, refresh);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The ticks start a load only when none is under way; each key that acts starts its own. Dropping the sets ends all of them.
    let (mut loads, mut acts) = (JoinSet::new(), JoinSet::new());
    load(&mut loads, client, &model);
    loop {
        terminal.draw(|frame| view::draw(frame, &mut model))?;
        let step = tokio::select! {
            event = keys.next() => match event {
                Some(Ok(Event::Key(key))) if key.kind != KeyEventKind::Release => model.press(key),
                Some(Ok(_)) => Step::Stay,
                Some(Err(error)) => return Err(error),
                None => return Ok(()),
            },
            _ = ticks.tick() => if loads.is_empty() { Step::Load } else { Step::Stay },
            Some(Ok(answer)) = loads.join_next() => model.take(answer),
            Some(Ok(answer)) = acts.join_next() => model.take(answer),
        };
        match step {
            Step::Stay => {}
            Step::Load => load(&mut loads, client, &model),
            Step::Redraw => terminal.clear()?,
            Step::Act(act) => act_on(&mut acts, client, act),
            Step::Quit => return Ok(()),
        }
    }
}

/// Starts to load the content of the screen, and cancels earlier loads, which nothing needs any more.
fn load(loads: &mut JoinSet<Answer>, client: &Client, model: &Model) {
    loads.abort_all();
    let (client, wanted) = (client.clone(), model.wanted());
    loads.spawn(async move { Answer::Loaded(load::load(&client, wanted).await) });
}

fn act_on(acts: &mut JoinSet<Answer>, client: &Client, act: Act) {
    let client = client.clone();
    acts.spawn(async move { Answer::Acted(act::perform(&client, act).await) });
}

impl Model {
    fn take(&mut self, answer: Answer) -> Step {
        match answer {
            Answer::Loaded(loaded) => self.show(loaded),
            Answer::Acted(done) => self.show_result(done),
        }
    }
}

#[cfg(test)]
mod tests;
