//! A worker's own dashboard, by its flags.
