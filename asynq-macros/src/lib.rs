//! Implements `#[job]`, which `asynq-runtime` re-exports, `#[periodic]`, which `asynq-cron` re-exports, and both for `asynq-jobs`. Do
//! not depend on this crate directly.
//!
//! Tokens in, tokens out: parse the attribute and the signature, make a model that cannot be wrong any more, and print it.
//! The expansion holds no logic, only calls into `asynq_runtime::__private`, under the name of the crate whose attribute was
//! written.

mod errors;
#[cfg(test)]
mod expansion_tests;
mod item;
mod job;
#[cfg(test)]
mod message_tests;
mod paths;

use proc_macro::TokenStream;

/// Makes a typed background job of a free function; `async fn` runs on the async threads, `fn` on the blocking pool.
///
/// The function stays as it is written. A struct of the same name, whose fields are the function's arguments, is made beside
/// it: this struct is the payload, has the functions that enqueue the job, and implements the `Job` trait.
///
/// The worker supplies `&JobContext`, `State<T>` (or `Shared<T>`, the same type by another name), `Checkpoint<T>` and each
/// parameter that is marked with `#[from_context]`, whose type implements `FromContext`. Every other parameter is an argument
/// and is stored; one whose type happens to be called `State`, `Shared` or `Checkpoint` is marked with `#[arg]`. A borrowed argument is
/// stored in its owned form, and a `String` is taken as `impl Into<String>`. One argument is stored as it is, several as an
/// object with their names. `#[serde(…)]` and doc comments on a parameter move to its field.
///
/// | option | value | default |
/// |---|---|---|
/// | `queue` | the queue of the tasks | `"default"` |
/// | `retry` | how often a task is tried again after a failure | 25 |
/// | `timeout` | how long one attempt may take | as in asynq: 30 minutes, or none where there is a `deadline` |
/// | `deadline` | how long after the enqueue a task may still run | none |
/// | `expires` | how long after the enqueue an attempt may begin | never |
/// | `group` | the group in which a task waits to be aggregated | runs by itself |
/// | `aggregates` | the job whose tasks become one task of this job; the argument is `Vec` of that job | none |
/// | `unique` | how long at most, from when it is due, a waiting or running task keeps an equal one out | not unique |
/// | `debounce` | how long no equal task is enqueued before a task runs: an equal enqueue gives the waiting task new arguments and starts this time again | runs at once |
/// | `debounce_max` | how long at most a debounced task waits, from the first of those enqueues on | as long as they come |
/// | `unique_by` | the arguments that make two tasks equal: `"to, campaign"` | all |
/// | `unique_until` | the event that frees the lock: any `"end"`, `"success"` as in asynq, or the `"start"` of the task | `"end"` |
/// | `unique_extend` | `true`: the lock lasts at least as long as the task runs | `false` |
/// | `retention` | how long the finished task and its result are kept | not kept |
/// | `backoff` | the pause before a retry: `"30s"`, `"linear(10s)"`, `"exponential(1s, 10m)"`, or a function `fn(u32, &JobError) -> Duration` | the server's |
/// | `name` | the name on the wire | the function's name |
/// | `alias` | earlier names of the job, one in quotes or a list: tasks that wait under them run as this job | none |
/// | `upgrade` | functions from the arguments of an earlier version to this job, one path or a list, tried in this order | none |
/// | `codec` | `"postcard"`, or `"json"` for queues shared with other languages | `"postcard"` |
/// | `fingerprint` | the shape of a postcard payload, named by hand | computed from the types of the arguments |
/// | `on_error` | a function `fn(&E) -> Policy` for the job's own error type | retry |
/// | `on_archive` | a function `async fn(ArchivedTask<job>)` that the worker calls when a task is given up | none |
/// | `max_crashes` | at which death of a worker that runs the task it is archived; with 1 a death archives every such task that its worker ran | 3 |
/// | `kill_after` | for an `fn`: how long after its timeout or a cancel a run is given up if its thread has not returned | never |
/// | `derive(…)` | traits that the struct derives besides, such as `derive(Debug, Clone, PartialEq)` | nothing |
/// | `crate` | the path of `asynq-runtime` when it is renamed or re-exported | `::asynq_runtime` |
///
/// Durations are text: `"90s"`, `"3m"`, `"1h30m"`, `"7d"`; those of `timeout`, `deadline`, `unique` and `retention` are whole seconds.
/// Everything is checked while compiling.
///
/// A semicolon instead of the body, `#[job] async fn resize(path: String) -> JobResult<u64>;`, makes a *contract*: the same
/// struct with the same functions, for a program that enqueues the job and leaves it to another program to run. Both programs
/// write the same name, parameters and codec; a task that does not fit is requeued like any task of an unknown shape. Options
/// travel with the task, so those of the program that enqueues it count, but for `backoff`, `on_error`, `on_archive`,
/// `aggregates`, `kill_after` and `upgrade`, which are the worker's; an `alias` is for both.
///
/// Because the struct and the function share their name, a file `send_email.rs` declared as `mod send_email;` beside
/// the job clashes with it (E0428): name files by topic (`email.rs`).
#[proc_macro_attribute]
pub fn job(options: TokenStream, item: TokenStream) -> TokenStream {
    job::expand(job::Attribute::Job, paths::Home::Runtime, options.into(), item.into()).into()
}

/// Replaces the item by the tokens in the parentheses; for the expansion of the other attributes alone.
///
/// If no struct may stand there, as in an `impl`, or if the path to the runtime leads nowhere, the compiler says so once, and
/// drops everything that depends on it.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn instead(items: TokenStream, _: TokenStream) -> TokenStream {
    items
}

/// Makes a periodic job of a free function: [`#[job]`](macro@job) with a schedule. Each time of the schedule enqueues one task, however
/// many copies of the program run.
///
/// The schedule is checked while compiling: five fields (`minute hour day month weekday`) or six with the seconds first, `L`,
/// `W` and `#` in the days, `@daily` and the like, or `@every 30s`. The function takes parameters that the worker supplies:
/// `Tick`, `&JobContext`, `State<T>`, `Checkpoint<T>`, and those that are marked with `#[from_context]`.
///
/// | option | value | default |
/// |---|---|---|
/// | `tz` | the time zone of the schedule: `"Europe/Berlin"` | UTC |
/// | `missed` | the times at which no scheduler ran: `"skip"` them, `"once"` for the newest, `"all(n)"` for the newest n | `"once"` |
/// | `overlap` | while the previous task waits or runs: `"allow"`, `"skip"` this time, or `"replace"` the previous task | `"allow"` |
/// | `cron_crate` | the path of `asynq-cron` when it is renamed or re-exported | `::asynq_cron` |
/// | `jitter` | each time is deferred by up to this, the same in every replica | none |
///
/// Every option of `#[job]` is valid, too, but `debounce`, `debounce_max`, `unique_by` and `aggregates`. The same struct as for any job
/// is made beside the function, so that the job can also be enqueued by hand.
#[proc_macro_attribute]
pub fn periodic(options: TokenStream, item: TokenStream) -> TokenStream {
    job::expand(job::Attribute::Periodic, paths::Home::Runtime, options.into(), item.into()).into()
}

/// [`#[job]`](macro@job) of the facade.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn facade_job(options: TokenStream, item: TokenStream) -> TokenStream {
    job::expand(job::Attribute::Job, paths::Home::Facade, options.into(), item.into()).into()
}

/// [`#[periodic]`](macro@periodic) of the facade.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn facade_periodic(options: TokenStream, item: TokenStream) -> TokenStream {
    job::expand(job::Attribute::Periodic, paths::Home::Facade, options.into(), item.into()).into()
}

/// [`#[periodic]`](macro@periodic) of the facade without its feature `cron`.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn facade_periodic_without_cron(_: TokenStream, item: TokenStream) -> TokenStream {
    let item: proc_macro2::TokenStream = item.into();
    without_cron(&item).into()
}

/// Returns the error of the missing feature before the function, which is printed so that its uses compile.
fn without_cron(item: &proc_macro2::TokenStream) -> proc_macro2::TokenStream {
    quote::quote! {
        ::std::compile_error!(
            "`#[periodic]` comes with the feature `cron`, which is on by default: in Cargo.toml write `features = [\"cron\"]` for asynq-jobs"
        );
        #item
    }
}
