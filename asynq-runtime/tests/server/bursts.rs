//! Tasks that begin together: what most of them do in their first turn is told of in one go, and none of it waits for
//! one that lasts.

use std::sync::{Mutex, PoisonError, mpsc};

use asynq_runtime::{Client, State, prelude::*};

use super::{memory, server, soon, start};

/// Says when to go on.
type Word = Mutex<mpsc::Receiver<()>>;

/// Blocks its thread the first time it is polled.
#[job(retry = 0)]
async fn stubborn(word: State<Word>) -> JobResult {
    word.lock().unwrap_or_else(PoisonError::into_inner).recv()?;
    Ok(())
}

#[job]
async fn swift() -> JobResult {
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outcomes_and_slots_do_not_wait_for_a_neighbour_that_blocks_its_thread_at_once() {
    let broker = memory().await;
    let client = Client::new(broker.clone());
    stubborn::enqueue(&client).await.unwrap();
    // Fewer than are worth a call of their own while others have not had their turn.
    for _ in 0..3 {
        swift::enqueue(&client).await.unwrap();
    }
    let (word, waits_for) = mpsc::channel();
    let (builder, _log) = server::<(stubborn, swift)>(&broker);
    let running = start(builder.state::<Word>(Mutex::new(waits_for)).concurrency(10)).await;
    soon(running.signals().settled.reached(3)).await;
    // More than there are slots.
    for _ in 0..20 {
        swift::enqueue(&client).await.unwrap();
    }
    soon(running.signals().settled.reached(23)).await;
    word.send(()).unwrap();
    soon(running.signals().settled.reached(24)).await;
    running.shutdown().await.unwrap();
}
