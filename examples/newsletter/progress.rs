//! Shows how far a campaign is: a bar on a terminal, a line per second anywhere else.

use std::{
    io::{IsTerminal as _, stderr},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

/// A campaign at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Tasks of the campaign.
    pub(crate) total: u64,
    /// Tasks that are sent or archived.
    pub(crate) settled: u64,
    /// Tasks that wait for their next attempt.
    pub(crate) retry: u64,
    /// Tasks that another process holds.
    pub(crate) elsewhere: Option<Elsewhere>,
}

/// Tasks that another worker holds; if the worker is dead, they come back when its lease ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Elsewhere {
    pub(crate) tasks: u64,
    pub(crate) lease: Duration,
}

impl Reading {
    /// Says in words which tasks the run waits for.
    pub(crate) fn note(&self) -> String {
        let mut notes = Vec::new();
        if self.retry > 0 {
            notes.push(format!("{} refused, waiting for the next attempt", self.retry));
        }
        if let Some(Elsewhere { tasks, lease }) = self.elsewhere {
            let seconds = lease.as_millis().div_ceil(1000);
            notes.push(format!("{tasks} held by another worker: if it is dead, they come back in {seconds} s"));
        }
        notes.join("; ")
    }
}

/// Where the progress is shown.
pub(crate) enum Progress {
    Bar(ProgressBar),
    Lines { next: Instant },
}

impl Progress {
    pub(crate) fn start(total: u64) -> Self {
        if !stderr().is_terminal() {
            return Self::Lines { next: Instant::now() };
        }
        let style = ProgressStyle::with_template("  {bar:32.green} {human_pos:>5} of {human_len}  {msg}");
        let bar = ProgressBar::new(total);
        Self::Bar(bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())))
    }

    pub(crate) fn show(&mut self, reading: &Reading) {
        let Reading { settled, total, .. } = *reading;
        let note = reading.note();
        match self {
            Self::Bar(bar) => {
                bar.set_length(total);
                bar.set_position(settled);
                bar.set_message(note);
            }
            Self::Lines { next } if note.is_empty() => line(next, &format!("{settled} of {total} settled")),
            Self::Lines { next } => line(next, &format!("{settled} of {total} settled ({note})")),
        }
    }

    /// Shows that the broker does not answer; the work itself may well go on.
    pub(crate) fn unknown(&mut self, error: &dyn std::error::Error) {
        let note = format!("the broker does not answer: {error}");
        match self {
            Self::Bar(bar) => bar.set_message(note),
            Self::Lines { next } => line(next, &note),
        }
    }

    /// Takes the bar away: the table that follows says more.
    pub(crate) fn end(self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// Prints a line if one is due, and makes the next one due a second later.
fn line(next: &mut Instant, text: &str) {
    let now = Instant::now();
    if now >= *next {
        *next = now + Duration::from_secs(1);
        eprintln!("  {text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_the_awaited_event_and_its_duration() {
        let lease = |millis| Some(Elsewhere { tasks: 16, lease: Duration::from_millis(millis) });
        let reading = |retry, elsewhere| Reading { total: 100, settled: 60, retry, elsewhere }.note();
        assert_eq!(reading(0, None), "");
        assert_eq!(reading(3, None), "3 refused, waiting for the next attempt");
        assert_eq!(reading(0, lease(22_100)), "16 held by another worker: if it is dead, they come back in 23 s");
        assert_eq!(reading(0, lease(0)), "16 held by another worker: if it is dead, they come back in 0 s");
        assert_eq!(
            reading(1, lease(900)),
            "1 refused, waiting for the next attempt; 16 held by another worker: if it is dead, they come back in 1 s"
        );
    }
}
