//! JSON text: an escaping formatter and a checked string.

use std::{
    fmt,
    io::{self, Write},
};

use glovebox_core::check_json;
use glovebox_vfs::is_hidden;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::Error as _};
use serde_json::{Value, ser::Formatter, value::RawValue};

/// A formatter that writes JSON on one line and escapes control, invisible and direction-changing characters.
///
/// JSON itself requires escapes only for control characters below U+0020. Parsers read the same value from the output.
///
/// ```
/// use serde::Serialize as _;
///
/// let mut out = Vec::new();
/// let mut json = serde_json::Serializer::with_formatter(&mut out, glovebox::EscapedJson);
/// "a\u{7f}\u{202e}".serialize(&mut json).unwrap();
/// assert_eq!(out, br#""a\u007f\u202e""#);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct EscapedJson;

impl Formatter for EscapedJson {
    fn write_string_fragment<W: Write + ?Sized>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_hidden(*c)) {
            let (before, from) = rest.split_at(at);
            writer.write_all(before.as_bytes())?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = from.strip_prefix(c).unwrap_or_default();
        }
        writer.write_all(rest.as_bytes())
    }

    /// Escapes JSON that is already serialized. Such JSON contains hidden characters only within strings.
    fn write_raw_fragment<W: Write + ?Sized>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut is_first = true;
        for line in fragment.split(['\n', '\r', '\t']) {
            // Replaces whitespace between the tokens of pretty-printed JSON.
            if !std::mem::take(&mut is_first) {
                writer.write_all(b" ")?;
            }
            self.write_string_fragment(writer, line)?;
        }
        Ok(())
    }
}

/// Text that is one JSON value.
///
/// [`new`](Self::new) and deserialization reject values that are nested more than 127 levels deep. The conversion from a
/// [`Value`] does not check the depth.
///
/// Parsed JSON takes up to a hundred times the memory of its text, so untrusted JSON should stay unparsed.
///
/// ```
/// use glovebox::JsonText;
///
/// assert_eq!(JsonText::new("[1, 2]").unwrap().as_str(), "[1, 2]");
/// assert!(JsonText::new("[1, 2").is_err());
/// assert_eq!(JsonText::from(serde_json::json!({ "a": null })).as_str(), r#"{"a":null}"#);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct JsonText(Box<str>);

/// The error if a text is not valid JSON or is nested too deeply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the text is not JSON: {0}")]
pub struct NotJson(String);

impl JsonText {
    /// Checks that `text` is one JSON value.
    ///
    /// # Errors
    /// Fails if the text is not JSON, or is nested too deeply.
    pub fn new(text: impl Into<Box<str>>) -> Result<Self, NotJson> {
        let text = text.into();
        check_json(&text).map_err(NotJson)?;
        Ok(Self(text))
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text on one line, with all hidden characters escaped ([`EscapedJson`]).
    ///
    /// ```
    /// use glovebox::JsonText;
    ///
    /// assert_eq!(JsonText::new("[\n\"\u{202e}\"]").unwrap().escaped(), r#"[ "\u202e"]"#);
    /// ```
    #[must_use]
    pub fn escaped(&self) -> String {
        let mut out = Vec::new();
        // Infallible: writing to a vector cannot fail, and the text is JSON.
        let _ = self.serialize(&mut serde_json::Serializer::with_formatter(&mut out, EscapedJson));
        String::from_utf8_lossy(&out).into_owned()
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::from_str::<&RawValue>(&self.0).map_err(S::Error::custom)?.serialize(serializer)
    }
}

/// Deserializes a value and checks it like [`JsonText::new`]. Works only with formats that support [`RawValue`], such
/// as `serde_json`.
impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(Box::<str>::from(Box::<RawValue>::deserialize(deserializer)?)).map_err(D::Error::custom)
    }
}

impl From<JsonText> for String {
    fn from(JsonText(text): JsonText) -> Self {
        text.into()
    }
}

/// Converts a value without checking its depth, because the value comes from the embedder. If the value is nested more
/// than 127 levels deep, the text cannot be deserialized as [`JsonText`], for example in a worker process.
impl From<&Value> for JsonText {
    fn from(value: &Value) -> Self {
        Self(value.to_string().into())
    }
}

/// Converts a value without checking its depth, like the conversion from `&Value`.
impl From<Value> for JsonText {
    fn from(value: Value) -> Self {
        Self::from(&value)
    }
}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JsonText({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::ser::Formatter as _;

    use super::EscapedJson;

    fn written(value: &impl serde::Serialize) -> String {
        let mut out = Vec::new();
        value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, EscapedJson)).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn escaped_json_is_terminal_safe_and_equal() {
        let all: String = (0..=u32::from(char::MAX)).filter_map(char::from_u32).collect();
        let value = serde_json::json!({ "k\u{9b}": [all, "\u{e0041}", 1] });
        let text = written(&value);
        assert!(!text.chars().any(super::is_hidden));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
        assert_eq!(written(&"\u{7f}\u{85}\u{2028}\u{e0041}~\u{e9}"), "\"\\u007f\\u0085\\u2028\\udb40\\udc41~\u{e9}\"");
    }

    #[test]
    fn finished_json_stays_on_one_line() {
        let mut out = Vec::new();
        EscapedJson.write_raw_fragment(&mut out, "{\n\t\"a\":\r\n\"\u{202e}\" }").unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(!text.chars().any(super::is_hidden), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), serde_json::json!({ "a": "\u{202e}" }));
    }
}
