use asynq_runtime::prelude::*;
use asynq_runtime::testing::TestApp;

#[tokio::test]
async fn welcome_mail_is_sent() {
    let app = TestApp::new().await;                                            // in memory, manual clock
    send_email::enqueue_in(app.client(), std::time::Duration::from_secs(3600), "ann@example.com", "Hi").await.unwrap();
    app.assert_enqueued::<send_email>(|job| job.to == "ann@example.com").await;
    assert_eq!(app.drain().await.succeeded, 0);
    app.advance("1h").await;
    assert_eq!(app.drain().await.succeeded, 1);
    send_email("ann@example.com".into(), "plain call".into()).await.unwrap();   // the function is still a function
}
