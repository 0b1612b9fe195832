//! `asynq dash`: a full-screen view of queues, tasks, servers and periodic entries, live.
//!
//! `model` maps keys to steps and says which content has to be loaded, without I/O; `load` and `act` ask the broker;
//! `view` draws; `requests` holds the requests that are under way. This file only passes events between these modules.

mod act;
mod load;
mod model;
mod requests;
mod screen;
mod view;

use std::{
    io, mem,
    pin::{Pin, pin},
    time::Duration,
};

use asynq_runtime::Client;
use crossterm::event::{Event, EventStream, KeyEventKind};
use futures_util::StreamExt as _;
use ratatui::{DefaultTerminal, Terminal, backend::Backend};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, MissedTickBehavior, interval_at},
};

use self::{
    model::{Model, Step},
    requests::{Answer, Requests},
};
use crate::{error::CliError, log, session::Session};

/// Shows the view on this process's terminal until the user leaves it, a signal asks the process to end, or the terminal is
/// closed; reads the content again every `refresh`.
pub(crate) async fn run(client: &Client, refresh: Duration, session: &mut Session) -> Result<(), CliError> {
    // Before the first change of the terminal: a signal without a handler would leave it as it is then.
    let (stop, mut hangup) = (session.stop(), signal(SignalKind::hangup()).map_err(on_terminal)?);
    let stop = pin!(async {
        tokio::select! { () = stop => {}, _ = hangup.recv() => {} }
    });
    let log = log::hold_back();
    let mut terminal = ratatui::try_init().map_err(on_terminal)?;
    let mut requests = Requests::new(client);
    let model = Model::new(client.broker().location(), session.style().colours);
    let ended = watch(&mut terminal, model, &mut requests, refresh, stop).await;
    // A terminal that was closed cannot be restored. Its drop would say so on standard error, and panic where that is closed, too.
    if terminal.show_cursor().is_err() {
        mem::forget(terminal);
    }
    let _ = ratatui::try_restore();
    drop(log);
    // The terminal is usable again meanwhile: Ctrl+C ends the wait.
    let break_off = session.stop();
    let last_changes = requests.end(|line| session.note(line), break_off).await;
    ended.map_err(on_terminal).and(last_changes)
}

fn on_terminal(source: io::Error) -> CliError {
    CliError::System { context: "the terminal cannot be used".into(), source }
}

async fn watch(
    terminal: &mut DefaultTerminal,
    mut model: Model,
    requests: &mut Requests,
    refresh: Duration,
    mut stop: Pin<&mut impl Future<Output = ()>>,
) -> io::Result<()> {
    // `EventStream` panics where the terminal cannot be read.
    if let Err(error) = crossterm::event::poll(Duration::ZERO) {
        return Err(io::Error::other(format!("{error}; are enough open files allowed (`ulimit -n`)?")));
    }
    let mut keys = EventStream::new();
    let mut ticks = interval_at(Instant::now() + refresh, refresh);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_due = true;
    loop {
        show(terminal, &mut model, requests, is_due)?;
        let step = tokio::select! {
            event = keys.next() => match event {
                Some(Ok(Event::Key(key))) if key.kind != KeyEventKind::Release => model.press(key),
                Some(Ok(_)) => Step::Stay,
                Some(Err(error)) => return Err(error),
                None => return Ok(()),
            },
            // A tick starts a load only when none is under way.
            _ = ticks.tick() => if requests.is_loading() { Step::Stay } else { Step::Load },
            answer = requests.answer() => model.take(answer),
            () = &mut stop => return Ok(()),
        };
        is_due = step == Step::Load;
        match step {
            Step::Stay | Step::Load => {}
            // `clear` asks the terminal for its cursor, which a terminal that is out of order may not answer.
            Step::Redraw => {
                let size = terminal.size()?;
                terminal.resize(size.into())?;
            }
            Step::Act(act) => requests.act(act),
            Step::Quit => return Ok(()),
        }
    }
}

/// Draws the screen, then loads its content if that `is_due` or if the last load was for other content: the draw tells the
/// model how many rows have room, and so which tasks are wanted.
fn show<B: Backend>(
    terminal: &mut Terminal<B>,
    model: &mut Model,
    requests: &mut Requests,
    is_due: bool,
) -> Result<(), B::Error> {
    terminal.draw(|frame| view::draw(frame, model))?;
    let wanted = model.wanted();
    if is_due || !requests.is_of(&wanted) {
        requests.load(wanted);
    }
    Ok(())
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
