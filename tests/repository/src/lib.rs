//! Checks of the repository's own rules: permitted imports, contracts of both brokers, how tests are written, that
//! each row of docs/features.md is shown by a test, and that every reference to a page, a path or a test leads
//! somewhere.
//!
//! The tests read source text and compile no crate of ours.
#![cfg(test)]
#![allow(clippy::unwrap_used)]

mod alerts;
mod aliases;
mod breaks;
mod brokers;
mod cases;
mod circles;
mod deploying;
mod examples;
mod exports;
mod features;
mod files;
mod layers;
mod manifests;
mod measured;
mod messages;
mod options;
mod pages;
mod polling;
mod prose;
mod references;
mod scripts;
mod source;
mod suites;
mod surface;
mod task_views;
mod templates;
mod tree;
mod variables;
