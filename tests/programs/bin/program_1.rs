//! API.md program 1, whole: a worker in ten lines.
include!("../as_written/program_1.rs");
