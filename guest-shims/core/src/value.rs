//! Values returned by a guest.

use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::SerializeMap};
use serde_json::{Value, value::RawValue};

use crate::check_json;
use crate::json::{compact, raw};

/// Maximum length of a `repr`, in characters. The drivers truncate there; values of a guest that damaged its driver are
/// truncated here.
const MAX_REPR_CHARS: usize = 64 << 10;

/// Maximum size of a value's JSON text that is read from a guest, in bytes.
const MAX_JSON_BYTES: usize = 1 << 20;

/// A value from a guest: the value of a script's last expression, or of a variable.
///
/// Its JSON form is `{"repr": …}`, with `"json"` next to it if the value is JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestValue {
    /// The value as the language prints it: `repr` in Python, an inspection in JavaScript. At most 65,536 characters.
    pub repr: String,
    /// The value as JSON text, if it is JSON: null, booleans, finite numbers, strings, lists, and objects with string
    /// keys. `None` otherwise, or if the text exceeds 1 MiB. It is well-formed; its content is untrusted.
    pub json: Option<String>,
}

impl GuestValue {
    /// Returns the parsed JSON; `None` if the value is not JSON. Integers beyond 64 bits become floats, and keys are
    /// sorted; [`json`](Self::json) keeps all digits and the order.
    #[must_use]
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
        // `null` is a value, too.
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

    fn converted(repr: &str, json: Option<&str>) -> GuestValue {
        glovebox_interpreters::GuestValue { repr: repr.into(), json: json.map(str::to_owned) }.into()
    }

    #[test]
    fn a_repr_is_cut_at_its_limit() {
        for (length, held) in [(65_535, 65_535), (65_536, 65_536), (65_537, 65_536)] {
            assert_eq!(converted(&"é".repeat(length), None).repr.chars().count(), held);
        }
    }

    #[test]
    fn text_that_is_no_json_is_none() {
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
    fn as_json_it_says_null_only_where_the_value_is_null() {
        let json = |value: GuestValue| serde_json::to_string(&value).unwrap();
        assert_eq!(json(converted("None", Some("null"))), r#"{"repr":"None","json":null}"#);
        assert_eq!(json(converted("<object>", None)), r#"{"repr":"<object>"}"#);
        assert_eq!(json(converted("[1]", Some("[1]"))), r#"{"repr":"[1]","json":[1]}"#);
    }
}
