//! Limits on JSON that is made into values, checked before it is: values take many times the memory of a text such as `[[],[],…]`.

use std::io;

use serde::Serialize;

/// How deep values may nest.
const MAX_DEPTH: usize = 100;
/// What the values of one text may cost.
const MAX_COST: usize = 256 << 10;
/// An element of a list costs 1. Lists and objects have memory of their own, however little is in them.
const LIST_COST: usize = 4;
const OBJECT_COST: usize = 8;
/// What one unit of cost takes at most while a text is read, in bytes: 32 in the value, as much in the form that `serde` reads
/// untagged unions through, and what their vectors have in reserve.
const UNIT_BYTES: usize = 160;

/// The cost of a JSON text as far as it was read. It need not be valid, and may come in pieces.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct JsonCost {
    units: usize,
    depth: usize,
    in_string: bool,
    is_escaped: bool,
}

/// A text with more values, or nesting deeper, than is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the JSON has too many values, or nests more than {MAX_DEPTH} deep; send several, or send data as text")]
pub(crate) struct TooCostly;

impl JsonCost {
    /// The bytes that the values of a text take besides its strings.
    pub(crate) fn of(text: &[u8]) -> Result<usize, TooCostly> {
        let mut cost = Self::default();
        cost.read(text)?;
        Ok(cost.units * UNIT_BYTES)
    }

    /// Reads on.
    pub(crate) fn read(&mut self, text: &[u8]) -> Result<(), TooCostly> {
        for byte in text {
            if self.in_string {
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
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

/// How many bytes a value has as JSON.
pub(crate) fn json_len(value: &impl Serialize) -> serde_json::Result<usize> {
    let mut len = Length(0);
    serde_json::to_writer(&mut len, value)?;
    Ok(len.0)
}

/// Counts bytes.
struct Length(usize);

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_nesting_are_read_at_the_limit_and_not_over_it() {
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
    fn strings_cost_nothing_whatever_is_in_them() {
        let text = format!(r#"["{}","\"[[","\\"]"#, "[{,".repeat(1 << 20));
        assert_eq!(JsonCost::of(text.as_bytes()), Ok((LIST_COST + 2) * UNIT_BYTES));
        let mut cost = JsonCost::default();
        for byte in text.as_bytes() {
            cost.read(std::slice::from_ref(byte)).unwrap();
        }
        assert_eq!((cost.units, cost.depth, cost.in_string), (LIST_COST + 2, 0, false));
    }
}
