//! Names that cannot hold a wrong value: queues and task ids.

use std::{borrow::Borrow, fmt, str::FromStr, sync::Arc};

/// A name that was refused, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid {what} {name:?}: {reason}")]
pub struct InvalidName {
    what: &'static str,
    name: String,
    reason: String,
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $what:literal, $check:path) => {
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
                    Err(error) => Err(InvalidName {
                        what: $what,
                        name: name.chars().take(80).collect(),
                        reason: error.to_string(),
                    }),
                }
            }

            /// Keeps a name that was read from a broker, where programs with other rules write too.
            pub fn from_wire(name: &str) -> Self {
                Self(name.into())
            }

            /// The name as text.
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
    /// keys of a queue to different slots of a Redis Cluster, RELIABILITY F42).
    QueueName, "queue name", check_queue_name
}

name! {
    /// The id of a task, unique in its queue: not blank, at most 512 bytes, no control characters.
    TaskId, "task id", check_task_id
}

impl TaskId {
    /// A new UUID v7. Time-ordered ids keep SQLite's index compact (SQLITE.md §1); Go does not mind.
    pub fn random() -> Self {
        Self(uuid::Uuid::now_v7().hyphenated().encode_lower(&mut uuid::Uuid::encode_buffer()).into())
    }
}

/// Checks the name of a job, which is a task's type: not blank, at most 512 bytes, no control characters.
///
/// # Errors
///
/// [`InvalidName`] says which rule the name breaks.
pub fn check_type_name(name: &str) -> Result<(), InvalidName> {
    check(name, 512).map_err(|reason| InvalidName { what: "job name", name: name.chars().take(80).collect(), reason })
}

// Replaced by asynq-grammar's rules when that lands.
fn check_queue_name(name: &str) -> Result<(), String> {
    if name.contains(['{', '}']) {
        return Err("braces are not allowed".into());
    }
    check(name, 200)
}

fn check_task_id(name: &str) -> Result<(), String> {
    check(name, 512)
}

fn check(name: &str, most: usize) -> Result<(), String> {
    if name.trim().is_empty() {
        return Err("it must not be blank".into());
    }
    if name.len() > most {
        return Err(format!("at most {most} bytes"));
    }
    if name.chars().any(char::is_control) {
        return Err("control characters are not allowed".into());
    }
    Ok(())
}
