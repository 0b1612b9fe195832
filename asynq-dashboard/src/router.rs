//! The one table of routes: a path that is not in it is not served, and each row says which callers may use it.

use std::collections::BTreeMap;

use axum::{
    Router,
    middleware::from_fn_with_state,
    routing::{MethodRouter, any},
};

use crate::{
    action, api, asset,
    failure::{Failure, Kind},
    guard, health, live, page, render,
    route::{Access, Route},
    state::AppState,
};

/// Returns every route of the dashboard; with `observed_only` those of metrics and health, which are all that `--metrics` serves.
pub(crate) fn table(observed_only: bool) -> Vec<Route> {
    if observed_only {
        return health::routes();
    }
    [page::routes(), action::routes(), api::routes(), live::routes(), asset::routes(), health::routes()].concat()
}

/// Returns the router of the table. If `is_all`, the whole server is ours, and the router answers to unknown paths too;
/// in an application it does so only below a mount path.
pub(crate) fn router(app: &AppState, is_all: bool) -> Router {
    let mount = &app.config.mount;
    let mut router = Router::new();
    let guarded = |access| from_fn_with_state((app.clone(), access), guard::guard);
    let mut by_path = BTreeMap::<_, MethodRouter<AppState>>::new();
    for Route { info, call } in table(app.config.observed_only) {
        let there = by_path.remove(info.path).unwrap_or_default();
        by_path.insert(info.path, there.merge(call.layer(guarded(info.access))));
    }
    let lost = any(no_such_page).layer(guarded(Access::Public));
    if !mount.is_empty() {
        router = router.route(&format!("{mount}/{{*rest}}"), lost.clone());
        router = match by_path.get("/") {
            // The first page is at the mount path, with a slash at its end and without.
            Some(first) => router.route(mount, first.clone().fallback(no_such_method)),
            None => router.route(&format!("{mount}/"), lost.clone()),
        };
    }
    for (path, call) in by_path {
        router = router.route(&format!("{mount}{path}"), call.fallback(no_such_method));
    }
    if is_all {
        router = router.fallback_service(lost.with_state(app.clone()));
    }
    router.layer(from_fn_with_state(app.clone(), render::render)).with_state(app.clone())
}

async fn no_such_method() -> Failure {
    Failure::new(Kind::Method, "this address cannot be called with this method")
}

async fn no_such_page() -> Failure {
    Failure::not_found("there is no such page")
}
