use asynq_runtime::prelude::*;

/// Sends one e-mail.
#[job(queue = "critical", retry = 5, timeout = "3m", unique = "1h")]
async fn send_email(to: String, subject: String) -> JobResult {
    println!("to {to}: {subject}");
    Ok(())
}

asynq_runtime::main!();
