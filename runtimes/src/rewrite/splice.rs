//! Exact changes to functions of one binary.

use std::collections::BTreeMap;

use super::RewriteError;

/// Old code within a function and its replacement: bytes in hexadecimal, `{name}` for the index of a function, and
/// `{@1000}` for an address. The linker writes indices and addresses in five bytes.
pub(super) struct Splice {
    pub(super) function: &'static str,
    old: &'static str,
    new: &'static str,
}

impl Splice {
    pub(super) const fn new(function: &'static str, old: &'static str, new: &'static str) -> Self {
        Self { function, old, new }
    }

    /// Returns the names of the functions that the old and the new code call.
    pub(super) fn calls(&self) -> impl Iterator<Item = &'static str> {
        let words = self.old.split_whitespace().chain(self.new.split_whitespace());
        words.filter_map(in_braces).filter(|name| !name.starts_with('@'))
    }

    /// Returns the old and the new code as bytes.
    pub(super) fn encoded(&self, functions: &BTreeMap<String, u32>) -> Result<(Vec<u8>, Vec<u8>), RewriteError> {
        Ok((self.encode(self.old, functions)?, self.encode(self.new, functions)?))
    }

    fn encode(&self, code: &str, functions: &BTreeMap<String, u32>) -> Result<Vec<u8>, RewriteError> {
        let mut bytes = Vec::new();
        for word in code.split_whitespace() {
            let unexpected = |_| RewriteError::UnexpectedCode(self.function.to_owned());
            match in_braces(word) {
                Some(name) => bytes.extend_from_slice(&padded(match name.strip_prefix('@') {
                    Some(address) => address.parse().map_err(unexpected)?,
                    None => *functions.get(name).ok_or_else(|| RewriteError::NoFunction(name.to_owned()))?,
                })),
                None => bytes.push(u8::from_str_radix(word, 16).map_err(unexpected)?),
            }
        }
        Ok(bytes)
    }
}

fn in_braces(word: &str) -> Option<&str> {
    word.strip_prefix('{')?.strip_suffix('}')
}

/// Encodes a number in LEB128, padded to five bytes as the linker does.
fn padded(number: u32) -> [u8; 5] {
    let group = |nth: u32| number.checked_shr(7 * nth).unwrap_or_default().to_le_bytes()[0];
    [group(0) | 0x80, group(1) | 0x80, group(2) | 0x80, group(3) | 0x80, group(4)]
}

/// Applies the splices of one function. Each must match exactly once.
pub(super) fn apply(
    body: &[u8],
    splices: &[&Splice],
    functions: &BTreeMap<String, u32>,
) -> Result<Vec<u8>, RewriteError> {
    let mut spliced = body.to_vec();
    for splice in splices {
        let (old, new) = splice.encoded(functions)?;
        let mut matches = spliced.windows(old.len().max(1)).enumerate().filter(|(_, window)| *window == old);
        let (Some((at, _)), None) = (matches.next(), matches.next()) else {
            return Err(RewriteError::UnexpectedCode(splice.function.to_owned()));
        };
        spliced.splice(at..at.saturating_add(old.len()), new);
    }
    Ok(spliced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_padded_like_the_linker() {
        assert_eq!(padded(10_685), [0xbd, 0xd3, 0x80, 0x80, 0x00]);
        assert_eq!(padded(u32::MAX), [0xff, 0xff, 0xff, 0xff, 0x0f]);
    }

    #[test]
    fn splice_resolves_functions_and_addresses() {
        let functions = BTreeMap::from([("f".to_owned(), 1), ("g".to_owned(), 200)]);
        let splice = Splice::new("f", "41 07 10 {g}", "28 02 {@128} 10 {f}");
        assert_eq!(splice.calls().collect::<Vec<_>>(), ["g", "f"]);
        let body = [0, 0x41, 7, 0x10, 0xc8, 0x81, 0x80, 0x80, 0, 0x0b];
        let after = apply(&body, &[&splice], &functions).unwrap();
        assert_eq!(after, [0, 0x28, 2, 0x80, 0x81, 0x80, 0x80, 0, 0x10, 0x81, 0x80, 0x80, 0x80, 0, 0x0b]);
    }
}
