//! Names that cannot hold a wrong value: queues, groups and task ids.

use std::{borrow::Borrow, fmt, str::FromStr, sync::Arc};

use asynq_grammar::{TextError, names};

/// A name that was refused, with the reason.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} cannot be used: {reason}")]
pub struct InvalidName {
    name: String,
    reason: String,
}

debug_as_text!(InvalidName);

impl InvalidName {
    fn new(name: &str, error: &TextError) -> Self {
        Self { name: name.chars().take(80).collect(), reason: error.to_string() }
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $check:path) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $type(Arc<str>);

        impl $type {
            /// Checks `name` and keeps it.
            ///
            /// # Errors
            ///
            /// [`InvalidName`] says which rule the name breaks.
            pub fn new(name: &str) -> Result<Self, InvalidName> {
                match $check(name) {
                    Ok(()) => Ok(Self(name.into())),
                    Err(error) => Err(InvalidName::new(name, &error)),
                }
            }

            /// Takes a name that was read from a broker unchecked, because programs with other rules write there too.
            pub fn from_wire(name: &str) -> Self {
                Self(name.into())
            }

            /// Returns the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl AsRef<str> for $type {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = InvalidName;

            fn from_str(name: &str) -> Result<Self, InvalidName> {
                Self::new(name)
            }
        }

        impl PartialEq<str> for $type {
            fn eq(&self, other: &str) -> bool {
                &*self.0 == other
            }
        }

        impl PartialEq<&str> for $type {
            fn eq(&self, other: &&str) -> bool {
                &*self.0 == *other
            }
        }
    };
}

name! {
    /// The name of a queue: not blank, at most 200 bytes, no control characters and no braces (a brace would move the
    /// keys of a queue to different slots of a Redis Cluster).
    QueueName, names::check_queue
}

name! {
    /// The name of a group: not blank, at most 512 bytes, no control characters, and not ending in a colon and a UUID,
    /// because the key of such a group could be that of a set taken out of another.
    GroupName, names::check_group
}

name! {
    /// The id of a task, unique in its queue: not blank, at most 512 bytes, no control characters.
    TaskId, names::check_task_id
}

impl TaskId {
    /// Returns a new UUID v7. Time-ordered ids keep SQLite's index compact; Go programs take any text.
    pub fn random() -> Self {
        Self(uuid::Uuid::now_v7().hyphenated().encode_lower(&mut uuid::Uuid::encode_buffer()).into())
    }
}

/// Checks the name of a job, which is a task's type: not blank, at most 512 bytes, no control characters.
///
/// # Errors
///
/// [`InvalidName`] says which rule the name breaks.
pub(crate) fn check_type_name(name: &str) -> Result<(), InvalidName> {
    names::check_job(name).map_err(|error| InvalidName::new(name, &error))
}

/// Returns the text of the errors that say that a unique lock is held: by `holder`, if it is known.
pub(crate) fn equal_task(holder: Option<&TaskId>) -> String {
    let holder = holder.map(|id| format!(" (id {id})")).unwrap_or_default();
    format!("an equal task is already waiting or running{holder}")
}
