//! Routes of this part of the dashboard.

use crate::route::Route;

/// Its routes.
pub(crate) fn routes() -> Vec<Route> {
    Vec::new()
}
