//! Equality with Go on the wire: messages byte for byte, and the whole of Redis after the same calls.
//!
//! `vectors/` holds golden data that the real Go library made. A scenario
//! replays Go's calls through the contract, on a broker whose clock stands where Go's stood, and compares every key. Two
//! differences are allowed: our own keys and fields, and the lines of `deviations.rs` with their reasons (docs/design/wire.md).
#![allow(clippy::unwrap_used)]

mod compare;
mod cron;
mod deviations;
mod golden;
mod options;
mod probes;
mod pure_encodings;
mod replay;
mod scenarios;
mod schedulers;
