//! Schedules against an oracle that looks at every minute, properties of random schedules, ids of entries, and the scheduler of
//! a server.

mod identity;
mod linked;
mod oracle;
mod properties;
mod run_now;
mod test_app;
