//! Displays as JSON.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use glovebox_core::is_text;
use serde::{
    Serialize, Serializer,
    ser::{SerializeMap as _, SerializeSeq as _, SerializeStruct as _},
};

use crate::{Display, Form};

/// Displays as notebooks store them: `{"is_result": …, "data": {MEDIA TYPE: TEXT OR BASE64}}`.
pub(crate) struct AsJson<'a>(pub(crate) &'a [Display]);

struct OneAsJson<'a>(&'a Display);

struct Data<'a>(&'a [Form]);

impl Serialize for AsJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_seq(Some(self.0.len()))?;
        for display in self.0 {
            out.serialize_element(&OneAsJson(display))?;
        }
        out.end()
    }
}

impl Serialize for OneAsJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Display", 2)?;
        out.serialize_field("is_result", &self.0.is_result)?;
        out.serialize_field("data", &Data(&self.0.forms))?;
        out.end()
    }
}

impl Serialize for Data<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_map(Some(self.0.len()))?;
        for Form { media_type, data, .. } in self.0 {
            if is_text(media_type) {
                out.serialize_entry(media_type, &String::from_utf8_lossy(data))?;
            } else {
                out.serialize_entry(media_type, &BASE64_STANDARD.encode(data))?;
            }
        }
        out.end()
    }
}
