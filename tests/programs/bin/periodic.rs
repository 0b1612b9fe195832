//! A whole program as users write it: periodic jobs.
include!("../as_written/periodic.rs");
