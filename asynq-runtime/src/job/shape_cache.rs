//! Looks up, once, the shapes of payloads that this program cannot read as they are.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::{
    resolve::{Needs, ShapeLookup},
    shape::ShapeDocument,
};
use crate::broker::{Broker, BrokerError};

/// After this time the broker is asked again: the shape may have been kept since, or another one in its place.
const AGAIN: Duration = Duration::from_secs(10);
/// More shapes than this are not remembered: fingerprints are data from outside.
const MOST: usize = 1000;

/// The shapes that were looked up.
#[derive(Default)]
pub(crate) struct ShapeCache(Mutex<HashMap<(String, Needs), Found>>);

#[derive(Clone)]
struct Found {
    lookup: Option<Arc<ShapeLookup>>,
    at: Instant,
}

impl ShapeCache {
    /// Returns the shape of tasks of this type that the broker keeps.
    pub(crate) async fn find(
        &self,
        broker: &Arc<dyn Broker>,
        r#type: &str,
        needs: Needs,
    ) -> Result<Option<Arc<ShapeLookup>>, BrokerError> {
        let which = (r#type.to_owned(), needs);
        if let Some(found) = self.known(&which) {
            return Ok(found.lookup);
        }
        let lookup = broker.shape(r#type, needs.id()).await?;
        let lookup = lookup.map(|body| Arc::new(ShapeDocument::from_bytes(&body)));
        if let Some(Err(reason)) = lookup.as_deref() {
            tracing::warn!(r#type, "the shape that the broker keeps of its arguments cannot be used: {reason}");
        }
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if found.len() >= MOST {
            found.clear();
        }
        found.insert(which, Found { lookup: lookup.clone(), at: Instant::now() });
        Ok(lookup)
    }

    /// Returns a shape found before. The shape of a fingerprint never changes, so a readable one is good for ever.
    fn known(&self, which: &(String, Needs)) -> Option<Found> {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(which).cloned()?;
        let is_final = matches!((which.1, found.lookup.as_deref()), (Needs::Fingerprint(_), Some(Ok(_))));
        (is_final || found.at.elapsed() < AGAIN).then_some(found)
    }
}

partial_debug!(ShapeCache { .. });
