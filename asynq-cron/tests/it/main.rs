//! What holds for schedules: against an oracle that looks at every minute, and for random ones. And which scheduler a server has.

mod linked;
mod oracle;
mod properties;
mod test_app;
