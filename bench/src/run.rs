//! One run: a fresh broker, the measurement in a process of its own, and the check that it was honest.

use std::process::Stdio;

use asynq_runtime::prelude::{BoxError, Client};
use tokio::process::Command;

use crate::{measured::Measured, order::Order, place::Place, task, workload};

/// Name of the hidden subcommand that measures.
pub(crate) const MEASURE: &str = "measure";

/// Measures once. `broker` is `redis`, `sqlite` or a URL; what is at a URL is left as it was found.
///
/// # Errors
///
/// The broker or the measured process failed, or something else happened than what was to be measured.
pub(crate) async fn once(broker: &str, order: &Order) -> Result<Measured, BoxError> {
    let workload = workload::named(&order.workload)?;
    let place = Place::start(broker)?;
    let order = Order { url: place.url(), ..order.clone() };
    let client = Client::connect(&order.url).await?;
    task::expect_pending(&client, 0).await?;
    let measured = async {
        workload.prepare(&order, &client).await?;
        let measured = in_its_own_process(&order).await?;
        workload.verify(&order, &client).await?;
        Ok(measured)
    };
    let measured = measured.await.map_err(|error: BoxError| format!("{}: {error}", order.workload).into());
    if let Place::Given(_) = place {
        task::forget(&client).await?;
    }
    measured
}

/// What [`once`] starts: measures and says what was found on standard output.
///
/// # Errors
///
/// The order cannot be read, or the measurement failed.
pub(crate) async fn measure(order: &str) -> Result<(), BoxError> {
    let order: Order = serde_json::from_str(order)?;
    let measured = workload::named(&order.workload)?.measure(&order).await?;
    println!("{}", serde_json::to_string(&measured)?);
    Ok(())
}

async fn in_its_own_process(order: &Order) -> Result<Measured, BoxError> {
    let child = Command::new(std::env::current_exe()?)
        .args([MEASURE, &serde_json::to_string(order)?])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let output = child.wait_with_output().await?;
    if !output.status.success() {
        return Err(format!("the measured process ended with {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
