//! Kinds of arguments.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    net::IpAddr,
    num::NonZeroU32,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use asynq_runtime::prelude::*;
use serde::{Deserialize, Serialize};

#[job(name = "user:no_arguments")]
async fn no_arguments() {}

#[job(name = "user:borrowed")]
async fn borrowed(to: &str, bytes: &[u8], file: &Path) -> JobResult {
    println!("{to} {bytes:?} {file:?}");
    Ok(())
}

#[job(name = "user:collections")]
async fn collections(map: HashMap<String, u64>, sorted: BTreeMap<u8, Vec<String>>, set: HashSet<u16>) -> JobResult {
    println!("{map:?} {sorted:?} {set:?}");
    Ok(())
}

#[job(name = "user:of_std")]
async fn of_std(
    at: SystemTime,
    every: Duration,
    from: IpAddr,
    n: NonZeroU32,
    file: PathBuf,
    pair: (u8, char),
) -> JobResult {
    println!("{at:?} {every:?} {from} {n} {file:?} {pair:?}");
    Ok(())
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Address {
    street: String,
    #[serde(default)]
    floor: Option<u8>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
enum Payment {
    Cash,
    Card { number: String },
    Transfer(String, u64),
}

#[job(name = "user:own_types")]
async fn own_types(to: Address, by: Payment, others: Vec<Address>) -> JobResult {
    println!("{to:?} {by:?} {others:?}");
    Ok(())
}

#[job(name = "user:one_struct", codec = "json")]
async fn one_struct(order: Address) -> JobResult {
    println!("{order:?}");
    Ok(())
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Event {
    SignedUp { user: u64 },
    Left,
}

/// A tagged enum needs a format with names.
#[job(name = "user:tagged", codec = "json")]
async fn tagged(event: Event) -> JobResult {
    println!("{event:?}");
    Ok(())
}

#[derive(Debug, Serialize, Deserialize)]
struct Tree {
    name: String,
    children: Vec<Tree>,
}

#[job(name = "user:recursive")]
async fn recursive(tree: Tree) -> JobResult {
    println!("{tree:?}");
    Ok(())
}

/// The rest of the work travels along.
#[job(name = "user:of_itself")]
async fn of_itself(folder: String, then: Vec<of_itself>) -> JobResult {
    println!("{folder} and {} more", then.len());
    Ok(())
}

#[job(name = "user:returns_itself")]
fn returns_itself(page: u32) -> JobResult<Option<returns_itself>> {
    Ok(page.checked_sub(1).map(|page| returns_itself { page }))
}

#[job(name = "user:secret")]
async fn secret(account: String, token: Secret<String>) -> JobResult {
    println!("{account} {}", token.expose().len());
    Ok(())
}

/// A user's type with the name of a type of the prelude.
mod own_state {
    use asynq_runtime::job;
    use serde::{Deserialize, Serialize};

    #[derive(Debug, Serialize, Deserialize)]
    enum State {
        Open,
        Closed,
    }

    #[job(name = "user:own_state")]
    async fn own_state(#[arg] state: State) {
        println!("{state:?}");
    }
}

#[job(name = "user:shadowing")]
async fn shadowing(client: String, ctx: u8, task: Option<u8>, result: bool, r#type: String) -> JobResult {
    println!("{client} {ctx} {task:?} {result} {type}", type = r#type);
    Ok(())
}

#[job(name = "user:shared_text", codec = "json")]
async fn shared_text(text: Box<str>, many: Box<[u8]>) -> JobResult {
    println!("{text} {many:?} {:?}", Arc::new(1));
    Ok(())
}

/// JSON leaves out the fields that serde skips; postcard refuses them at the enqueue.
#[derive(Debug, Serialize, Deserialize)]
struct Patch {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    discount: Option<u8>,
    quantity: u8,
}

#[job(name = "user:skipped", codec = "json")]
async fn skipped(patch: Patch, #[serde(default, skip_serializing_if = "Vec::is_empty")] lines: Vec<u8>) -> JobResult {
    println!("{patch:?} {lines:?}");
    Ok(())
}

#[derive(Debug, Serialize, Deserialize)]
struct Page<T> {
    items: Vec<T>,
}

#[job(name = "user:of_a_generic_type")]
async fn of_a_generic_type(page: Page<Address>) -> JobResult {
    println!("{page:?}");
    Ok(())
}

/// A user's own way of writing and reading.
mod seconds {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(span.as_secs())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_secs)
    }
}

#[job(name = "user:by_module")]
async fn by_module(#[serde(with = "seconds")] every: Duration, #[serde(rename = "at")] address: Address) -> JobResult {
    println!("{every:?} {address:?}");
    Ok(())
}

/// A user's own bounds in place of those that the macro writes.
#[job(name = "user:by_bound")]
async fn by_bound(#[serde(bound = "")] page: Page<Address>, #[serde(bound(serialize = ""))] number: u8) -> JobResult {
    println!("{page:?} {number}");
    Ok(())
}

type Recipients = Vec<Address>;

#[job(name = "user:by_alias")]
async fn by_alias(to: &Recipients) -> JobResult {
    println!("{to:?}");
    Ok(())
}
