//! Jobs that changed.

use asynq_runtime::prelude::*;
use serde::Deserialize;

#[job(name = "user:renamed_job", alias = ["user:before", "user:long_before"])]
async fn renamed_job(
    #[serde(alias = "to")] recipient: String,
    #[serde(default)] copies: u32,
    note: Option<String>,
) -> JobResult {
    println!("{recipient} {copies} {note:?}");
    Ok(())
}

#[derive(Deserialize)]
struct InvoiceV1 {
    euros: u32,
}

#[derive(Deserialize)]
struct InvoiceV2 {
    cents: u32,
}

fn from_v1(old: InvoiceV1) -> invoice {
    invoice { cents: u64::from(old.euros) * 100 }
}

fn from_v2(old: InvoiceV2) -> invoice {
    invoice { cents: old.cents.into() }
}

#[job(name = "user:invoice", upgrade = [from_v1, from_v2])]
async fn invoice(cents: u64) -> JobResult {
    println!("{cents}");
    Ok(())
}

#[job(name = "user:by_hand", fingerprint = "v2")]
async fn by_hand(to: String, n: u8) -> JobResult {
    println!("{to} {n}");
    Ok(())
}
