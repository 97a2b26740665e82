//! JSON as text.

pub(crate) mod escaped_json;
pub(crate) mod json_text;
