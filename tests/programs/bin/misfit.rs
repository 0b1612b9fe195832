//! A program whose set-up is broken as `MISFIT` says: it fails, never ends, blocks its thread, or panics beside a call that never
//! returns; else it forgets a state.

use std::sync::mpsc;

use asynq_runtime::prelude::*;

struct Mailer;

/// Needs a state that the program lacks.
#[job]
async fn needs_mailer(mailer: State<Mailer>) -> JobResult {
    let Mailer = *mailer;
    Ok(())
}

/// Has an argument whose type the fingerprint covers only in part.
#[job]
async fn picky(word: Word) -> JobResult {
    println!("{}", word.0);
    Ok(())
}

#[derive(serde::Serialize)]
struct Word(String);

impl<'de> serde::Deserialize<'de> for Word {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let word = String::deserialize(d)?;
        if word == "password" { Ok(Self(word)) } else { Err(serde::de::Error::custom("not the password")) }
    }
}

/// Never returns, as a call into a broken library might.
fn hang(started: &mpsc::Sender<()>) {
    let _ = started.send(());
    loop {
        std::thread::park();
    }
}

async fn setup(app: App) -> Result<App, BoxError> {
    println!("set-up ran");
    match std::env::var("MISFIT").unwrap_or_default().as_str() {
        "fail" => Err("the database of the shop is not there".into()),
        "wait" => std::future::pending().await,
        "block" => loop {
            std::thread::park();
        },
        "panic" => {
            let (started, is_started) = mpsc::channel();
            tokio::task::spawn_blocking(move || hang(&started));
            is_started.recv()?;
            panic!("the shop is closed")
        }
        _ => Ok(app),
    }
}

asynq_runtime::main!(setup);
