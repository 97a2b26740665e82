//! Checks JSON text, and copies it without losing digits or the order of keys. Converts durations to numbers.

use std::{fmt, time::Duration};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

/// A JSON value that was parsed without being stored: its strings are valid text and its numbers are in range.
struct Read;

impl<'de> Deserialize<'de> for Read {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ReadVisitor)
    }
}

struct ReadVisitor;

impl<'de> Visitor<'de> for ReadVisitor {
    type Value = Read;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Read, E> {
        Ok(Read)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Read, E> {
        Ok(Read)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Read, E> {
        Ok(Read)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Read, E> {
        Ok(Read)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Read, E> {
        Ok(Read)
    }

    fn visit_str<E>(self, _: &str) -> Result<Read, E> {
        Ok(Read)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Read, A::Error> {
        while seq.next_element::<Read>()?.is_some() {}
        Ok(Read)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Read, A::Error> {
        while map.next_entry::<Read, Read>()?.is_some() {}
        Ok(Read)
    }
}

/// Checks that a text is one JSON value, nested at most 127 levels deep.
pub fn check_json(text: &str) -> Result<(), String> {
    serde_json::from_str::<Read>(text).map(|Read| ()).map_err(|error| error.to_string())
}

/// Returns the text as raw JSON to embed in other JSON; `None` if it is not JSON.
pub(crate) fn raw(text: &str) -> Option<&RawValue> {
    serde_json::from_str(text).ok()
}

/// Returns the text of `value`, which was parsed from `text`, without whitespace. It keeps the digits and the key order
/// of `text`, which a [`Value`] loses. If `text` repeats a key, the text is that of `value`, so that every reader sees
/// the same one of the two members.
pub(crate) fn exact_text(text: &str, value: &Value) -> String {
    let mut exact = String::with_capacity(text.len());
    let mut members = 0;
    let mut rest = text;
    while let Some(at) = rest.find([' ', '\t', '\n', '\r', '"', ':']) {
        let (before, after) = rest.split_at(at);
        exact.push_str(before);
        let length = match after.as_bytes().first() {
            Some(b'"') => string_length(after),
            Some(b':') => {
                members += 1;
                1
            }
            _ => {
                rest = after.get(1..).unwrap_or_default();
                continue;
            }
        };
        exact.push_str(after.get(..length).unwrap_or(after));
        rest = after.get(length..).unwrap_or_default();
    }
    exact.push_str(rest);
    if members == count_members(value) { exact } else { value.to_string() }
}

/// Returns the text of a part of a document, like [`exact_text`].
pub(crate) fn compact(part: &RawValue) -> String {
    match serde_json::from_str(part.get()) {
        Ok(value) => exact_text(part.get(), &value),
        Err(_) => part.get().to_owned(),
    }
}

/// Returns the length of the string at the start of a text, including its quotes.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    });
    end.map_or(text.len(), |end| end.saturating_add(2))
}

/// Counts the members of all objects in a value. Values are nested at most 128 levels deep.
fn count_members(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(count_members).sum(),
        Value::Object(members) => members.values().map(|value| count_members(value).saturating_add(1)).sum(),
        _ => 0,
    }
}

/// Returns a duration in milliseconds, rounded down to the microsecond.
#[must_use]
pub fn milliseconds(duration: Duration) -> f64 {
    let duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    #[expect(clippy::cast_precision_loss, reason = "2^53 microseconds are 285 years")]
    let duration_us = duration_us as f64;
    duration_us / 1000.0
}

/// Returns the duration of `ms` milliseconds, to the microsecond. Returns zero if `ms` is negative, not finite or too
/// large.
#[must_use]
pub fn from_milliseconds(ms: f64) -> Duration {
    let duration = Duration::try_from_secs_f64(ms / 1000.0).unwrap_or_default();
    // Adds half a microsecond before truncating, because the float may be slightly below the intended microsecond.
    let us = u64::try_from(duration.saturating_add(Duration::from_nanos(500)).as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_text_keeps_digits_and_order_and_drops_spaces() {
        let exact = |text: &str| exact_text(text, &serde_json::from_str(text).unwrap());
        for text in [r#"{"z":123456789012345678901234,"a":{"y":1.10,"b":-0}}"#, r#"["é\"\\",": {",""]"#, "[]", "1e5"] {
            assert_eq!(exact(text), text);
        }
        assert_eq!(exact(" {\"b : \\\" c\" :\n[1 ,\t2]}\r"), r#"{"b : \" c":[1,2]}"#);
    }

    #[test]
    fn a_key_that_is_repeated_has_one_value() {
        let exact = |text: &str| exact_text(text, &serde_json::from_str(text).unwrap());
        assert_eq!(exact(r#"{"path":"a","path":"b"}"#), r#"{"path":"b"}"#);
        assert_eq!(exact(r#"[{"z":1,"a":{"a":2,"\u0061":3}}]"#), r#"[{"a":{"a":3},"z":1}]"#);
    }

    #[test]
    fn what_is_json_is_what_values_can_be_made_of() {
        let texts = [
            "null",
            "true",
            "0",
            "-1.5e3",
            "18446744073709551615",
            "-9223372036854775808",
            "1e308",
            "\"\"",
            "\"\\u00e9\"",
            "\"\\ud83d\\ude00\"",
            "[]",
            "[1, [2, {}]]",
            "{\"a\": {\"\": null}}",
            " {\"a\" : 1}\n",
            "",
            " ",
            "nul",
            "NaN",
            "Infinity",
            "01",
            "1e309",
            "-1e999",
            "'a'",
            "\"a",
            "\"\\ud800\"",
            "\"\\x\"",
            "\"\u{1}\"",
            "[1,]",
            "{a: 1}",
            "{1: 1}",
            "{\"a\" 1}",
            "{\"a\": 1,}",
            "1 2",
            "[]]",
            "\u{feff}1",
        ];
        for text in texts {
            assert_eq!(check_json(text).is_ok(), serde_json::from_str::<Value>(text).is_ok(), "{text:?}");
        }
        assert_eq!(texts.iter().filter(|text| check_json(text).is_ok()).count(), 14);
    }

    #[test]
    fn nesting_has_a_bound() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(check_json(&deep(126)).is_ok(), "under");
        assert!(check_json(&deep(127)).is_ok(), "at");
        assert!(check_json(&deep(128)).is_err(), "over");
        assert!(check_json(&"[".repeat(1 << 20)).is_err());
    }
}
