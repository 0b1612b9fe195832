//! A whole program as users write it: a worker in ten lines.
include!("../as_written/worker.rs");
