//! Decides whether a task matches a search.

use asynq_runtime::{TaskInfo, TaskState, broker::TaskBrief, task::GroupName};
use chrono::{DateTime, Utc};

use super::Query;
use crate::{
    failure::Failure,
    query::payload::{Form, Reader, Rendered, json::compact},
};

/// A parsed query.
#[derive(Debug)]
pub(super) struct Filter {
    /// The text in lower case.
    pub(super) text: String,
    /// The text as it was written.
    pub(super) as_written: String,
    pub(super) state: Option<TaskState>,
    pub(super) group: Option<GroupName>,
    r#type: String,
    since: Option<DateTime<Utc>>,
    until: Option<DateTime<Utc>>,
}

impl Filter {
    /// Parses a query.
    pub(super) fn read(query: &Query) -> Result<Self, Failure> {
        let group = (!query.group.is_empty()).then(|| GroupName::from_wire(&query.group));
        // Only aggregating tasks wait in groups.
        let state = if group.is_some() { Some(TaskState::Aggregating) } else { state(&query.state)? };
        Ok(Self {
            text: query.q.trim().to_lowercase(),
            as_written: query.q.trim().to_owned(),
            state,
            group,
            r#type: query.r#type.trim().to_owned(),
            since: time("since", &query.since)?,
            until: time("until", &query.until)?,
        })
    }

    /// Returns whether the task matches every criterion.
    pub(super) fn fits(&self, reader: &Reader<'_>, task: &TaskBrief) -> bool {
        self.fits_besides_text(task) && self.has_text(reader, task)
    }

    /// Returns whether a task that does not match might do so by the arguments that a listing leaves out.
    pub(super) fn might_fit(&self, task: &TaskBrief) -> bool {
        !self.text.is_empty() && task.has_cut_payload() && self.fits_besides_text(task)
    }

    fn fits_besides_text(&self, task: &TaskInfo) -> bool {
        self.state.is_none_or(|state| task.state == state)
            && self.group.as_ref().is_none_or(|group| task.group.as_deref() == Some(group.as_str()))
            && (self.r#type.is_empty() || task.r#type == self.r#type)
            && self.has_time(task)
    }

    fn has_time(&self, task: &TaskInfo) -> bool {
        let is_in = |at: DateTime<Utc>| {
            self.since.is_none_or(|since| since <= at) && self.until.is_none_or(|until| at <= until)
        };
        let times = [task.next_process_at, task.last_failed_at, task.completed_at, task.archived_at];
        (self.since.is_none() && self.until.is_none()) || times.into_iter().flatten().any(is_in)
    }

    fn has_text(&self, reader: &Reader<'_>, task: &TaskBrief) -> bool {
        if self.text.is_empty() {
            return true;
        }
        let has = |text: &str| text.to_lowercase().contains(&self.text);
        has(task.id.as_str())
            || has(&task.r#type)
            || task.last_error.as_deref().is_some_and(has)
            || task.group.as_deref().is_some_and(has)
            || task.headers.iter().any(|(key, value)| has(key) || has(value) || has(&format!("{key}={value}")))
            || self.has_arguments(&reader.of_listed(task), &task.payload)
    }

    fn has_arguments(&self, arguments: &Rendered, bytes: &[u8]) -> bool {
        // A hex dump breaks texts at the ends of its lines, and its digits are not part of the bytes.
        if arguments.form == Form::Binary {
            return String::from_utf8_lossy(bytes).to_lowercase().contains(&self.text);
        }
        let text = arguments.searchable().to_lowercase();
        // The text may be copied from a program, which writes JSON in one line, with spaces or without.
        text.contains(&self.text)
            || (arguments.is_json() && self.text.contains([',', ':', '[', ']', '{', '}']) && {
                let text = compact(&text);
                text.contains(&self.text) || text.contains(&compact(&self.text))
            })
    }
}

/// Returns the state of this name; `None` for an empty name.
pub(crate) fn state(name: &str) -> Result<Option<TaskState>, Failure> {
    if name.is_empty() { Ok(None) } else { known_state(name).map(Some) }
}

/// Returns the state of this name.
pub(crate) fn known_state(name: &str) -> Result<TaskState, Failure> {
    name.parse().map_err(|_| Failure::bad_request(format!("there is no state `{name}`")))
}

fn time(field: &str, text: &str) -> Result<Option<DateTime<Utc>>, Failure> {
    match text.trim() {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| {
            Failure::bad_request(format!("`{field}` is `{text}`; write a time such as 2030-01-31T09:00:00Z"))
        }),
    }
}
