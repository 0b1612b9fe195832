//! The types of the arguments in both versions of the jobs that change.

use serde::{Deserialize, Serialize};

pub(crate) fn ann() -> String {
    "ann".to_owned()
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Item {
    pub(crate) name: String,
    pub(crate) price: u32,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ItemWithNote {
    pub(crate) note: Option<String>,
    pub(crate) name: String,
    pub(crate) price: u32,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ItemInEuros {
    pub(crate) name: String,
    #[serde(alias = "price")]
    pub(crate) euros: u64,
}

pub(crate) fn item() -> Item {
    Item { name: "pen".to_owned(), price: 3 }
}

pub(crate) fn item_with_note() -> ItemWithNote {
    ItemWithNote { note: Some("blue".to_owned()), name: "pen".to_owned(), price: 3 }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum State2 {
    New,
    Paid(u32),
    Sent { to: String },
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum StateReordered {
    Sent { to: String },
    New,
    Paid(u32),
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum StateWithMore {
    New,
    Cancelled,
    Paid(u64),
    Sent { to: String, by: Option<String> },
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum StateRenamed {
    New,
    #[serde(alias = "Paid")]
    Settled(u32),
    Sent {
        to: String,
    },
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Delivery {
    Pending,
    Done,
    Cancelled,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum DeliveryRenamed {
    Pending,
    #[serde(alias = "Done")]
    Completed,
    Cancelled,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Money {
    Held(u32),
    Paid(u32),
    Lost(u32),
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum MoneyRenamed {
    Held(u32),
    #[serde(alias = "Paid")]
    Given(u32),
    Lost(u32),
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Address(pub(crate) String);

/// A text that no sample is, so that the shapes around it are known in part.
#[derive(Debug, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct OrderId(String);

impl TryFrom<String> for OrderId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        if text.starts_with("order-") { Ok(Self(text)) } else { Err("no order") }
    }
}

pub(crate) fn order_id() -> OrderId {
    OrderId("order-7".to_owned())
}
