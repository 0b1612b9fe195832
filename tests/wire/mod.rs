//! Equal to Go on the wire: messages byte for byte, and the whole of Redis after the same calls.
//!
//! `vectors/` holds golden data that was made by the real Go library. A scenario
//! replays Go's calls through the contract, on a broker whose clock stands where Go's stood, and compares every key. Two
//! things may differ: our own keys and fields, and what `deviations.rs` lists with its reason (docs/design/wire.md).
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
