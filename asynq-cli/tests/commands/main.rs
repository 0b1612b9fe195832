//! Every command over both brokers, inside this process: the words of a command line go in, and what it writes comes out.
//! A few run the real program: exit codes, pipes, signals.

mod bad_input;
mod changing;
mod cron;
mod desk;
mod hostile;
mod large;
mod looking;
mod process;
