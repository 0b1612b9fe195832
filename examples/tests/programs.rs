//! Every example does what it says, on every broker that it can be given.

mod mailbox;
mod newsletter;
mod program;
mod small;
