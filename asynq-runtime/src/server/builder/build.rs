//! Makes a server of the options of its builder: everything is checked, then it connects.

use std::sync::Arc;

use super::{
    super::{
        Parts, Server, config::Config, dispatcher::Dispatcher, error::ServerError, executor::Executor,
        heartbeat_runtime::HeartbeatRuntime, stuck::GivenUp,
    },
    BrokerSource, ServerBuilder, checks,
};
use crate::{
    broker::Broker,
    client::Client,
    connect,
    job::{Aggregation, BlockingPool, StateKey},
    panics,
};

/// Makes a server of the options that were checked.
type OnBroker = Box<dyn FnOnce(Arc<dyn Broker>) -> Parts + Send>;

impl ServerBuilder {
    /// Checks everything and connects, on the server's own I/O thread.
    ///
    /// # Errors
    ///
    /// There are no jobs and no service that stands alone, or the jobs cannot be served
    /// ([`RegistryError`](crate::job::RegistryError)); a name, a weight, a limit or a time is not valid; a choice matches no job; or the
    /// broker is not reachable. Nothing runs then, and the server is not on the broker's list.
    pub async fn build(mut self) -> Result<Server, ServerError> {
        self.add_linked_services();
        // A program that names queues means to work.
        let may_idle = self.queues.is_empty() && self.services.iter().any(|service| service.stands_alone());
        let (source, on_broker) = self.check(may_idle, true)?;
        let heartbeat_runtime = HeartbeatRuntime::spawn().map_err(ServerError::Thread)?;
        let (broker, closes_broker) = match source {
            BrokerSource::Broker(broker) => (broker, false),
            // On the heartbeat runtime an answer wakes no other thread to reach the waiting component.
            BrokerSource::Url(url) => {
                let thread = heartbeat_runtime.thread.clone();
                (heartbeat_runtime.call(async move { connect::connect_on(Some(thread), &url).await }).await??, true)
            }
        };
        Ok(Server { parts: on_broker(broker), closes_broker, heartbeat_runtime })
    }

    /// Returns the parts of a server that a test drives, on the test's broker, with the queues that were named alone. There may be
    /// no jobs, and states may be missing.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build), but for missing jobs and states and for the limits of queues.
    #[allow(dead_code, reason = "a TestApp uses it, which is not there without the broker that it runs on")]
    pub(crate) fn parts(mut self, broker: Arc<dyn Broker>) -> Result<Parts, ServerError> {
        self.limits.clear();
        let names_queues = !self.queues.is_empty();
        let (_, on_broker) = self.check(true, false)?;
        let mut parts = on_broker(broker);
        if !names_queues {
            parts.config.queues.clear();
        }
        Ok(parts)
    }

    fn check(self, may_idle: bool, needs_states: bool) -> Result<(BrokerSource, OnBroker), ServerError> {
        if let Some(mistake) = self.mistake {
            return Err(mistake);
        }
        let registry = checks::registry(self.registry, self.registered, &self.handlers, may_idle)?;
        let program = registry.clone();
        let (registry, handlers) = checks::chosen(&self.choice, registry, self.handlers)?;
        registry.check_codecs()?;
        if let Err(error) = registry.check_upgrades() {
            log!(warn, "{error}");
        }
        // Without any job there is nothing to take from a queue.
        let is_whole = (self.choice.is_everything() && !registry.is_empty()) || !handlers.is_empty();
        let queues = if self.queues.is_empty() { checks::default_queues(&registry, is_whole) } else { self.queues };
        let mut aggregations = self.aggregations;
        aggregations.serve(&registry, Aggregation::linked().chain(self.aggregated))?;
        let config = Config { queues: checks::entries(queues, self.limits)?, ..self.config };
        if needs_states {
            registry.check_states(&self.states, StateKey::of::<Client>())?;
        }
        let on_broker: OnBroker = Box::new(move |broker| {
            let mut states = self.states;
            if !states.contains(StateKey::of::<Client>()) {
                states.insert(Client::new(Arc::clone(&broker)));
            }
            // The hook calls the one that was there, and is installed once in a program.
            panics::note_places();
            let executor = Executor {
                dispatcher: Arc::new(Dispatcher::new(registry, handlers, config.on_unknown)),
                states: Arc::new(states),
                blocking: BlockingPool::new(self.blocking_limit),
                broker: Arc::clone(&broker),
                hooks: self.hooks,
                given_up: GivenUp::new(config.concurrency.min(self.blocking_limit)),
                closing: Arc::default(),
            };
            Parts {
                broker,
                config,
                program,
                executor,
                aggregations: Arc::new(aggregations),
                layers: self.layers,
                lifecycle_hooks: self.lifecycle_hooks,
                services: self.services,
            }
        });
        Ok((self.source, on_broker))
    }
}
