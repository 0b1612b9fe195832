//! API.md program 5, whole: periodic jobs.
include!("../as_written/program_5.rs");
