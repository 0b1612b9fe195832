//! Looks up the shapes of payloads that this program cannot read as they are, and remembers them for a while.

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

/// After this time the broker is asked again: the shape may have been kept since, or say now that an argument is secret.
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

    /// Returns a shape found before.
    fn known(&self, which: &(String, Needs)) -> Option<Found> {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(which).cloned()?;
        (found.at.elapsed() < AGAIN).then_some(found)
    }
}

partial_debug!(ShapeCache { .. });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_looked_up_again_because_an_argument_of_it_may_have_become_secret() {
        let cache = ShapeCache::default();
        let which = ("mail".to_owned(), Needs::Fingerprint(7));
        let lookup = ShapeDocument::from_bytes(br#"{"v":1,"root":{"is":"str"}}"#);
        for (at, is_known) in [(Instant::now(), true), (Instant::now() - AGAIN, false)] {
            let found = Found { lookup: Some(Arc::new(lookup.clone())), at };
            cache.0.lock().unwrap().insert(which.clone(), found);
            assert_eq!(cache.known(&which).is_some(), is_known);
        }
    }
}
