//! Bytes in JSON, and lists that are no longer than they may be.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use utoipa::ToSchema;

/// Bytes in JSON: a string is their UTF-8, `{"base64": …}` any others.
#[derive(Clone, Debug, Default, ToSchema)]
#[schema(value_type = BytesForm)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

/// Bytes in JSON.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it describes")]
pub(crate) enum BytesForm {
    /// Text, as UTF-8.
    Text(String),
    /// Any bytes.
    Base64 {
        /// In base64, with padding.
        base64: String,
    },
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BytesVisitor)
    }
}

/// Takes each form as it comes: nothing is put aside to be looked at.
struct BytesVisitor;

impl<'de> Visitor<'de> for BytesVisitor {
    type Value = Bytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes, as a string or as an object `{\"base64\": \"…\"}`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Bytes, E> {
        Ok(Bytes(text.as_bytes().to_vec()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Bytes, E> {
        Ok(Bytes(text.into_bytes()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Bytes, A::Error> {
        let wrong = || A::Error::custom("bytes that are no string are an object with `base64` alone");
        let (name, text) = map.next_entry::<String, String>()?.ok_or_else(wrong)?;
        if name != "base64" || map.next_key::<String>()?.is_some() {
            return Err(wrong());
        }
        BASE64_STANDARD.decode(text).map(Bytes).map_err(A::Error::custom)
    }
}

/// A list that is refused where it is longer than this, before more of it is read.
pub(crate) fn at_most<'de, D: Deserializer<'de>, T: Deserialize<'de>, const MAX: usize>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    struct Few<T, const MAX: usize>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Few<T, MAX> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {MAX} values")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut values = Vec::new();
            while let Some(value) = list.next_element()? {
                if values.len() == MAX {
                    return Err(A::Error::invalid_length(MAX + 1, &self));
                }
                values.push(value);
            }
            Ok(values)
        }
    }

    deserializer.deserialize_seq(Few::<T, MAX>(PhantomData))
}

/// As [`at_most`], of an object's entries; the last of two with one name counts.
pub(crate) fn entries_at_most<'de, D: Deserializer<'de>, T: Deserialize<'de>, const MAX: usize>(
    deserializer: D,
) -> Result<BTreeMap<String, T>, D::Error> {
    struct Few<T, const MAX: usize>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Few<T, MAX> {
        type Value = BTreeMap<String, T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "an object of at most {MAX} entries")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let (mut values, mut count) = (BTreeMap::new(), 0);
            while let Some((name, value)) = map.next_entry()? {
                if count == MAX {
                    return Err(A::Error::invalid_length(MAX + 1, &self));
                }
                count += 1;
                values.insert(name, value);
            }
            Ok(values)
        }
    }

    deserializer.deserialize_map(Few::<T, MAX>(PhantomData))
}
