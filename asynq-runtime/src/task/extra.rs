//! What asynq's message cannot carry: one extra hash field, written only when it says something.

use prost::Message as _;

/// Our own facts about a task, beside asynq's message: hash field `x` on Redis, column `extra` on SQLite.
///
/// A protobuf message, so that a newer program may add to it and an older one still reads it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Extra {
    /// How many times a worker may die while it runs this task before it is archived; absent = 3.
    #[prost(uint32, optional, tag = "1")]
    pub max_crashes: Option<u32>,
    /// Set while no program knew what to do with the task.
    #[prost(message, optional, tag = "2")]
    pub unknown: Option<Unknown>,
}

/// Since when and how often a task of an unknown type or shape was handed back.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Unknown {
    /// Unix milliseconds of the first time.
    #[prost(int64, tag = "1")]
    pub since_ms: i64,
    /// How often so far.
    #[prost(uint32, tag = "2")]
    pub times: u32,
}

impl Extra {
    /// The bytes to store, or `None` when there is nothing to say.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        (*self != Self::default()).then(|| self.encode_to_vec())
    }

    /// Reads stored bytes. Bytes that cannot be read count as nothing said: they must not stop a task.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self::decode(bytes).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_when_there_is_nothing_to_say() {
        assert_eq!(Extra::default().to_bytes(), None);
        let extra = Extra { max_crashes: Some(1), unknown: Some(Unknown { since_ms: 5, times: 2 }) };
        assert_eq!(Extra::from_bytes(&extra.to_bytes().unwrap()), extra);
        assert_eq!(Extra::from_bytes(b"\xff\xff"), Extra::default());
    }
}
