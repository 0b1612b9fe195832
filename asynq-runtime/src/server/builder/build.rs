//! Makes a server of what its builder was told: everything is checked, then it connects.

use std::sync::Arc;

use super::{
    super::{
        Parts, Server,
        aggregate::Aggregations,
        config::{Config, default_concurrency},
        error::ServerError,
        executor::{Executor, ExecutorParts},
        flags::Flags,
        handlers::Handlers,
        heartbeat_runtime::HeartbeatRuntime,
        hooks::{Hooks, LifecycleHooks},
        layer_stack::Layers,
        retry_delay::ServerBackoff,
        service::Service,
        stuck::GivenUp,
    },
    BrokerSource, ServerBuilder, checks,
};
use crate::{
    broker::Broker,
    client::Client,
    connect,
    job::{Aggregation, BlockingPool, Registry, StateKey, StateMap},
};

impl ServerBuilder {
    /// Checks everything and connects, on the server's own I/O thread.
    ///
    /// # Errors
    ///
    /// No jobs and no service that stands alone, two jobs of one name or a missing state; a name, a weight, a limit or a
    /// time that cannot be; a choice that no job fits; a broker that is not there. Nothing runs yet and nobody has been
    /// told of this server.
    pub async fn build(mut self) -> Result<Server, ServerError> {
        self.add_linked_services();
        // A program that names queues means to work.
        let may_idle = self.queues.is_empty() && self.services.iter().any(|service| service.stands_alone());
        let (source, checked) = self.check(may_idle)?;
        checked.registry.check_states(&checked.states, StateKey::of::<Client>())?;
        let heartbeat_runtime = HeartbeatRuntime::spawn().map_err(ServerError::Thread)?;
        let (broker, closes_broker) = match source {
            BrokerSource::Broker(broker) => (broker, false),
            // On the heartbeat runtime: an answer then wakes no other to reach who waits for it.
            BrokerSource::Url(url) => {
                let thread = heartbeat_runtime.thread();
                (heartbeat_runtime.call(async move { connect::connect_on(Some(thread), &url).await }).await??, true)
            }
        };
        Ok(Server { parts: checked.on(broker), closes_broker, heartbeat_runtime })
    }

    /// The parts of a server that a test drives by hand, on the test's broker and whatever its queues. There may be no jobs, and
    /// states may be missing.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build), but for missing jobs and states and for what was said of queues.
    #[allow(dead_code, reason = "a TestApp uses it, which is not there without the broker that it runs on")]
    pub(crate) fn parts(mut self, broker: Arc<dyn Broker>) -> Result<Parts, ServerError> {
        (self.queues, self.limits) = Default::default();
        Ok(self.check(true)?.1.on(broker))
    }

    fn check(self, may_idle: bool) -> Result<(BrokerSource, Checked), ServerError> {
        if let Some((option, reason)) = self.wrong_rule {
            return Err(ServerError::option(option, reason));
        }
        let handlers = Handlers::new(self.handlers)?;
        let registry = checks::registry(self.registry, self.registered, &handlers, may_idle)?;
        let (registry, handlers) = checks::chosen(&self.choice, registry, handlers)?;
        registry.check_codecs()?;
        // Without any job there is nothing to take from a queue.
        let is_whole = (self.choice.is_everything() && !registry.is_empty()) || !handlers.is_empty();
        let defaults = checks::Defaults { registry: &registry, is_whole };
        let mut aggregations = self.aggregations;
        aggregations.serve(&registry, Aggregation::linked().chain(self.aggregated))?;
        let config = Config {
            queues: checks::entries(self.queues, self.limits, &defaults)?,
            strict: self.strict,
            retries: self.retries,
            concurrency: self.concurrency.unwrap_or_else(default_concurrency),
            shutdown_timeout: self.shutdown_timeout?,
            on_unknown: self.on_unknown,
            archives: self.archives?,
            health_check: self.health_check?,
        };
        let checked = Checked {
            config,
            registry,
            handlers,
            aggregations,
            states: self.states,
            blocking_limit: self.blocking_limit,
            backoff: self.backoff,
            hooks: self.hooks,
            layers: self.layers,
            lifecycle_hooks: self.lifecycle_hooks,
            services: self.services,
            flags: self.flags,
        };
        Ok((self.source, checked))
    }
}

/// What a builder was told, once it was checked.
struct Checked {
    config: Config,
    registry: Registry,
    handlers: Handlers,
    aggregations: Aggregations,
    states: StateMap,
    blocking_limit: usize,
    backoff: Option<ServerBackoff>,
    hooks: Hooks,
    layers: Layers,
    lifecycle_hooks: LifecycleHooks,
    services: Vec<Box<dyn Service>>,
    flags: Flags,
}

impl Checked {
    fn on(mut self, broker: Arc<dyn Broker>) -> Parts {
        if !self.states.contains(StateKey::of::<Client>()) {
            self.states.insert(Client::new(Arc::clone(&broker)));
        }
        let executor = Executor::new(ExecutorParts {
            registry: self.registry,
            handlers: self.handlers,
            states: Arc::new(self.states),
            blocking: BlockingPool::new(self.blocking_limit),
            broker: Arc::clone(&broker),
            on_unknown: self.config.on_unknown,
            backoff: self.backoff,
            hooks: self.hooks,
            given_up: GivenUp::new(self.config.concurrency.min(self.blocking_limit)),
        });
        Parts {
            broker,
            config: self.config,
            executor,
            aggregations: Arc::new(self.aggregations),
            layers: self.layers,
            lifecycle_hooks: self.lifecycle_hooks,
            services: self.services,
            flags: self.flags,
        }
    }
}
