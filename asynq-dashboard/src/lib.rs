//! A web dashboard over any asynq broker: pages, a JSON API, metrics and health checks, safe by default.
//!
//! [`Dashboard`] makes an [`axum::Router`] to mount in one's own application, or serves itself.

#![allow(dead_code, unused_imports)] // the contract: its users are being built

mod action;
mod api;
mod asset;
mod failure;
mod health;
mod live;
mod login;
mod look;
mod metrics;
mod page;
mod path;
mod route;
mod sample;
mod state;
