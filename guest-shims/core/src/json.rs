//! Checking whether a text is JSON.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};

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

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

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
