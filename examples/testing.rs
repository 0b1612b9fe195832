//! Tests of your own jobs: in memory, without a service, with a clock that the test advances.
//!
//! ```text
//! cargo test --example testing
//! ```

use asynq_runtime::prelude::*;

/// Reminds a guest, or archives the task if the text cannot be an address.
#[job(retry = 2)]
async fn remind(to: String) -> JobResult {
    if !to.contains('@') {
        return Err(JobError::skip_retry(format!("bad address {to}")));
    }
    println!("reminded {to}");
    Ok(())
}

asynq_runtime::main!();

#[cfg(test)]
mod tests {
    use asynq_runtime::testing::TestApp;

    use super::*;

    #[tokio::test]
    async fn a_reminder_waits_for_its_hour() {
        let app = TestApp::new().await;
        let hour = std::time::Duration::from_secs(3600);
        remind::enqueue_in(app.client(), hour, "ann@example.com").await.unwrap();

        app.assert_enqueued::<remind>(|job| job.to == "ann@example.com").await;
        assert_eq!(app.drain().await.succeeded, 0);
        app.advance("1h").await;
        assert_eq!(app.drain().await.succeeded, 1);
    }

    #[tokio::test]
    async fn the_function_is_still_a_function() {
        remind("ann@example.com".to_owned()).await.unwrap();
        let error = remind("nobody".to_owned()).await.unwrap_err();
        assert_eq!(error.policy(), Policy::SkipRetry);
    }
}
