//! A value as JSON for people, in the form that [`write`](super::write) takes back.

use serde_json::Value as Json;

use super::{Value, value::Name};

/// Most bytes of names and texts: a shape from outside may give a payload of 1 KiB names of gigabytes.
const MOST_TEXT: usize = 4 * 1024 * 1024;

impl Value<'_> {
    /// Returns the value as JSON. Bytes are an array of numbers, a number that JSON cannot hold is a text, and a map whose
    /// keys are not texts is an array of pairs.
    ///
    /// # Errors
    ///
    /// The JSON would be longer than 4 MiB.
    pub(in crate::job) fn to_json(&self) -> Result<Json, String> {
        json(self, &mut MOST_TEXT.clone()).ok_or_else(|| format!("it is longer than {MOST_TEXT} bytes as JSON"))
    }
}

/// Returns `None` if `left`, the number of bytes that may still be written, is not enough.
fn json(value: &Value<'_>, left: &mut usize) -> Option<Json> {
    Some(match value {
        Value::Bool(value) => Json::Bool(*value),
        Value::Int(number) => match (u64::try_from(*number), i64::try_from(*number)) {
            (Ok(number), _) => number.into(),
            (_, Ok(number)) => number.into(),
            _ => Json::String(number.to_string()),
        },
        Value::Large(number) => Json::String(number.to_string()),
        Value::Float(number) => match serde_json::Number::from_f64(*number) {
            Some(number) => Json::Number(number),
            None => Json::String(number.to_string()),
        },
        Value::Char(value) => Json::String(value.to_string()),
        Value::Str(text) => Json::String(text_of(text, left)?),
        Value::Bytes(bytes) => {
            take(left, bytes.len())?;
            bytes.iter().copied().map(Json::from).collect()
        }
        Value::Unit | Value::None => Json::Null,
        Value::Some(inner) => json(inner, left)?,
        Value::Seq(values) => values.iter().map(|value| json(value, left)).collect::<Option<_>>()?,
        Value::Map(entries) => map(entries, left)?,
        Value::Struct(fields) => {
            let field =
                |(Name { name, .. }, value): &(Name<'_>, Value<'_>)| Some((text_of(name, left)?, json(value, left)?));
            Json::Object(fields.iter().map(field).collect::<Option<_>>()?)
        }
        Value::Variant(name, content) if **content == Value::Unit => Json::String(text_of(name, left)?),
        Value::Variant(name, content) => {
            Json::Object([(text_of(name, left)?, json(content, left)?)].into_iter().collect())
        }
    })
}

fn map(entries: &[(Value<'_>, Value<'_>)], left: &mut usize) -> Option<Json> {
    let pair = |(key, value): &(Value<'_>, Value<'_>)| Some((json(key, left)?, json(value, left)?));
    let pairs = entries.iter().map(pair).collect::<Option<Vec<_>>>()?;
    let key = |key: &Json| match key {
        Json::String(text) => Some(text.clone()),
        Json::Number(number) => Some(number.to_string()),
        Json::Bool(value) => Some(value.to_string()),
        _ => None,
    };
    let keys: Option<Vec<String>> = pairs.iter().map(|(name, _)| key(name)).collect();
    Some(match keys {
        Some(keys) => Json::Object(keys.into_iter().zip(pairs.into_iter().map(|(_, value)| value)).collect()),
        None => pairs.into_iter().map(|(key, value)| Json::Array(vec![key, value])).collect(),
    })
}

fn text_of(text: &str, left: &mut usize) -> Option<String> {
    take(left, text.len())?;
    Some(text.to_owned())
}

fn take(left: &mut usize, bytes: usize) -> Option<()> {
    *left = left.checked_sub(bytes)?;
    Some(())
}
