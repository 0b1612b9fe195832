//! UI cases of the `#[job]` attribute; see `tests/`.
