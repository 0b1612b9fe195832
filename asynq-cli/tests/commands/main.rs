//! Every command over both brokers, inside this process: the words of a command line go in, and what it writes comes out.
//! A few run the real program: exit codes, pipes, signals.
#![allow(clippy::unwrap_used)]

mod bad_input;
mod changing;
mod cluster;
mod cron;
mod desk;
mod docs;
mod doctor;
mod hostile;
mod large;
mod looking;
mod mishaps;
mod process;
mod web;
