//! Encodes bytes in JSON as hexadecimal digits.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// Bytes that are hexadecimal digits in JSON.
#[derive(Clone)]
pub struct Hex(pub Vec<u8>);

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let byte = |pair: &[u8]| {
            let pair = std::str::from_utf8(pair).map_err(D::Error::custom)?;
            u8::from_str_radix(pair, 16).map_err(D::Error::custom)
        };
        digits.as_bytes().chunks(2).map(byte).collect::<Result<_, _>>().map(Self)
    }
}
