//! What `#[job]` generates is clean under lints that are stricter than most programs'.

#![forbid(unsafe_code)]
#![deny(
    warnings,
    missing_docs,
    missing_debug_implementations,
    missing_copy_implementations,
    elided_lifetimes_in_paths,
    explicit_outlives_requirements,
    future_incompatible,
    let_underscore_drop,
    macro_use_extern_crate,
    meta_variable_misuse,
    non_ascii_idents,
    non_local_definitions,
    redundant_imports,
    redundant_lifetimes,
    rust_2018_idioms,
    rust_2021_compatibility,
    rust_2024_compatibility,
    single_use_lifetimes,
    trivial_casts,
    trivial_numeric_casts,
    unit_bindings,
    unnameable_types,
    unreachable_pub,
    unused,
    unused_crate_dependencies,
    unused_extern_crates,
    unused_import_braces,
    unused_lifetimes,
    unused_macro_rules,
    unused_qualifications,
    unused_results,
    variant_size_differences
)]
#![allow(unused_crate_dependencies)]

use asynq_runtime::{Client, EnqueueError, JobContext, JobError, JobResult, State, TaskInfo, job};

/// Every kind of parameter.
#[job(queue = "low", retry = 1, timeout = "1m", unique = "1h", unique_by = "to", retention = "1d", name = "a:b")]
pub(crate) async fn everything(
    ctx: &JobContext,
    state: State<u8>,
    to: String,
    subject: &str,
    numbers: &[u8],
    file: &std::path::Path,
    more: Option<String>,
) -> JobResult<u64> {
    drop((ctx.id(), state, to, subject, numbers, file, more));
    Ok(1)
}

/// A blocking one.
#[job(codec = "json")]
fn blocking(ctx: &JobContext, state: State<u8>, one: u64) -> Result<u64, std::io::Error> {
    drop((ctx.id(), state));
    Ok(one)
}

/// Waits in a group.
#[job(
    group = "digest",
    expires = "1h500ms",
    unique = "1h",
    unique_until = "success",
    unique_extend = true,
    backoff = "exponential(1s, 10m)"
)]
async fn note(text: String) {
    drop(text);
}

/// Made of many.
#[job(aggregates = note, backoff = gentle)]
async fn digest(ctx: &JobContext, notes: Vec<note>) {
    drop((ctx.group(), notes));
}

fn gentle(retried: u32, error: &JobError) -> std::time::Duration {
    let _ = error.policy();
    std::time::Duration::from_secs(u64::from(retried))
}

/// Nothing at all.
#[job]
async fn nothing() {}

/// Old.
#[deprecated = "use another"]
#[job]
async fn old(to: String) {
    drop(to);
}

/// Enqueues with every function there is.
async fn enqueue(client: &Client) -> Result<TaskInfo, EnqueueError> {
    drop(everything::enqueue(client, "a", "b", &[1], "c".as_ref(), None).await?);
    drop(blocking::enqueue_in(client, "10m", 5).await?);
    drop(note::enqueue(client, "a").await?);
    drop(digest::enqueue(client, Vec::new()).await?);
    nothing::job().queue("low").enqueue(client).await
}

fn main() {
    let _ = enqueue;
    fn inside() {
        /// A job of this function.
        #[job]
        async fn local(text: &str) {
            let _ = text.len();
        }
        drop(local::job("a"));
    }
    inside();
}
