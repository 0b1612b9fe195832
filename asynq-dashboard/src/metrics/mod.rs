//! The text of `/metrics` for Prometheus: asynq's own names, read from the broker at each scrape where it is asked for, and
//! what this program measured.

mod collector;
mod exposition;
mod recorder;

pub(crate) use self::{
    collector::Collector,
    exposition::{of, without_our_names},
    recorder::install,
};
