//! Cost limits for untrusted JSON, and bytes in JSON.

use glovebox_core::bytes_from_json;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub(crate) use glovebox::internal::json_len;

const MAX_DEPTH: usize = 100;
/// Maximum cost of the values in one JSON text, for which parsing occupies at most 40 MiB ([`UNIT_BYTES`]).
const MAX_COST: usize = 256 << 10;
/// The cost of a list and its first element. An empty list costs the same. Each comma costs 1, for the next element.
const LIST_COST: usize = 4;
/// The cost of an object and its first entry. An empty object costs the same. Each comma costs 1, for the next entry.
const OBJECT_COST: usize = 8;
/// The upper bound on the memory that one unit of cost occupies during parsing, in bytes. A value occupies 32 bytes.
/// The buffer from which `serde` deserializes untagged unions occupies 32 more. The vectors of values and of buffered
/// values also have spare capacity.
pub(crate) const UNIT_BYTES: usize = 160;

/// The cost of the JSON text read so far. The text may be invalid and may arrive in chunks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct JsonCost {
    units: usize,
    depth: usize,
    strings: StringScanner,
}

/// A scanner that finds the strings in JSON text, which may be invalid and may arrive in chunks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StringScanner {
    in_string: bool,
    is_escaped: bool,
}

/// The text contains too many values, or they are nested too deeply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the JSON has too many values or is nested more than {MAX_DEPTH} levels deep; split the request, \
     or send the data as text"
)]
pub(crate) struct TooCostly;

impl JsonCost {
    /// Returns an upper bound on the memory that the values in a JSON text occupy when parsed, in bytes. Excludes the
    /// contents of strings.
    pub(crate) fn of(text: &[u8]) -> Result<usize, TooCostly> {
        let mut cost = Self::default();
        cost.read(text)?;
        Ok(cost.units * UNIT_BYTES)
    }

    /// Reads the next chunk of the text. Fails if the total cost or the depth exceeds its limit.
    pub(crate) fn read(&mut self, text: &[u8]) -> Result<(), TooCostly> {
        for byte in text {
            if self.strings.read(*byte) {
                continue;
            }
            match byte {
                b',' => self.units += 1,
                b'[' | b'{' => {
                    self.units += if *byte == b'[' { LIST_COST } else { OBJECT_COST };
                    self.depth += 1;
                }
                b']' | b'}' => self.depth = self.depth.saturating_sub(1),
                _ => continue,
            }
            if self.units > MAX_COST || self.depth > MAX_DEPTH {
                return Err(TooCostly);
            }
        }
        Ok(())
    }
}

impl StringScanner {
    /// Reads the next byte. Returns `true` if it belongs to a string or is one of its quotes.
    pub(crate) fn read(&mut self, byte: u8) -> bool {
        let was_in_string = self.in_string;
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' if self.in_string => self.is_escaped = true,
            b'"' => self.in_string = !self.in_string,
            _ => {}
        }
        was_in_string || self.in_string
    }
}

/// Returns the first integer that does not fit into 64 bits, which [`serde_json::Value`] rounds. The text must be valid
/// JSON.
pub(crate) fn wide_integer(text: &str) -> Option<&str> {
    let mut strings = StringScanner::default();
    let is_between_numbers = |c: char| {
        // Characters beyond U+00FF occur only in strings, and do not end them.
        let is_in_string = strings.read(u8::try_from(c).unwrap_or_default());
        is_in_string || !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E')
    };
    text.split(is_between_numbers).find(|token| {
        let is_integer = token.contains(|c: char| c.is_ascii_digit()) && !token.contains(['.', 'e', 'E']);
        is_integer && token.parse::<i64>().is_err() && token.parse::<u64>().is_err()
    })
}

/// Bytes in JSON: a string, which is encoded as UTF-8, or `{"base64": …}` for arbitrary bytes.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[schema(value_type = BytesForm)]
pub(crate) struct Bytes(#[serde(deserialize_with = "bytes_from_json")] pub(crate) Vec<u8>);

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_over_the_cost_or_depth_limit_is_rejected() {
        let list = |count: usize| format!("[{}0]", "0,".repeat(count));
        assert_eq!(JsonCost::of(list(MAX_COST - LIST_COST).as_bytes()), Ok(MAX_COST * UNIT_BYTES));
        assert_eq!(JsonCost::of(list(MAX_COST - LIST_COST + 1).as_bytes()), Err(TooCostly));
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(JsonCost::of(nested(MAX_DEPTH).as_bytes()).is_ok());
        assert_eq!(JsonCost::of(nested(MAX_DEPTH + 1).as_bytes()), Err(TooCostly));
        for hostile in ["[],", "{},", "[0],", r#"{"a":0},"#] {
            let text = format!("[{}0]", hostile.repeat(1 << 20));
            assert_eq!(JsonCost::of(text.as_bytes()), Err(TooCostly), "{hostile}");
        }
    }

    #[test]
    fn string_contents_cost_nothing() {
        let text = format!(r#"["{}","\"[[","\\"]"#, "[{,".repeat(1 << 20));
        assert_eq!(JsonCost::of(text.as_bytes()), Ok((LIST_COST + 2) * UNIT_BYTES));
        let mut cost = JsonCost::default();
        for byte in text.as_bytes() {
            cost.read(std::slice::from_ref(byte)).unwrap();
        }
        assert_eq!((cost.units, cost.depth, cost.strings.in_string), (LIST_COST + 2, 0, false));
    }

    #[test]
    fn only_integers_over_64_bits_are_wide() {
        for exact in [
            "18446744073709551615",
            "[-9223372036854775808, -0, true, false, null]",
            r#"{"99999999999999999999": "é\\\"99999999999999999999", "b": [99999999999999999999.0, 1e99, 1E-2]}"#,
        ] {
            assert_eq!(wide_integer(exact), None, "{exact}");
        }
        for (text, wide) in [
            ("18446744073709551616", "18446744073709551616"),
            (r#"{"é\\": [1, -9223372036854775809]}"#, "-9223372036854775809"),
            (r#"["\"", 99999999999999999999, 99999999999999999998]"#, "99999999999999999999"),
        ] {
            assert_eq!(wide_integer(text), Some(wide), "{text}");
        }
    }
}
