//! JSON Schema's rules for values: types, equality and multiples.

use serde_json::Value;

pub(super) fn is_of_type(value: &Value, name: &str) -> bool {
    match value {
        Value::Null => name == "null",
        Value::Bool(_) => name == "boolean",
        Value::Number(number) => {
            name == "number"
                || name == "integer" && (!number.is_f64() || number.as_f64().is_some_and(|it| it.fract() == 0.0))
        }
        Value::String(_) => name == "string",
        Value::Array(_) => name == "array",
        Value::Object(_) => name == "object",
    }
}

/// Returns whether two values are equal in JSON Schema, where 1 equals 1.0.
pub(super) fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let has = |(name, value): (&String, &Value)| other.get(name).is_some_and(|other| same(value, other));
            one.len() == other.len() && one.iter().all(has)
        }
        _ => one == other,
    }
}

/// Returns whether an array has equal items. It sorts by text first, to avoid comparing all pairs of a long array.
pub(super) fn has_equals(value: &Value) -> bool {
    let Some(items) = value.as_array() else { return false };
    let mut texts: Vec<String> = items.iter().map(|item| plainly(item).to_string()).collect();
    texts.sort_unstable();
    texts.windows(2).any(|pair| matches!(pair, [one, other] if one == other))
}

/// Returns the value with each number as a fraction, so that equal numbers have equal text. The members of an object
/// are already sorted by name.
fn plainly(value: &Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().map_or_else(|| value.clone(), Value::from),
        Value::Array(items) => items.iter().map(plainly).collect(),
        Value::Object(members) => Value::Object(members.iter().map(|(name, it)| (name.clone(), plainly(it))).collect()),
        other => other.clone(),
    }
}

pub(super) fn is_multiple(value: &Value, of: &Value) -> bool {
    if let (Some(value), Some(of)) = (value.as_i64(), of.as_i64()) {
        return value.checked_rem(of).is_none_or(|rest| rest == 0);
    }
    match (value.as_f64(), of.as_f64()) {
        (Some(value), Some(of)) => {
            let times = value / of;
            (times - times.round()).abs() < 1e-9 * times.abs().max(1.0)
        }
        _ => true,
    }
}
