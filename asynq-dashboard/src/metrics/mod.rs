//! The text of `/metrics` for Prometheus: the numbers of queues by asynq's names, read from the broker at each scrape
//! where they are asked for, and this program's own metrics.

mod collector;
mod exposition;
mod recorder;

pub(crate) use self::{
    collector::Collector,
    exposition::{of, without_our_names},
    recorder::install,
};
