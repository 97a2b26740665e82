//! Bytes in JSON, and lists of limited length.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use utoipa::ToSchema;

/// Bytes in JSON: a string is encoded as UTF-8, `{"base64": …}` gives arbitrary bytes.
#[derive(Clone, Debug, Default, ToSchema)]
#[schema(value_type = BytesForm)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

/// Bytes in JSON.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum BytesForm {
    /// Text, encoded as UTF-8.
    Text(String),
    /// Arbitrary bytes.
    Base64 {
        /// Base64 with padding.
        base64: String,
    },
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BytesVisitor)
    }
}

/// Accepts both forms without buffering the value.
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

/// Deserializes a list of at most `MAX` elements. Fails at the first element beyond that, without reading on.
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

/// Like [`at_most`], for the entries of an object. The last entry with a name wins.
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
