//! Measures the cost of arguments that carry their shape: through the codec and back, beside plain postcard without checks.

use std::{hint::black_box, time::Instant};

use asynq_runtime::{prelude::*, testing};

use crate::median::Median;

/// How often both ways are measured, in turns, and the round trips of each measurement.
const EXTENT: (usize, u32) = (21, 1_000);
/// The extent of a quick run.
const QUICK: (usize, u32) = (3, 10);

#[job(derive(Clone))]
async fn two_fields(to: String, cents: u64) {
    black_box((to, cents));
}

#[job(derive(Clone))]
async fn seven_fields(a: String, b: Option<String>, c: u64, d: i32, e: bool, f: f64, g: Vec<u8>) {
    black_box((a, b, c, d, e, f, g));
}

#[job(derive(Clone))]
async fn hundred_texts(texts: Vec<String>) {
    black_box(texts);
}

/// Prints a line for each kind of arguments. A `quick` run shows only that everything works.
///
/// # Errors
///
/// The function never fails: none of these arguments can.
pub(crate) async fn compare(quick: bool) -> Result<(), BoxError> {
    println!(
        "{:<16}{:>8}{:>10}{:>14}{:>10}{:>16}",
        "arguments", "bytes", "ours ns", "postcard ns", "ratio", "more ns a task"
    );
    let extent = if quick { QUICK } else { EXTENT };
    let text = "ann@example.com".to_owned();
    line(two_fields { to: text.clone(), cents: 4_200 }, extent).await?;
    line(seven_fields { a: text.clone(), b: None, c: 1 << 40, d: -7, e: true, f: 0.5, g: vec![7; 16] }, extent).await?;
    line(hundred_texts { texts: vec![text; 100] }, extent).await
}

/// Prints the line of one job. An enqueue encodes and an attempt decodes: one task pays one round trip.
async fn line<J: Job + Clone>(job: J, (rounds, trips): (usize, u32)) -> Result<(), BoxError> {
    let ctx = JobContext::detached();
    let (mut ours, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let begun = Instant::now();
        for _ in 0..trips {
            black_box(testing::run_in(&ctx, job.clone()).await);
        }
        ours.push(begun.elapsed().as_nanos() as f64 / f64::from(trips));
        let begun = Instant::now();
        for _ in 0..trips {
            let payload = bytes::Bytes::from(postcard::to_allocvec(&black_box(job.clone()))?);
            black_box(postcard::from_bytes::<J>(&payload)?.run(&ctx).await);
        }
        plain.push(begun.elapsed().as_nanos() as f64 / f64::from(trips));
    }
    let bytes = postcard::to_allocvec(&job)?.len();
    let [ours, plain] = [ours, plain].map(|times| Median::of(times).map_or(0, |median| median.figure as u64));
    let percent = ours * 100 / plain.max(1);
    println!("{:<16}{bytes:>8}{ours:>10}{plain:>14}{:>9}%{:>16}", J::NAME, percent, ours.saturating_sub(plain));
    Ok(())
}
