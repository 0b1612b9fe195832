//! Reads a payload of another version of the program, as arguments or for people, with the shapes that the broker keeps.

use std::{borrow::Cow, sync::Arc};

use serde::de::DeserializeOwned;

use super::{
    Fingerprint, Job, PayloadError,
    codec::{decode_arguments, is_json, split},
    shape::{self, FromValue, HIDDEN, ShapeDocument, Value},
    upgrade::{Content, Earlier, Upgrade},
};

/// The kept shape that a payload needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Needs {
    /// The shape of its fingerprint.
    Fingerprint(u32),
    /// The last shape of this job with a single argument, in JSON: such a payload is the bare value without a name.
    Argument,
}

impl Needs {
    /// Returns the shape for a payload that its job cannot take as it is; `None` for bytes that no version of a job writes.
    pub(crate) fn of(payload: &[u8]) -> Option<Self> {
        match split(payload) {
            Some((fingerprint, _)) => Some(Self::Fingerprint(fingerprint)),
            None => is_json(payload).then_some(Self::Argument),
        }
    }

    /// Returns the number by which the broker keeps the shape.
    pub(crate) fn id(self) -> Option<u32> {
        match self {
            Self::Fingerprint(fingerprint) => Some(fingerprint),
            Self::Argument => None,
        }
    }
}

/// A shape that the broker keeps, or why it cannot be used.
pub(crate) type ShapeLookup = Result<ShapeDocument, String>;

/// Reads arguments as today's shape; where they have another, by serde's rules or by an upgrade. `lookup` is their shape as the broker
/// keeps it.
///
/// # Errors
///
/// As [`decode_arguments`], if no shape is kept; [`PayloadError::Unresolved`] if the kept shape does not help.
pub(crate) fn resolve<J: Job>(payload: &[u8], lookup: Option<&ShapeLookup>) -> Result<J, PayloadError> {
    let unknown = match decode_arguments::<J>(payload) {
        Err(error) if error.is_of_another_version() => error,
        decided => return decided,
    };
    let today = Today::of::<J>();
    let Some((found, arguments)) = split(payload) else {
        let before = lookup.and_then(|lookup| today.argument_of(lookup.as_ref().ok()?));
        let argument = today.fit_json(payload, before).and_then(|argument| serde_json::from_slice(&argument).ok());
        return argument.ok_or(unknown);
    };
    if (today.fingerprint)().is(found) {
        // Today's type refuses a value of today's shape. An upgrade from a part of that shape would run the job with other data, and one
        // from all of it is refused before the deploy.
        return Err(unknown);
    }
    let nothing = Fingerprint::of_nothing();
    let read = match lookup {
        // The job had no arguments: brokers do not keep that shape, because it is the same in every program.
        None if found == nothing.value && arguments.is_empty() => by_shape(&today, &nothing.document, arguments),
        None => return Err(unknown),
        Some(Err(reason)) => Err(reason.clone()),
        Some(Ok(document)) => by_shape(&today, document, arguments),
    };
    let expected = || (today.fingerprint)().value;
    read.map_err(|reason| PayloadError::Unresolved { job: J::NAME, expected: expected(), found, reason })
}

/// Reads arguments in postcard whose shape is known.
fn by_shape<J: Job>(today: &Today, document: &ShapeDocument, arguments: &[u8]) -> Result<J, String> {
    let value = shape::decode(document, arguments)?;
    let known = |exactly| Earlier(Content::Known { shape: document, value: &value, exactly });
    let upgraded = |exactly| Upgrade::first(&known(exactly))?.ok();
    if let Some(job) = upgraded(true) {
        return Ok(job);
    }
    let read = match today.fit(document, &value) {
        Ok(Fit::Value(value)) => from_value(&value),
        Ok(Fit::Nothing(name)) => from_value(&Value::None)
            .or_else(|_| from_value(&value))
            .map_err(|_| format!("it has no argument `{name}`, which is not optional")),
        Err(reason) => Err(reason),
    };
    read.or_else(|reason| upgraded(false).ok_or(reason))
}

fn from_value<T: DeserializeOwned>(value: &Value<'_>) -> Result<T, String> {
    T::deserialize(FromValue(value)).map_err(|error| error.to_string())
}

/// The names of today's arguments, without their type: its methods are compiled once, and not for each job of a program.
struct Today {
    argument: Option<&'static str>,
    aliases: &'static [&'static str],
    /// In postcard: a job in JSON makes it only if it is needed.
    fingerprint: fn() -> Arc<Fingerprint>,
}

/// The value that today's type has to read.
enum Fit<'v> {
    Value(Cow<'v, Value<'v>>),
    /// The job had no arguments: its only one has this name now, and is `None`, or a type whose value was an empty struct.
    Nothing(&'static str),
}

impl Today {
    fn of<J: Job>() -> Self {
        Self { argument: J::ARGUMENT, aliases: J::ARGUMENT_ALIASES, fingerprint: Fingerprint::in_postcard::<J> }
    }

    /// Returns the names that today's only argument may have among the arguments of another version; the own name comes first.
    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.argument.into_iter().chain(self.aliases.iter().copied())
    }

    /// Returns whether one of today's arguments has this name or alias.
    fn has_field(&self, name: &str) -> bool {
        (self.fingerprint)().fields.as_ref().is_some_and(|fields| fields.contains(&name))
    }

    /// Returns the name of the only argument in payloads of this shape: one that today's arguments have, if there is such a name.
    fn argument_of<'d>(&self, document: &'d ShapeDocument) -> Option<&'d str> {
        document.argument_names().find(|name| self.has_field(name)).or(document.argument.as_deref())
    }

    /// Returns what today's type has to read of a value of this shape.
    fn fit<'v>(&self, document: &'v ShapeDocument, value: &'v Value<'v>) -> Result<Fit<'v>, String> {
        let fitting = match (self.argument_of(document), self.argument) {
            (Some(name), None) if self.has_field(name) => Cow::Owned(Value::named(name, value.clone())),
            (Some(name), None) => return Err(format!("its only argument `{name}` is not among this program's")),
            (None, Some(name)) => match (self.names().find_map(|name| value.field(name)), value) {
                (Some(argument), _) => Cow::Borrowed(argument),
                // Among the arguments of a job that had some, this one may be there under another name.
                (None, Value::Struct(fields)) if fields.is_empty() => return Ok(Fit::Nothing(name)),
                (None, _) => return Err(format!("it has no argument `{name}`")),
            },
            _ => Cow::Borrowed(value),
        };
        Ok(Fit::Value(fitting))
    }

    /// Returns what today's type has to read of arguments in JSON that do not fit as they are: a lone argument that has become one of
    /// several (`before` is its name), or the other way round, or one that is `None` because the job had no arguments.
    fn fit_json(&self, payload: &[u8], before: Option<&str>) -> Option<Vec<u8>> {
        let mut value: serde_json::Value = serde_json::from_slice(payload).ok()?;
        let argument = match (before, self.argument) {
            (_, Some(_)) => match value.as_object_mut()? {
                arguments if arguments.is_empty() => serde_json::Value::Null,
                arguments => self.names().find_map(|name| arguments.remove(name))?,
            },
            (Some(name), None) if self.has_field(name) => serde_json::json!({ name: value }),
            _ => return None,
        };
        serde_json::to_vec(&argument).ok()
    }
}

/// Returns the arguments in a payload of this shape for people; `today` says which of them are secret now.
///
/// # Errors
///
/// As `shape::decode`; or the text would be too long.
pub(crate) fn show(
    shape: &ShapeDocument,
    today: Option<&Fingerprint>,
    payload: &[u8],
) -> Result<serde_json::Value, String> {
    let (_, arguments) = split(payload).ok_or("it is not a payload of the default codec")?;
    let secrets = today.map(|today| today.document.secret_names()).unwrap_or_default();
    if shape.argument_names().any(|argument| secrets.contains(&argument)) {
        return Ok(HIDDEN.into());
    }
    shape::decode_for_people(shape, arguments, &secrets)?.to_json()
}

#[cfg(test)]
mod tests;
