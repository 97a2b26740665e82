//! Values in untrusted JSON: bytes, and lists and objects of limited length.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};

/// Deserializes a list of at most `MAX` elements, and converts it to `R`.
///
/// # Errors
/// Fails at the first excess element, without reading the rest.
pub fn at_most<'de, D: Deserializer<'de>, T: Deserialize<'de>, R: From<Vec<T>>, const MAX: usize>(
    deserializer: D,
) -> Result<R, D::Error> {
    struct ListVisitor<T, const MAX: usize>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for ListVisitor<T, MAX> {
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

    deserializer.deserialize_seq(ListVisitor::<T, MAX>(PhantomData)).map(R::from)
}

/// Like [`at_most`], but for the entries of an object. If a name occurs several times, its last value wins, but each
/// occurrence counts towards `MAX`.
///
/// # Errors
/// Fails at the first excess entry, without reading the rest.
pub fn entries_at_most<'de, D, T, R, const MAX: usize>(deserializer: D) -> Result<R, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
    R: From<BTreeMap<String, T>>,
{
    struct EntriesVisitor<T, const MAX: usize>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for EntriesVisitor<T, MAX> {
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

    deserializer.deserialize_map(EntriesVisitor::<T, MAX>(PhantomData)).map(R::from)
}

/// Deserializes bytes without buffering the value: from a string, which is encoded as UTF-8, or from `{"base64": …}`.
///
/// # Errors
/// Fails if the value has neither of these forms.
pub fn bytes_from_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    struct BytesVisitor;

    impl<'de> Visitor<'de> for BytesVisitor {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("bytes, as a string or as an object `{\"base64\": \"…\"}`")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Vec<u8>, E> {
            Ok(text.as_bytes().to_vec())
        }

        fn visit_string<E: Error>(self, text: String) -> Result<Vec<u8>, E> {
            Ok(text.into_bytes())
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<u8>, A::Error> {
            let wrong = || A::Error::custom("bytes must be a string, or an object with `base64` as its only key");
            if map.next_key::<String>()?.as_deref() != Some("base64") {
                return Err(wrong());
            }
            let Base64(bytes) = map.next_value()?;
            if map.next_key::<String>()?.is_some() {
                return Err(wrong());
            }
            Ok(bytes)
        }
    }

    deserializer.deserialize_any(BytesVisitor)
}

/// Bytes in base64, which are decoded without a copy of the text.
struct Base64(Vec<u8>);

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Base64Visitor;

        impl Visitor<'_> for Base64Visitor {
            type Value = Base64;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string in base64")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Base64, E> {
                BASE64_STANDARD.decode(text).map(Base64).map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Base64Visitor)
    }
}
