//! JSON form of displays.

use std::fmt;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use glovebox_core::is_text;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, MapAccess, Visitor},
    ser::{SerializeMap as _, SerializeSeq as _, SerializeStruct as _},
};

use crate::{Display, Form};

/// A display in the form that [`AsJson`] writes.
#[derive(Deserialize)]
pub(crate) struct FromJson {
    is_result: bool,
    data: Forms,
}

struct Forms(Vec<Form>);

impl From<FromJson> for Display {
    fn from(FromJson { is_result, data: Forms(forms) }: FromJson) -> Self {
        Self::new(forms, is_result)
    }
}

impl<'de> Deserialize<'de> for Forms {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Forms;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from media types to texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Forms, A::Error> {
                let mut forms = Vec::new();
                while let Some((media_type, text)) = map.next_entry::<String, String>()? {
                    let data = match is_text(&media_type) {
                        true => text.into_bytes(),
                        false => BASE64_STANDARD.decode(text).map_err(A::Error::custom)?,
                    };
                    forms.push(Form::new(media_type, data));
                }
                Ok(Forms(forms))
            }
        }

        deserializer.deserialize_map(Entries)
    }
}

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
