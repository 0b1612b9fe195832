//! One action on each of several names: a failure is reported, and the other names are done all the same.

use std::collections::BTreeSet;

use asynq_runtime::inspector::InspectError;
use serde_json::{Map, Value, json};

use super::progress;
use crate::{error::CliError, session::Session};

/// The results so far.
///
/// In JSON they are one array with an object per name: the name, the fields of the action, and `error`, which is null
/// if the action succeeded.
#[derive(Debug)]
pub(super) struct Several {
    key: &'static str,
    /// Whether the action changes something, and so has to be done on all names, whether or not the output is read.
    changes: bool,
    rows: Vec<Value>,
    has_written: bool,
    worst: u8,
    /// How many names are to be changed; 0 where the command changes nothing or does not tell how many were tried.
    of: usize,
}

/// The result of the action on one name: the fields for a program, and clean text for people.
pub(super) type Done = (Value, String);

/// Returns the names in their order, each once: a second action on a name would fail because of the first.
pub(super) fn once<'a>(names: impl IntoIterator<Item = &'a String>) -> Vec<&'a String> {
    let mut seen = BTreeSet::new();
    names.into_iter().filter(|name| seen.insert(*name)).collect()
}

impl Several {
    /// Creates an empty report of an action that only reads; in JSON the field `key` holds each name.
    pub(super) fn reading(key: &'static str) -> Self {
        Self { key, changes: false, rows: Vec::new(), has_written: false, worst: 0, of: 0 }
    }

    /// Creates an empty report of an action that changes something; in JSON the field `key` holds each name.
    pub(super) fn changing(key: &'static str) -> Self {
        Self { changes: true, ..Self::reading(key) }
    }

    /// Has the report say how many of so many names were tried, where the command ends before the last.
    pub(super) fn of(self, names: usize) -> Self {
        Self { of: if self.changes { names } else { 0 }, ..self }
    }

    /// Does the action on each of these names, and reports the results.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add) and [`end`](Self::end); or the user stopped the command between two names.
    pub(super) async fn each(
        mut self,
        session: &mut Session,
        names: impl IntoIterator<Item = &String>,
        act: impl AsyncFn(&str) -> Result<Done, CliError>,
    ) -> Result<(), CliError> {
        let names = once(names);
        let of = self.rows.len() + names.len();
        self = self.of(of);
        // A command that only reads, or has one name, ends at the signal.
        let mut stop = (self.changes && names.len() > 1).then(|| session.stop());
        for name in names {
            if let Some(stop) = &mut stop
                && progress::is_over(stop).await
            {
                self.write_json(session)?;
                let tried = self.rows.len();
                return Err(CliError::Stopped(format!(
                    "stopped: {tried} of {of} were tried, the others are as they were"
                )));
            }
            let done = act(name).await;
            self.add(session, name, done).await?;
        }
        self.end(session)
    }

    /// Adds the result of one name. Writes its error, or its text unless the session writes JSON.
    ///
    /// # Errors
    ///
    /// The output cannot be written, except that changes go on when its reader leaves; the user stopped the command or did not
    /// confirm it, or the whole broker is away, so that the next name would fail, too. A note then says [how many](Self::of) names
    /// were tried.
    pub(super) async fn add(
        &mut self,
        session: &mut Session,
        name: &str,
        done: Result<Done, CliError>,
    ) -> Result<(), CliError> {
        let added = self.add_row(session, name, done).await;
        let tried = self.rows.len();
        if added.is_err() && tried < self.of {
            session.note(&format!("{tried} of {} were tried, the others are as they were", self.of));
        }
        added
    }

    async fn add_row(
        &mut self,
        session: &mut Session,
        name: &str,
        done: Result<Done, CliError>,
    ) -> Result<(), CliError> {
        let mut row = Map::from_iter([(self.key.to_owned(), json!(name))]);
        match done {
            Ok((fields, text)) => {
                if let Value::Object(fields) = fields {
                    row.extend(fields);
                }
                row.insert("error".into(), Value::Null);
                self.rows.push(row.into());
                if session.is_json() {
                    return Ok(());
                }
                // Results of several lines are separated by an empty line.
                let between = if self.has_written && text.trim_end().contains('\n') { "\n" } else { "" };
                self.has_written = true;
                let written = session.write(&format!("{between}{text}"));
                self.unless_reader_left(written)
            }
            Err(error) => {
                row.insert("error".into(), error.line().into());
                self.rows.push(row.into());
                let is_of_this_name = matches!(
                    error,
                    CliError::NotFound(_) | CliError::Broker(_) | CliError::Inspect(_) | CliError::Periodic(_)
                );
                if !is_of_this_name {
                    self.write_json(session)?;
                    return Err(error);
                }
                self.worst = self.worst.max(self.report(session, name, &error));
                // A node of a cluster that is away has other names than the next node, and a login may have rights on some names alone.
                if error.is_broker_gone() && session.is_broker_away().await {
                    self.write_json(session)?;
                    return Err(CliError::Reported(self.worst));
                }
                Ok(())
            }
        }
    }

    /// Writes the error of one name, and returns its exit code.
    fn report(&self, session: &mut Session, name: &str, error: &CliError) -> u8 {
        let has_name = match error {
            CliError::Broker(_) => false,
            CliError::Inspect(error) => !matches!(error, InspectError::Broker(_) | InspectError::Interrupted { .. }),
            CliError::Periodic(error) => error.broker().is_none(),
            _ => true,
        };
        let noun = if self.key == "id" { "task" } else { self.key };
        if has_name { session.report(error) } else { session.report_of(&format!("{noun} {name}"), error) }
    }

    /// Writes the JSON array with a row of this error for each of these names, none of which was changed, and returns the error.
    pub(super) fn refuse<'a>(
        mut self,
        session: &mut Session,
        names: impl IntoIterator<Item = &'a str>,
        error: CliError,
    ) -> Result<(), CliError> {
        let (key, line) = (self.key, error.line());
        self.rows.extend(names.into_iter().map(|name| json!({ (key): name, "error": line })));
        self.write_json(session)?;
        Err(error)
    }

    /// Writes the JSON array, and returns an error if a name failed.
    pub(super) fn end(self, session: &mut Session) -> Result<(), CliError> {
        self.write_json(session)?;
        if self.worst == 0 { Ok(()) } else { Err(CliError::Reported(self.worst)) }
    }

    fn write_json(&self, session: &mut Session) -> Result<(), CliError> {
        if session.is_json() { self.unless_reader_left(session.answer(&self.rows, |_| String::new())) } else { Ok(()) }
    }

    /// Ignores that the reader of the output left, as `head` does, where the changes of the other names do not depend on it.
    fn unless_reader_left(&self, written: Result<(), CliError>) -> Result<(), CliError> {
        if self.changes { CliError::unless_reader_left(written, Ok(())) } else { written }
    }
}
