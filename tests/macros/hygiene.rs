//! Names of the user never clash with those of an expansion: of the prelude, of the runtime, or of a parameter.

#![no_implicit_prelude]
#![allow(dead_code, unused_imports, unreachable_pub, non_camel_case_types)]
#![allow(clippy::too_many_arguments, clippy::duplicate_underscore_argument)] // names and number are the point
#![deny(missing_docs, unused_variables, non_local_definitions)]

use ::asynq_runtime::{JobContext, job};

/// Shadows the standard one.
pub struct Result;
/// Shadows the standard one.
pub struct Option;
/// Shadows the standard one.
pub struct Vec;
/// Shadows the runtime's.
pub struct Job;
/// Shadows the runtime's.
pub struct Client;
/// Shadows the runtime's.
pub trait IntoJobResult {}
/// Shadows serde's.
pub trait Serialize {}
/// Shadows serde's.
pub trait Deserialize {}
/// Shadows the standard one.
pub trait Into {}
/// Shadows the standard one.
pub trait Clone {}
/// Shadows the standard one.
pub trait ToOwned {}
/// Shadows the standard one.
#[allow(non_snake_case)]
pub fn Ok() {}
/// Shadows the standard one.
#[allow(non_snake_case)]
pub fn Some() {}
/// Could be confused with the parameter.
pub fn client() {}
/// Could be confused with the standard one.
pub mod std {}
/// Could be confused with the standard one.
pub mod core {}
/// Could be confused with serde itself.
pub mod serde {}
/// Could be confused with the runtime.
pub mod asynq_runtime {}
/// Could be confused with the scope of the expansion.
pub mod __rt {}

/// A `String` of the user's.
#[derive(::serde::Serialize, ::serde::Deserialize)]
pub struct String(pub u8);

/// Parameters with the names of the expansion's own.
#[job(unique = "1h", unique_by = "client, ctx")]
pub async fn names(client: u8, delay: u8, when: u8, ctx: u8, _ctx: u8, job: u8, state_0: u8, run: &str) -> u8_result {
    ::core::result::Result::Ok(client + delay + when + ctx + _ctx + job + state_0 + run.len() as u8)
}

/// A name for the result.
#[allow(non_camel_case_types)]
pub type u8_result = ::asynq_runtime::JobResult<u8>;

/// A `String` that is not the standard one is taken as it is.
#[job]
pub async fn own_string(text: String, texts: &[u8], order: &Order) -> ::asynq_runtime::JobResult<u8> {
    ::core::result::Result::Ok(text.0 + texts[0] + order.0)
}

/// Borrowed and cloned.
#[derive(::core::clone::Clone, ::serde::Serialize, ::serde::Deserialize)]
pub struct Order(u8);

/// A blocking job with states, context and arguments.
#[job(queue = "low", retry = 0)]
pub fn blocking(client: Shared_u8, state_0: u8, ctx: &JobContext) -> ::asynq_runtime::JobResult<u8> {
    let _ = ctx;
    ::core::result::Result::Ok(client.0 + state_0)
}

/// An argument with the name of a state.
#[allow(non_camel_case_types)]
#[derive(::serde::Serialize, ::serde::Deserialize)]
pub struct Shared_u8(pub u8);

/// A state under another name is not recognised as a state, so this uses its own name.
#[job]
pub async fn with_state(state: ::asynq_runtime::State<u8>) {
    let _: &u8 = &state;
}

#[::core::prelude::v1::test]
fn jobs_run_under_any_neighbouring_names() {
    let runtime = ::tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(run_all());
}

async fn run_all() {
    let all = names { client: 1, delay: 1, when: 1, ctx: 1, _ctx: 1, job: 1, state_0: 1, run: "ab".into_string() };
    ::core::assert_eq!(crate::run(all).await.expect("runs"), 9);
    let own = own_string { text: String(1), texts: ::std::vec![2], order: Order(3) };
    ::core::assert_eq!(crate::run(own).await.expect("runs"), 6);
    ::core::assert_eq!(crate::run(blocking { client: Shared_u8(1), state_0: 2 }).await.expect("runs"), 3);
    let _ = names::job(1, 1, 1, 1, 1, 1, 1, "ab");
    let _ = own_string::job(String(1), &[2], &Order(3));
}

trait IntoString {
    fn into_string(self) -> ::std::string::String;
}

impl IntoString for &str {
    fn into_string(self) -> ::std::string::String {
        ::std::borrow::ToOwned::to_owned(self)
    }
}
