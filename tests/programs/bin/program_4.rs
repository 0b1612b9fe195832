//! Program 4, whole and as users write it: state, context, errors that carry a policy, blocking work.
#![allow(missing_docs, missing_debug_implementations)] // as it is written
include!("../as_written/program_4.rs");
