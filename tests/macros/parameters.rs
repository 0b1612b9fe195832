//! Parameters that a worker supplies, and parameters that only look like those.

use asynq_runtime::{
    job::{StateKey, StateMap},
    prelude::*,
};
use serde::{Deserialize, Serialize};

use crate::{run, run_in};

struct Prices(u64);

/// The tenant of a task; made of a state, behind an await.
struct Tenant {
    id: String,
    price: u64,
}

impl FromContext for Tenant {
    const REQUIRES: &'static [StateKey] = &[StateKey::of::<Prices>()];

    async fn from_context(ctx: &JobContext) -> JobResult<Self> {
        tokio::task::yield_now().await;
        let prices = State::<Prices>::from_context(ctx).await?;
        Ok(Self { id: ctx.id().to_string(), price: prices.0 })
    }
}

#[job]
async fn bill(#[from_context] tenant: Tenant, count: State<u32>, month: &str) -> JobResult<String> {
    Ok(format!("{} {} {} {month}", tenant.id, tenant.price, *count))
}

#[job]
fn bill_blocking(month: String, #[from_context] tenant: Tenant) -> JobResult<String> {
    Ok(format!("{} {month}", tenant.price))
}

#[tokio::test]
async fn a_type_of_ones_own_is_made_of_the_context_and_its_states_are_known_at_start() {
    let names = |keys: &[StateKey]| keys.iter().map(|key| key.name()).collect::<Vec<_>>();
    assert_eq!(names(bill::REQUIRES), ["u32", std::any::type_name::<Prices>()]);
    assert_eq!(names(bill_blocking::REQUIRES), [std::any::type_name::<Prices>()]);

    let mut states = StateMap::default();
    states.insert(7_u32);
    let error = run_in(&JobContext::detached_with(states.clone()), bill { month: "May".into() }).await.unwrap_err();
    let error = error.to_string();
    assert!(error.contains("there is no State<") && error.contains("`TestApp::state`"), "{error}");
    states.insert(Prices(3));
    let ctx = JobContext::detached_with(states);
    assert_eq!(run_in(&ctx, bill { month: "May".into() }).await.expect("runs"), "detached 3 7 May");
    assert_eq!(run_in(&ctx, bill_blocking { month: "May".into() }).await.expect("runs"), "3 May");
}

/// A value of the context that is taken apart, as extractors of axum are.
struct Header(String);

impl FromContext for Header {
    async fn from_context(ctx: &JobContext) -> JobResult<Self> {
        Ok(Self(ctx.id().to_string()))
    }
}

#[job]
async fn taken_apart(#[from_context] Header(id): Header, month: u8) -> JobResult<String> {
    Ok(format!("{id} {month}"))
}

#[tokio::test]
async fn a_value_of_the_context_may_be_taken_apart_by_a_pattern() {
    assert_eq!(run(taken_apart { month: 5 }).await.expect("runs"), "detached 5");
}

mod of_the_shop {
    use super::*;

    /// A type of the user with the name of the runtime's.
    #[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Debug)]
    pub(super) enum State {
        Open,
        Sold,
    }

    #[job(derive(Debug, Clone, PartialEq), derive(Eq))]
    pub(super) async fn mark(#[arg] state: State, since: Shared<&'static str>) -> JobResult<State> {
        assert_eq!(*since, "monday");
        Ok(state)
    }

    impl Eq for State {}
}

#[tokio::test]
async fn an_argument_may_be_called_as_a_state_and_a_state_otherwise() {
    use of_the_shop::{State, mark};
    let mut states = StateMap::default();
    states.insert("monday");
    let ctx = JobContext::detached_with(states);
    assert_eq!(run_in(&ctx, mark { state: State::Sold }).await.expect("runs"), State::Sold);
    assert!(run(mark { state: State::Open }).await.is_err(), "a detached context has no states");
}

#[test]
fn a_payload_derives_the_requested_traits() {
    use of_the_shop::{State, mark};
    let job = mark { state: State::Open };
    assert_eq!(job.clone(), job);
    assert_eq!(format!("{job:?}"), "mark { state: Open }");
}
