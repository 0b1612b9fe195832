//! How answers look: tables for people, JSON for programs, and neither lets a control character through.

mod facts;
mod json;
mod payload;
mod queue;
mod table;
mod task;
mod text;

pub(crate) use asynq_grammar::thousands as number;
pub(crate) use asynq_runtime::inspector::time;

pub(crate) use self::{
    facts::Facts,
    json::json,
    payload::{Payload, brief, for_people, for_people_in_brief, full},
    queue::{error_rate, latency, queue_table},
    table::{Cell, Style, Table},
    task::TaskJson,
    text::{about, ago, bytes, clean, clean_lines, cut, distance, short_name, tasks, tasks_of, until},
};
