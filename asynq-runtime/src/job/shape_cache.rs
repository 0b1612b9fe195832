//! Looks up the shapes of payloads that this program cannot read as they are, and remembers them for a while.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::{
    resolve::{Needs, ShapeLookup},
    shape::ShapeDocument,
};
use crate::broker::{Broker, BrokerError};

/// After this time the broker is asked again: the shape may have been kept since, or have an alias more or a secret more.
const AGAIN: Duration = Duration::from_secs(10);
/// More shapes than this are not remembered: fingerprints are data from outside.
const MOST: usize = 1000;

/// The shapes that were looked up.
#[derive(Default)]
pub(crate) struct ShapeCache(Mutex<HashMap<(String, Needs), Found>>);

struct Found {
    lookup: Option<Arc<ShapeLookup>>,
    /// When the broker is asked again.
    until: Instant,
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
        let known = self.known(&which);
        if let Some((lookup, false)) = known {
            return Ok(lookup);
        }
        let stored = match (broker.shape(r#type, needs.id()).await, known) {
            (Ok(stored), _) => stored,
            (Err(_), Some((Some(lookup), _))) if lookup.is_ok() => return Ok(Some(lookup)),
            (Err(error), _) => return Err(error),
        };
        let lookup = stored.map(|body| Arc::new(ShapeDocument::from_bytes(&body)));
        if let Some(Err(reason)) = lookup.as_deref() {
            log!(warn, r#type, "the shape that the broker keeps of its arguments cannot be used: {reason}");
        }
        let mut found = self.0.lock();
        if found.len() >= MOST {
            found.clear();
        }
        found.insert(which, Found { lookup: lookup.clone(), until: Instant::now() + AGAIN });
        Ok(lookup)
    }

    /// Returns a shape found before, and whether this caller must ask for it again; other callers use it meanwhile.
    fn known(&self, which: &(String, Needs)) -> Option<(Option<Arc<ShapeLookup>>, bool)> {
        let mut found = self.0.lock();
        let Found { lookup, until } = found.get_mut(which)?;
        let now = Instant::now();
        let is_due = *until <= now;
        if is_due {
            *until = now + AGAIN;
        }
        Some((lookup.clone(), is_due))
    }
}

partial_debug!(ShapeCache { .. });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_looked_up_again_because_it_may_have_a_secret_or_an_alias_more() {
        let which = ("mail".to_owned(), Needs::Fingerprint(7));
        let lookup = Some(Arc::new(ShapeDocument::from_bytes(br#"{"v":1,"root":{"is":"str"}}"#)));
        let cache = ShapeCache::default();
        assert_eq!(cache.known(&which), None);
        cache.0.lock().insert(which.clone(), Found { lookup: lookup.clone(), until: Instant::now() });
        assert_eq!(cache.known(&which), Some((lookup.clone(), true)));
        assert_eq!(cache.known(&which), Some((lookup, false)), "one caller asks, and the others go on");
    }

    #[cfg(feature = "sqlite")]
    #[tokio::test]
    async fn a_shape_is_still_known_when_the_broker_cannot_be_asked_again() {
        let broker = Arc::clone(crate::Client::connect("sqlite::memory:").await.unwrap().broker());
        broker.close().await;
        let (cache, which) = (ShapeCache::default(), ("mail".to_owned(), Needs::Fingerprint(7)));
        let lookup = Some(Arc::new(ShapeDocument::from_bytes(br#"{"v":1,"root":{"is":"str"}}"#)));
        assert!(cache.find(&broker, "mail", which.1).await.is_err());
        cache.0.lock().insert(which.clone(), Found { lookup: lookup.clone(), until: Instant::now() });
        assert_eq!(cache.find(&broker, "mail", which.1).await.unwrap(), lookup);
    }
}
