//! A whole program as users write it: state, context, errors that carry a policy, blocking work.
#![allow(missing_docs, missing_debug_implementations)] // as it is written
include!("../as_written/policies.rs");
