//! Program 5, whole and as users write it: periodic jobs.
include!("../as_written/program_5.rs");
