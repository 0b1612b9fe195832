//! One run: a broker, the measurement in a process of its own, and the check that the work was done.

use std::{collections::HashMap, process::Stdio};

use asynq_runtime::prelude::{BoxError, Client};
use tokio::process::{Child, Command};

use crate::{limit::Script, measured::Measured, order::Order, queue, run_broker::RunBroker, workload};

/// The role of a process that this program starts. Roles are not part of the command line, so that a process that is measured
/// holds no memory for reading one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Measures, and writes the figures to standard output.
    Measure,
    /// Enqueues for another process that measures.
    Produce,
    /// Works for another process that measures.
    Work,
}

/// Returns the role of this process and its order, if another process of this program started it.
pub(crate) fn role() -> Option<(Role, Result<Order, BoxError>)> {
    let [name, order, url] = std::env::args().skip(1).collect::<Vec<_>>().try_into().ok()?;
    let role = [Role::Measure, Role::Produce, Role::Work].into_iter().find(|role| role.name() == name)?;
    Some((role, serde_json::from_str(&order).map(|order| Order { url, ..order }).map_err(Into::into)))
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Measure => "measure",
            Self::Produce => "produce",
            Self::Work => "work",
        }
    }

    /// Returns the command of a process of this role; the process ends with its handle.
    ///
    /// # Errors
    ///
    /// The path of this program is not known, or the order cannot be written as JSON.
    pub(crate) fn command(self, order: &Order) -> Result<Command, BoxError> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([self.name(), &serde_json::to_string(order)?, &order.url]);
        if self == Self::Measure {
            command.stdout(Stdio::piped());
        }
        command.stdin(Stdio::null()).kill_on_drop(true);
        Ok(command)
    }
}

/// Returns the figures of a measuring process.
///
/// # Errors
///
/// The process failed; it has written the reason to standard error.
pub(crate) async fn answer(process: Child) -> Result<Measured, BoxError> {
    let output = process.wait_with_output().await?;
    if !output.status.success() {
        return Err(format!("the measuring process ended with {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Runs orders one after the other.
#[derive(Debug, Default)]
pub(crate) struct Runner {
    /// Brokers with tasks that are always there, by kind and number: to fill them takes longer than to measure.
    crowded: HashMap<(String, u64), RunBroker>,
    /// The order whose queues are on a broker of the caller.
    given: Option<Order>,
}

impl Runner {
    /// Measures once. At a URL that the caller gave, all is left as it was found, at the latest by [`end`](Self::end).
    ///
    /// # Errors
    ///
    /// The broker or a process failed, or the work was not done as ordered.
    pub(crate) async fn once(&mut self, order: &Order) -> Result<Measured, BoxError> {
        let label = format!("{} on {}", order.label(), order.broker);
        self.measured(order).await.map_err(|error| format!("{label}: {error}").into())
    }

    async fn measured(&mut self, order: &Order) -> Result<Measured, BoxError> {
        let Some(present) = order.present else {
            let broker = RunBroker::start(&order.broker)?;
            let (order, client) = self.begin(&broker, order).await?;
            let measured = measured(&order, &client).await;
            let cleaned = self.clean().await;
            // The reason why a run failed says more than that its tasks could not be deleted.
            return measured.and_then(|measured| cleaned.map(|()| measured));
        };
        let key = (order.broker.clone(), present);
        if !self.crowded.contains_key(&key) {
            let broker = RunBroker::start(&order.broker)?;
            let (order, client) = self.begin(&broker, order).await?;
            queue::crowd(&client, &order, present).await?;
            self.crowded.insert(key.clone(), broker);
        }
        let order = self.crowded[&key].order(order);
        let client = Client::connect(&order.url).await?;
        let measured = measured(&order, &client).await;
        queue::clear(&client).await?;
        measured
    }

    /// Connects to a broker on which no run of this order was made.
    async fn begin(&mut self, broker: &RunBroker, order: &Order) -> Result<(Order, Client), BoxError> {
        self.clean().await?;
        let order = broker.order(order);
        let client = Client::connect(&order.url).await?;
        // Tasks of others would be run, or deleted in the end, so there must be none.
        queue::expect(&client, &Order { present: None, ..order.clone() }, 0).await?;
        if matches!(broker, RunBroker::Given(_)) {
            self.given = Some(order.clone());
        }
        Ok((order, client))
    }

    /// Deletes the queues on a broker of the caller, and the plain values of `limit-get`, which are in no queue.
    async fn clean(&mut self) -> Result<(), BoxError> {
        if let Some(order) = self.given.take() {
            self.crowded.retain(|_, broker| !matches!(broker, RunBroker::Given(_)));
            if order.workload == "limit-get" {
                Script::connect(&order.url)?.forget(order.n)?;
            }
            queue::forget(&Client::connect(&order.url).await?, &order).await?;
        }
        Ok(())
    }

    /// Deletes all that the runs have left, also after one that failed.
    ///
    /// # Errors
    ///
    /// A broker failed.
    pub(crate) async fn end(mut self) -> Result<(), BoxError> {
        self.clean().await
    }
}

/// Prepares an empty broker, measures, and checks the outcome.
///
/// # Errors
///
/// The broker or a process failed, or the work was not done as ordered.
pub(crate) async fn measured(order: &Order, client: &Client) -> Result<Measured, BoxError> {
    let workload = workload::named(&order.workload)?;
    workload.prepare(order, client).await?;
    let mut measured = answer(Role::Measure.command(order)?.spawn()?).await?;
    // The URL does not travel.
    measured.order.url.clone_from(&order.url);
    workload.verify(&measured, client).await?;
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use asynq_tests::{Persistence, RedisServer};

    use super::*;

    #[tokio::test]
    async fn a_run_that_is_ended_before_its_check_leaves_no_plain_value_on_the_redis_of_its_caller() {
        let server = RedisServer::start(Persistence::None);
        let values =
            || -> Vec<String> { redis::cmd("KEYS").arg("bench:plain:*").query(&mut server.connection()).unwrap() };
        let order = Order {
            workload: "limit-get".to_owned(),
            broker: server.url(),
            n: 3,
            concurrency: 100,
            payload_bytes: 100,
            ..Order::default()
        };
        let mut runner = Runner::default();
        let (order, client) = runner.begin(&RunBroker::Given(server.url()), &order).await.unwrap();
        workload::named(&order.workload).unwrap().prepare(&order, &client).await.unwrap();
        assert_eq!(values().len(), 3);
        runner.end().await.unwrap();
        assert_eq!(values(), [""; 0]);
        let queues: u64 = redis::cmd("SCARD").arg("asynq:queues").query(&mut server.connection()).unwrap();
        assert_eq!(queues, 0, "the limit adds the name of its queue when it connects");
    }
}
