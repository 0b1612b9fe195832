//! Names that cannot hold a wrong value: queues, groups and task ids.

use std::{borrow::Borrow, fmt, str::FromStr, sync::Arc, time::SystemTime};

use asynq_grammar::{TextError, names};
use uuid::Uuid;

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
                $check(name).map(|()| Self(name.into())).map_err(|error| InvalidName::new(name, &error))
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
        Self::of_uuid(Uuid::now_v7())
    }

    fn of_uuid(id: Uuid) -> Self {
        Self(id.hyphenated().encode_lower(&mut Uuid::encode_buffer()).into())
    }
}

/// How many ids are made of the random bytes of one read.
const PER_READ: usize = 32;
/// Random bytes of an id; the rest of them is the time, and the order of the ids of one time.
const RANDOM: usize = 8;

/// The ids of the tasks of one call: each is a UUID v7 as [`TaskId::random`] is, of which the system is asked for random bytes by the
/// dozens. No bytes are kept for the next call: after a fork, two processes would make the same ids of them.
#[derive(Default)]
pub(crate) struct TaskIds {
    made: usize,
    /// The time and the random bytes of the last read.
    read: Option<(u64, [[u8; RANDOM]; PER_READ])>,
}

impl TaskIds {
    /// Returns the next id.
    pub(crate) fn next_id(&mut self) -> TaskId {
        let place = self.made;
        self.made += 1;
        // A call of one task needs no more bytes than these.
        let Some(place) = place.checked_sub(1) else { return TaskId::random() };
        if place.is_multiple_of(PER_READ) {
            self.read = random_bytes();
        }
        let Some((millis, bytes)) = &self.read else { return TaskId::random() };
        let mut rest = [0; 10];
        rest[..2].copy_from_slice(&u16::try_from(place & 0x0fff).unwrap_or_default().to_be_bytes());
        rest[2..].copy_from_slice(&bytes[place % PER_READ]);
        TaskId::of_uuid(uuid::Builder::from_unix_timestamp_millis(*millis, &rest).into_uuid())
    }
}

/// Returns the time and random bytes for ids; `None` if the system gives none.
fn random_bytes() -> Option<(u64, [[u8; RANDOM]; PER_READ])> {
    let mut bytes = [[0; RANDOM]; PER_READ];
    getrandom::fill(bytes.as_flattened_mut()).ok()?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some((u64::try_from(now.as_millis()).ok()?, bytes))
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
    format!("an equal task already holds the unique lock{holder}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_ids_of_a_call_are_in_its_order_and_no_two_share_random_bytes() {
        let mut ids = TaskIds::default();
        let made: Vec<Uuid> = (0..200).map(|_| ids.next_id().as_str().parse().unwrap()).collect();
        assert!(made.iter().all(|id| id.get_version_num() == 7 && id.get_variant() == uuid::Variant::RFC4122));
        // The first is that of a call of one task. The machine's clock may be set back between two reads.
        assert!(made[1..].chunks(PER_READ).all(<[Uuid]>::is_sorted));
        let random = made.iter().map(|id| &id.as_bytes()[9..]).collect::<BTreeSet<_>>();
        assert_eq!(random.len(), made.len());
        let (mut one, mut other) = (TaskIds::default(), TaskIds::default());
        let both: BTreeSet<_> = (0..3 * PER_READ).flat_map(|_| [one.next_id(), other.next_id()]).collect();
        assert_eq!(both.len(), 6 * PER_READ);
    }
}
