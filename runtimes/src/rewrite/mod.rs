//! Changes WebAssembly modules: adds exports and callbacks, wraps functions, removes custom sections, and replaces
//! memory and globals with a booted instance's memory and globals.
//!
//! The input is untrusted: a damaged or hostile module results in a [`RewriteError`], in time and memory proportional
//! to its length. The output depends only on the input, because the digest of a prepared module identifies it.

mod allocator;
mod exports;
mod function_wrappers;
mod image;
mod inlining;
mod numpy;
mod parts;
mod quickjs;
mod sections;

use std::collections::BTreeMap;

use glovebox_vfs::{escaped, escaped_text};
use wasmparser::BinaryReaderError;

pub use exports::{BootableModule, GlobalKind, MutableGlobal, with_exports};
pub use image::{GlobalValue, Image, MEMORY_EXPORT, MEMORY_IMPORT, code_of, initial_memory_of, memory_of, with_image};
pub use parts::{BASE_IMPORT, LOADER_EXPORT, MAX_STUB_FUEL, part_of};
pub use sections::{changes_only_memory_and_globals, strip};

/// Errors from inspecting or rewriting a module.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RewriteError {
    /// The bytes are not a well-formed module.
    #[error("not a valid WebAssembly module: {0}")]
    Malformed(#[from] BinaryReaderError),
    /// The bytes are a component instead of a core module.
    #[error("the binary is a WebAssembly component, not a core module; use an interpreter built as a core module")]
    Component,
    /// The module has a feature that preparation does not support, such as state outside memory and globals.
    #[error("the module cannot be prepared: {name}; it can still run as a plain command", name = escaped_text(.0))]
    Unsupported(String),
    /// The `name` section does not contain a function that the recipe names or that a change needs.
    #[error("the module has no function named `{name}`: the binary does not match the runtime's recipe", name = escaped(.0))]
    NoFunction(String),
    /// A part in the recipe lists functions that the module does not contain.
    #[error(
        "the recipe assigns functions {first}..{end} to a part, but the module has {count} functions: the binary does not match the runtime's recipe"
    )]
    NoFunctions {
        /// The index of the first assigned function.
        first: u32,
        /// The index after the last assigned function.
        end: u32,
        /// The number of functions in the module, including imported ones.
        count: usize,
    },
    /// Several functions have the name that the recipe or a change refers to.
    #[error("the module has several functions named `{name}`: the binary does not match the runtime's recipe", name = escaped(.0))]
    AmbiguousFunction(String),
    /// The function does not contain the code to replace.
    #[error("the module's function `{name}` has unexpected code: the binary does not match the runtime's recipe", name = escaped(.0))]
    UnexpectedCode(String),
    /// A function, global or table to export does not exist.
    #[error("the module has no {kind} {index} to export as `{name}`: the binary does not match the runtime's recipe", name = escaped(.name))]
    NoItem {
        /// `function`, `global` or `table`.
        kind: &'static str,
        /// The index of the item.
        index: u32,
        /// The export name.
        name: String,
    },
    /// The module already exports another item under this name.
    #[error("the module exports another item as `{name}`: the binary does not match the runtime's recipe", name = escaped(.0))]
    ExportTaken(String),
    /// The saved memory does not match the module.
    #[error("the memory image does not match the module: {name}", name = escaped_text(.0))]
    Image(String),
    /// A saved global does not match the module.
    #[error("the saved value of global {index} does not match the module: {problem}")]
    Global {
        /// The index of the global.
        index: u32,
        /// The mismatch, such as `it is immutable`.
        problem: String,
    },
}

/// A code sequence within a function and its replacement. Both are written as bytes in hexadecimal, with `{name}` for
/// the index of a function, and `{@1000}` for an address. The linker encodes indices and addresses in five bytes.
struct Splice {
    function: &'static str,
    old: &'static str,
    new: &'static str,
}

impl Splice {
    const fn new(function: &'static str, old: &'static str, new: &'static str) -> Self {
        Self { function, old, new }
    }

    /// Returns the names of the functions that the old or the new code calls.
    fn calls(&self) -> impl Iterator<Item = &'static str> {
        let words = self.old.split_whitespace().chain(self.new.split_whitespace());
        words.filter_map(in_braces).filter(|name| !name.starts_with('@'))
    }

    /// Returns the old and the new code as bytes.
    fn encoded(&self, functions: &BTreeMap<String, u32>) -> Result<(Vec<u8>, Vec<u8>), RewriteError> {
        Ok((self.encode(self.old, functions)?, self.encode(self.new, functions)?))
    }

    fn encode(&self, code: &str, functions: &BTreeMap<String, u32>) -> Result<Vec<u8>, RewriteError> {
        let mut bytes = Vec::new();
        for word in code.split_whitespace() {
            let unexpected = |_| RewriteError::UnexpectedCode(self.function.to_owned());
            match in_braces(word) {
                Some(name) => bytes.extend_from_slice(&padded(match name.strip_prefix('@') {
                    Some(address) => address.parse().map_err(unexpected)?,
                    None => index_of(functions, name)?,
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

/// Encodes a number as LEB128, padded to five bytes like the linker's output.
fn padded(number: u32) -> [u8; 5] {
    let group = |nth: u32| number.checked_shr(7 * nth).unwrap_or_default().to_le_bytes()[0];
    [group(0) | 0x80, group(1) | 0x80, group(2) | 0x80, group(3) | 0x80, group(4)]
}

/// Returns the splices of each function, by the function's index.
fn by_function<'a>(
    splices: &'a [Splice],
    functions: &BTreeMap<String, u32>,
) -> Result<BTreeMap<u32, Vec<&'a Splice>>, RewriteError> {
    let mut spliced: BTreeMap<u32, Vec<&Splice>> = BTreeMap::new();
    for splice in splices {
        spliced.entry(index_of(functions, splice.function)?).or_default().push(splice);
    }
    Ok(spliced)
}

fn index_of(functions: &BTreeMap<String, u32>, name: &str) -> Result<u32, RewriteError> {
    functions.get(name).copied().ok_or_else(|| RewriteError::NoFunction(name.to_owned()))
}

fn no_room() -> RewriteError {
    RewriteError::Unsupported("it already has the maximum number of functions or types".to_owned())
}

/// Applies the splices of one function. Fails unless each splice matches exactly once.
fn apply(body: &[u8], splices: &[&Splice], functions: &BTreeMap<String, u32>) -> Result<Vec<u8>, RewriteError> {
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
