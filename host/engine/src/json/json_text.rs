//! JSON as text.

use std::fmt;

use glovebox_core::check_json;
use serde_json::Value;

/// Text that was checked to be one JSON value, nested at most 127 levels deep.
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

/// The text is not JSON, or is nested too deep.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not JSON: {0}")]
pub struct NotJson(String);

impl JsonText {
    /// Checks a text.
    ///
    /// # Errors
    /// Fails if the text is not JSON, or is nested too deep.
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
}

impl From<JsonText> for String {
    fn from(JsonText(text): JsonText) -> Self {
        text.into()
    }
}

impl From<&Value> for JsonText {
    fn from(value: &Value) -> Self {
        Self(value.to_string().into())
    }
}

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
