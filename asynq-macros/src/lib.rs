//! The `#[job]` attribute.
