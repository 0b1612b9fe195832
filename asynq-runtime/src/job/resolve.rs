//! Reads a payload of another version of the program, as arguments or for people, with the shapes that the broker keeps.

use serde::de::DeserializeOwned;

use super::{
    Fingerprint, Job, PayloadError,
    codec::{decode_arguments, is_json, split},
    shape::{self, FromValue, HIDDEN, ShapeDocument, Value},
    upgrade::Earlier,
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
    let Some((found, arguments)) = split(payload) else {
        let before = lookup.and_then(|lookup| argument::<J>(lookup.as_ref().ok()?));
        return by_name(payload, before).ok_or(unknown);
    };
    if Fingerprint::in_postcard::<J>().is(found) {
        // Today's type refuses a value of today's shape. An upgrade from a part of that shape would run the job with other data, and one
        // from all of it is refused before the deploy.
        return Err(unknown);
    }
    let nothing = Fingerprint::of_nothing();
    let read = match lookup {
        // The job had no arguments: brokers do not keep that shape, because it is the same in every program.
        None if found == nothing.value && arguments.is_empty() => by_shape(&nothing.document, arguments),
        None => return Err(unknown),
        Some(Err(reason)) => Err(reason.clone()),
        Some(Ok(document)) => by_shape(document, arguments),
    };
    let expected = || Fingerprint::in_postcard::<J>().value;
    read.map_err(|reason| PayloadError::Unresolved { job: J::NAME, expected: expected(), found, reason })
}

/// Reads arguments in postcard whose shape is known.
fn by_shape<J: Job>(document: &ShapeDocument, arguments: &[u8]) -> Result<J, String> {
    let value = shape::decode(document, arguments)?;
    let upgraded = |exactly| {
        let earlier = Earlier::known(document, &value, exactly);
        J::UPGRADES.iter().find_map(|upgrade| upgrade.apply(&earlier))?.ok()
    };
    if let Some(job) = upgraded(true) {
        return Ok(job);
    }
    let read = match (argument::<J>(document), J::ARGUMENT) {
        (Some(name), None) if has_field::<J>(name) => from_value(&Value::named(name, value.clone())),
        (Some(name), None) => Err(format!("its only argument `{name}` is not among this program's")),
        (None, Some(name)) => match (names_of_argument::<J>().find_map(|name| value.field(name)), &value) {
            (Some(argument), _) => from_value(argument),
            // Among the arguments of a job that had some, this one may be there under another name. A lone argument whose type was an
            // empty struct has the shape of no arguments.
            (None, Value::Struct(fields)) if fields.is_empty() => from_value(&Value::None)
                .or_else(|_| from_value(&value))
                .map_err(|_| format!("it has no argument `{name}`, which is not optional")),
            (None, _) => Err(format!("it has no argument `{name}`")),
        },
        _ => from_value(&value),
    };
    read.or_else(|reason| upgraded(false).ok_or(reason))
}

fn from_value<T: DeserializeOwned>(value: &Value<'_>) -> Result<T, String> {
    T::deserialize(FromValue(value)).map_err(|error| error.to_string())
}

/// Returns the name of the only argument in payloads of this shape: one that today's arguments have, if there is such a name.
fn argument<J: Job>(document: &ShapeDocument) -> Option<&str> {
    document.argument_names().find(|name| has_field::<J>(name)).or(document.argument.as_deref())
}

/// Returns the names that today's only argument may have among the arguments of another version; the own name comes first.
fn names_of_argument<J: Job>() -> impl Iterator<Item = &'static str> {
    J::ARGUMENT.into_iter().chain(J::ARGUMENT_ALIASES.iter().copied())
}

/// Returns whether one of today's arguments has this name or alias.
fn has_field<J: Job>(name: &str) -> bool {
    Fingerprint::in_postcard::<J>().fields.as_ref().is_some_and(|fields| fields.contains(&name))
}

/// Reads arguments in JSON that do not fit as they are: a lone argument that has become one of several (`before` is its
/// name), or the other way round, or one that is `None` because the job had no arguments.
fn by_name<J: Job>(payload: &[u8], before: Option<&str>) -> Option<J> {
    let mut value: serde_json::Value = serde_json::from_slice(payload).ok()?;
    let argument = match (before, J::ARGUMENT) {
        (_, Some(_)) => match value.as_object_mut()? {
            arguments if arguments.is_empty() => serde_json::Value::Null,
            arguments => names_of_argument::<J>().find_map(|name| arguments.remove(name))?,
        },
        (Some(name), None) if has_field::<J>(name) => serde_json::json!({ name: value }),
        _ => return None,
    };
    serde_json::from_value(argument).ok()
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
