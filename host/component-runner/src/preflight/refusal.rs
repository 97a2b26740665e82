//! What a component may come to at most, and why one is refused.

/// The most core modules and components that a component consists of, however deep. Programs in several languages with all that their
/// tools add have 5 to 16.
pub(super) const MAX_PARTS: usize = 1_000;

/// The most types of components and instances that could be within one another in one section. Real ones are two levels deep; the
/// stack that components are compiled on is enough for more than 10,000.
pub(super) const MAX_TYPES: usize = 1_000;

/// The most instances of core modules and components. The sandbox itself as a component has 6;
/// [`AppLimits::instances`](crate::AppLimits::instances), which a run is held to, is smaller by default.
pub(super) const MAX_INSTANCES: u64 = 10_000;

/// The most functions that components lift, lower or get from the canonical ABI, in all instances. Each is compiled. The sandbox
/// has 44.
pub(super) const MAX_CANONICAL: u64 = 20_000;

/// The most items that definitions have and that instances are made of and hand on, each counted as often as it is copied. The
/// sandbox has 1,824; Wasmtime takes up to a kilobyte and some microseconds for each.
pub(super) const MAX_ITEMS: u64 = 250_000;

/// The most elements that the tables of all its modules begin with, each module counted once: Wasmtime may write them all down.
pub(super) const MAX_TABLE_ELEMENTS: u64 = 4_000_000;

/// Why a component is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("it consists of more than {} modules and components", MAX_PARTS)]
    Parts,
    #[error("a section of its may have more than {} types within one another", MAX_TYPES)]
    Types,
    #[error("it instantiates more than {MAX_INSTANCES} modules and components")]
    Instances,
    #[error("its instances have more than {MAX_CANONICAL} lifted, lowered and built-in functions")]
    Canonical,
    #[error("its instances are made of more than {MAX_ITEMS} items")]
    Items,
    #[error("the tables of its modules begin with more than {MAX_TABLE_ELEMENTS} elements")]
    TableElements,
    #[error("it instantiates a module or a component that it imports")]
    Imported,
    /// It is not well-formed, in Wasmtime's words where they are Wasmtime's.
    #[error("{0}")]
    Malformed(String),
}

impl From<wasmparser::BinaryReaderError> for Refusal {
    fn from(error: wasmparser::BinaryReaderError) -> Self {
        Self::Malformed(error.to_string())
    }
}
