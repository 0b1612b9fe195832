//! Program 1, whole and as users write it: a worker in ten lines.
include!("../as_written/program_1.rs");
