//! The data of both the pages and the JSON API, read from the broker once and in one way.

pub(crate) mod broker;
pub(crate) mod payload;
pub(crate) mod periodic;
pub(crate) mod search;
