//! Example programs; see the files beside `Cargo.toml`. The README's Rust code is compiled here as doc tests.

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub mod readme {}
