//! Tests of the Redis broker alone: fence, lost answers, forgotten scripts, full memory, wake-up.

mod await_end;
mod bounded;
mod connect;
mod deleted_queue;
mod direct;
mod due;
mod fence;
mod fetching;
mod foreign;
mod groups;
mod herd;
mod idle;
mod long_messages;
mod looking;
mod lost;
mod many_groups;
mod moving;
mod presence;
mod repair;
mod rights;
mod schedule;
mod server;
mod store;
mod tasks;
mod timing;
mod wake;
