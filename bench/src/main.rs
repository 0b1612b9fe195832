//! Benchmarks of the brokers and the worker.
fn main() {}
