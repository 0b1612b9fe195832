//! One thing done to each of several names: what fails is told, and the others are done all the same.

use serde_json::{Map, Value, json};

use crate::{error::CliError, session::Session};

/// The answers so far.
///
/// For a program they are one array with an object per name: the name, what was done, and `error`, which is null where
/// nothing failed.
#[derive(Debug)]
pub(super) struct Several {
    key: &'static str,
    rows: Vec<Value>,
    told: bool,
    worst: u8,
}

/// What was done to one: the fields for a program, and clean text for people.
pub(super) type Done = (Value, String);

impl Several {
    /// Starts without answers; in JSON the field `key` holds the name of each.
    pub(super) fn of(key: &'static str) -> Self {
        Self { key, rows: Vec::new(), told: false, worst: 0 }
    }

    /// Tells one answer.
    ///
    /// # Errors
    ///
    /// Nothing can be written, or there is no broker, so that the next one would fail, too.
    pub(super) fn add(
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
                // Answers of several lines stand apart.
                let between = if self.told && text.trim_end().contains('\n') { "\n" } else { "" };
                self.told = true;
                session.write(&format!("{between}{text}"))
            }
            Err(error) => {
                row.insert("error".into(), error.line().into());
                self.rows.push(row.into());
                if !matches!(error, CliError::NotFound(_) | CliError::Inspect(_) | CliError::Periodic(_))
                    || error.is_no_broker()
                {
                    self.tell(session)?;
                    return Err(error);
                }
                self.worst = self.worst.max(session.tell(&error));
                Ok(())
            }
        }
    }

    /// Tells programs, and whether all went well.
    pub(super) fn end(self, session: &mut Session) -> Result<(), CliError> {
        self.tell(session)?;
        if self.worst == 0 { Ok(()) } else { Err(CliError::Reported(self.worst)) }
    }

    fn tell(&self, session: &mut Session) -> Result<(), CliError> {
        if session.is_json() { session.answer(&self.rows, |_| String::new()) } else { Ok(()) }
    }
}
