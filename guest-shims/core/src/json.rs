//! JSON: checks of text, copies of text that keep all digits and the key order, durations as numbers, and values from
//! guests.

use std::{fmt, time::Duration};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, SeqAccess, Visitor},
    ser::SerializeMap,
};
use serde_json::{Value, value::RawValue};

/// A JSON value that is checked but not stored: its strings are valid text and its numbers are in range.
struct CheckedJson;

impl<'de> Deserialize<'de> for CheckedJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CheckedJsonVisitor)
    }
}

struct CheckedJsonVisitor;

impl<'de> Visitor<'de> for CheckedJsonVisitor {
    type Value = CheckedJson;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<CheckedJson, E> {
        Ok(CheckedJson)
    }

    fn visit_bool<E>(self, _: bool) -> Result<CheckedJson, E> {
        Ok(CheckedJson)
    }

    fn visit_i64<E>(self, _: i64) -> Result<CheckedJson, E> {
        Ok(CheckedJson)
    }

    fn visit_u64<E>(self, _: u64) -> Result<CheckedJson, E> {
        Ok(CheckedJson)
    }

    fn visit_f64<E>(self, _: f64) -> Result<CheckedJson, E> {
        Ok(CheckedJson)
    }

    fn visit_str<E>(self, _: &str) -> Result<CheckedJson, E> {
        Ok(CheckedJson)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<CheckedJson, A::Error> {
        while seq.next_element::<CheckedJson>()?.is_some() {}
        Ok(CheckedJson)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CheckedJson, A::Error> {
        while map.next_entry::<CheckedJson, CheckedJson>()?.is_some() {}
        Ok(CheckedJson)
    }
}

/// Checks that `text` is a single JSON value, nested at most 127 levels deep.
pub fn check_json(text: &str) -> Result<(), String> {
    serde_json::from_str::<CheckedJson>(text).map(|CheckedJson| ()).map_err(|error| error.to_string())
}

/// Returns the text as raw JSON, for embedding in other JSON; `None` if it is not JSON.
pub(crate) fn raw(text: &str) -> Option<&RawValue> {
    serde_json::from_str(text).ok()
}

/// Removes whitespace from `text`, from which `value` was parsed. Keeps the digits and the key order, which a [`Value`]
/// loses. Returns `None` if `text` repeats a key, because parsers disagree on which member to keep.
pub(crate) fn exact_text(text: &str, value: &Value) -> Option<String> {
    let (exact, members) = without_spaces(text);
    (members == count_members(value)).then_some(exact)
}

/// Returns a part of a document without whitespace. Keeps the digits and the key order.
pub(crate) fn compact(part: &RawValue) -> String {
    without_spaces(part.get()).0
}

/// Removes whitespace from JSON text. Also returns the number of members of all objects.
fn without_spaces(text: &str) -> (String, usize) {
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
    (exact, members)
}

/// Returns the length of the JSON string at the start of `text`, including its quotes.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    });
    end.map_or(text.len(), |end| end.saturating_add(2))
}

/// Counts the members of all objects in a value. Parsed values are nested at most 127 levels deep.
fn count_members(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(count_members).sum(),
        Value::Object(members) => members.values().map(|value| count_members(value).saturating_add(1)).sum(),
        _ => 0,
    }
}

/// Converts a duration to milliseconds, rounded down to the microsecond.
pub fn milliseconds(duration: Duration) -> f64 {
    let duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    #[expect(clippy::cast_precision_loss, reason = "2^53 microseconds are 285 years")]
    let duration_us = duration_us as f64;
    duration_us / 1000.0
}

/// Converts milliseconds to a duration, rounded to the microsecond. Returns zero if `ms` is negative, not finite or too
/// large.
pub fn from_milliseconds(ms: f64) -> Duration {
    let duration = Duration::try_from_secs_f64(ms / 1000.0).unwrap_or_default();
    // Round by adding half a microsecond: the float may be slightly below the intended value.
    let us = u64::try_from(duration.saturating_add(Duration::from_nanos(500)).as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(us)
}

/// Maximum length of a `repr`, in characters. The drivers truncate at this length. A guest may have damaged its driver,
/// so the host truncates again.
const MAX_REPR_CHARS: usize = 64 << 10;

/// Maximum size of a value's JSON text, in bytes. A larger text from a guest is dropped.
const MAX_JSON_BYTES: usize = 1 << 20;

/// A value from a guest: the value of a script's last expression, or of a variable.
///
/// The value serializes as `{"repr": …}`, with a member `"json"` if the value is JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestValue {
    /// The value as the language prints it: `repr` in Python, an inspection in JavaScript. At most 65,536 characters.
    pub repr: String,
    /// The value as JSON text, if it consists of null, booleans, finite numbers, strings, lists, and objects with
    /// string keys. `None` otherwise, or if the text exceeds 1 MiB or 127 levels of nesting, or contains a number
    /// beyond 1.8e308, such as an integer of 310 digits. The text is well-formed; its content is untrusted.
    pub json: Option<String>,
}

impl GuestValue {
    /// Returns the parsed JSON; `None` if the value is not JSON. Integers beyond 64 bits become floats, and keys are
    /// sorted. The text in [`json`](Self::json) keeps all digits and the key order.
    pub fn to_json(&self) -> Option<Value> {
        serde_json::from_str(self.json.as_deref()?).ok()
    }
}

impl From<glovebox_interpreters::GuestValue> for GuestValue {
    fn from(value: glovebox_interpreters::GuestValue) -> Self {
        let mut repr = value.repr;
        if let Some((end, _)) = repr.char_indices().nth(MAX_REPR_CHARS) {
            repr.truncate(end);
        }
        let is_sound = |text: &String| text.len() <= MAX_JSON_BYTES && check_json(text).is_ok();
        Self { repr, json: value.json.filter(is_sound) }
    }
}

impl Serialize for GuestValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_map(None)?;
        out.serialize_entry("repr", &self.repr)?;
        if let Some(json) = self.json.as_deref().and_then(raw) {
            out.serialize_entry("json", json)?;
        }
        out.end()
    }
}

impl<'de> Deserialize<'de> for GuestValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Fields {
            repr: String,
            #[serde(default, deserialize_with = "present")]
            json: Option<Box<RawValue>>,
        }
        // Distinguishes a member that is `null` from a missing member.
        fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
            Box::<RawValue>::deserialize(deserializer).map(Some)
        }
        let Fields { repr, json } = Fields::deserialize(deserializer)?;
        Ok(Self { repr, json: json.map(|json| compact(&json)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_text_keeps_digits_and_order_and_drops_spaces() {
        let exact = |text: &str| exact_text(text, &serde_json::from_str(text).unwrap());
        for text in [r#"{"z":123456789012345678901234,"a":{"y":1.10,"b":-0}}"#, r#"["é\"\\",": {",""]"#, "[]", "1e5"] {
            assert_eq!(exact(text).unwrap(), text);
        }
        assert_eq!(exact(" {\"b : \\\" c\" :\n[1 ,\t2]}\r").unwrap(), r#"{"b : \" c":[1,2]}"#);
    }

    #[test]
    fn text_that_repeats_a_key_has_no_exact_form() {
        for text in [r#"{"path":"a","path":"b"}"#, r#"[{"z":1,"a":{"a":2,"\u0061":3}}]"#] {
            assert_eq!(exact_text(text, &serde_json::from_str(text).unwrap()), None, "{text}");
            assert_eq!(compact(raw(text).unwrap()), text);
        }
    }

    #[test]
    fn json_check_agrees_with_the_parser() {
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
    fn json_nesting_is_limited() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(check_json(&deep(126)).is_ok(), "under");
        assert!(check_json(&deep(127)).is_ok(), "at");
        assert!(check_json(&deep(128)).is_err(), "over");
        assert!(check_json(&"[".repeat(1 << 20)).is_err());
    }

    fn converted(repr: &str, json: Option<&str>) -> GuestValue {
        glovebox_interpreters::GuestValue { repr: repr.into(), json: json.map(str::to_owned) }.into()
    }

    #[test]
    fn repr_is_truncated_at_its_limit() {
        for (length, held) in [(65_535, 65_535), (65_536, 65_536), (65_537, 65_536)] {
            assert_eq!(converted(&"é".repeat(length), None).repr.chars().count(), held);
        }
    }

    #[test]
    fn value_without_valid_json_is_none() {
        for text in ["", "{", "nan", "[1,]", "1 2", &"[".repeat(1000)] {
            assert_eq!(converted("", Some(text)).json, None, "{text}");
        }
        for text in ["null", "[1, 2.5]", r#"{"a": "b"}"#] {
            assert_eq!(converted("", Some(text)).json.as_deref(), Some(text));
        }
    }

    #[test]
    fn json_over_a_mebibyte_is_none() {
        for (length, held) in [(MAX_JSON_BYTES, true), (MAX_JSON_BYTES + 1, false)] {
            let text = format!("\"{}\"", "x".repeat(length - 2));
            assert_eq!(converted("", Some(&text)).json.is_some(), held, "{length}");
        }
    }

    #[test]
    fn null_json_means_the_value_is_null() {
        let json = |value: GuestValue| serde_json::to_string(&value).unwrap();
        assert_eq!(json(converted("None", Some("null"))), r#"{"repr":"None","json":null}"#);
        assert_eq!(json(converted("<object>", None)), r#"{"repr":"<object>"}"#);
        assert_eq!(json(converted("[1]", Some("[1]"))), r#"{"repr":"[1]","json":[1]}"#);
    }
}
