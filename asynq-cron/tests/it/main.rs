//! What holds for schedules: against an oracle that looks at every minute, and for random ones.

mod oracle;
mod properties;
