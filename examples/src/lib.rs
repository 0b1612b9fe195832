//! Example programs; see the files beside `Cargo.toml`.
