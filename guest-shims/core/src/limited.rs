//! Lists and objects of limited length, deserialized without reading the excess.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

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
