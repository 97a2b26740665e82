//! Checks a component before Wasmtime reads it. Rejects a component whose compilation would cost far more than its size
//! suggests, and computes the host memory per instance.
//!
//! During compilation, Wasmtime simulates every instantiation and copies every item that is passed on. For example, 26
//! components that each instantiate the previous one twice take 1.7 KB and create 2^26 instances. This module performs
//! the same simulation first, but counts items instead of compiling, and stops at a limit.
//!
//! 1. [`check_headers`] reads only section headers, because even parsing can be too expensive.
//! 2. [`definitions`] reads each module and component once.
//! 3. [`instances`] simulates the instantiation.

mod definitions;
mod instances;
#[cfg(test)]
mod tests;

use definitions::Definitions;
use wasmparser::{
    BinaryReader, BinaryReaderError, CanonicalFunction, CanonicalOption, ElementItems, ElementKind, Imports, Parser,
    Payload, TypeRef,
};

/// Checks a component. Returns an upper bound on the host memory per instance in bytes, without linear memories and
/// table elements.
pub(crate) fn check(component: &[u8]) -> Result<u64, Refusal> {
    check_headers(component)?;
    let definitions = Definitions::read(component)?;
    let tables = definitions.modules.iter().fold(0u64, |sum, module| sum.saturating_add(module.table_elements));
    if tables > MAX_TABLE_ELEMENTS {
        return Err(Refusal::TableElements);
    }
    instances::count(&definitions)
}

/// Maximum number of core modules and components in a component, at any depth. Typical programs have 5 to 16, including
/// the modules that their toolchains add.
const MAX_PARTS: usize = 1_000;

/// Maximum number of nested component and instance types in one section. Real types nest two levels deep. The
/// compilation stack suffices for more than 10,000 levels.
const MAX_TYPES: usize = 1_000;

/// Maximum number of core module and component instances. The sandbox's own component has 6.
/// [`AppLimits::instances`](crate::AppLimits::instances) limits a run, with a smaller default.
const MAX_INSTANCES: u64 = 10_000;

/// Maximum number of lifted, lowered and built-in canonical ABI functions over all instances. Wasmtime compiles each
/// function. The sandbox's own component has 44.
const MAX_CANONICAL: u64 = 20_000;

/// Maximum number of items in all definitions. Also the maximum number of items in instances and in the arguments
/// passed between them, counted again for each copy. The sandbox's own component has 1,824. Wasmtime needs up to a
/// kilobyte and a few microseconds per item.
const MAX_ITEMS: u64 = 250_000;

/// Maximum number of initial table elements in all modules, counted once per module. Wasmtime may store all these
/// elements in the compiled module.
const MAX_TABLE_ELEMENTS: u64 = 4_000_000;

/// The reason why a component is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("it contains more than {} modules and components; merge some of them", MAX_PARTS)]
    Parts,
    #[error("it may contain more than {MAX_TYPES} nested component and instance types in one section; use fewer types")]
    Types,
    #[error("it instantiates more than {MAX_INSTANCES} modules and components; instantiate fewer components")]
    Instances,
    #[error(
        "its instances have more than {MAX_CANONICAL} lifted, lowered and built-in functions; instantiate fewer components or pass fewer functions"
    )]
    Canonical,
    #[error(
        "it contains more than {MAX_ITEMS} items (imports, exports and types) in its definitions, or in all its instances and their arguments; instantiate fewer components or pass fewer items"
    )]
    Items,
    #[error("the tables of its modules have more than {MAX_TABLE_ELEMENTS} initial elements; use smaller tables")]
    TableElements,
    #[error("it instantiates an imported module or component; embed the module or component instead")]
    Imported,
    /// The component is malformed. Contains the message of `wasmparser`, or of this module if `wasmparser` accepts the
    /// component.
    #[error("{0}")]
    Malformed(String),
}

impl From<BinaryReaderError> for Refusal {
    fn from(error: BinaryReaderError) -> Self {
        Self::Malformed(error.to_string())
    }
}

// The first check of a component, which reads only section headers.
//
// Two structures make validation of a small file far too expensive. At the end of each nested module or component, the
// validator copies a list of all earlier definitions. A file of 240 KB with 20,000 nested modules or components took
// half a minute and 8 GB. The validator also reads component and instance types recursively, at three bytes per level.
// A file of 300 KB overflowed the stack, which aborts the process.

/// The length of a module's or component's header, in bytes.
const PREAMBLE_BYTES: usize = 8;

// Section IDs of a component (component-model, `Binary.md`).
const CORE_MODULE: u8 = 1;
const COMPONENT: u8 = 4;
const TYPE: u8 = 7;

/// The first bytes of a nested type: the declaration kind, and the type's own kind (component or instance).
const TYPE_WITHIN: [[u8; 2]; 2] = [[0x01, 0x41], [0x01, 0x42]];

/// Checks the numbers of modules, components and nested types. Malformed input ends the check without an error:
/// [`Definitions::read`] stops at the same offset and reports the reason.
///
/// Nested components have the same section format as the outermost component, so the check need not track nesting.
fn check_headers(component: &[u8]) -> Result<(), Refusal> {
    let mut parts = 0;
    let mut rest = component.get(PREAMBLE_BYTES..).unwrap_or_default();
    while let Some((section, content, after)) = next(rest) {
        if matches!(section, CORE_MODULE | COMPONENT) {
            parts += 1;
            if parts > MAX_PARTS {
                return Err(Refusal::Parts);
            }
        }
        if section == TYPE
            && content.windows(2).filter(|pair| TYPE_WITHIN.iter().any(|begin| pair == begin)).count() > MAX_TYPES
        {
            return Err(Refusal::Types);
        }
        rest = after;
    }
    Ok(())
}

/// Returns the ID of the next section, its contents, and the remaining bytes. For a nested component, the remaining
/// bytes begin with its first section.
fn next(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let mut reader = BinaryReader::new(bytes, 0);
    let (section, len) = (reader.read_u8().ok()?, reader.read_var_u32().ok()?);
    let rest = bytes.get(reader.current_position()..)?;
    let (content, after) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    let after = if section == COMPONENT { rest.get(PREAMBLE_BYTES..)? } else { after };
    Some((section, content, after))
}

/// Host memory per module item in bytes, on 64-bit machines. The comments name the corresponding types of `wasmtime`,
/// and of `wasmtime-environ` (`vmtypes.rs`, `vmoffsets.rs`).
mod size {
    /// `Instance` with the fixed part of `VMContext`, its entry in the store, and the allocator's overhead.
    pub(super) const INSTANCE: u64 = 1_024;
    /// `VMFuncRef`, for each function that can be referenced.
    pub(super) const FUNCTION_REFERENCE: u64 = 32;
    /// `VMFunctionImport`, and its entry in the list from which it is copied.
    pub(super) const IMPORTED_FUNCTION: u64 = 2 * 32;
    /// `VMTableImport`, `VMMemoryImport`, `VMGlobalImport` and `VMTagImport`, and their entries in the lists from which
    /// they are copied.
    pub(super) const IMPORT: u64 = 2 * 24;
    /// `VMGlobalDefinition`.
    pub(super) const GLOBAL: u64 = 16;
    /// `VMTagDefinition`.
    pub(super) const TAG: u64 = 4;
    /// `VMTableDefinition` and `Table`.
    pub(super) const TABLE: u64 = 128;
    /// `VMMemoryDefinition`, `Memory`, and the system's overhead per mapping.
    pub(super) const MEMORY: u64 = 1_024;
    /// `PassiveElementSegment`.
    pub(super) const SEGMENT: u64 = 32;
    /// `ValRaw`, for each element of a passive segment.
    pub(super) const ELEMENT: u64 = 16;
    /// Address and length of a data segment.
    pub(super) const DATA: u64 = 12;
}

/// Maximum number of elements in a table that Wasmtime initializes at compile time, in `try_func_table_init`.
const MAX_LAID_OUT: u64 = 1 << 20;

/// The opcode of `ref.func`.
const REF_FUNC: u8 = 0xd2;

/// Counts of a module's definitions and imports.
#[derive(Debug, Default)]
struct Module {
    imports: u64,
    /// Initial table elements that Wasmtime could initialize at compile time. A few bytes can declare a million
    /// elements.
    table_elements: u64,
    /// The host memory per instance in bytes, without function references.
    bytes: u64,
    functions: u64,
    /// The number of function references. Several references to one function are counted separately.
    referred: u64,
}

impl Module {
    /// Returns an upper bound on the host memory per instance in bytes. Linear memories and table elements are counted
    /// when they are created.
    fn instance_bytes(&self) -> u64 {
        let references = self.referred.min(self.functions).saturating_mul(size::FUNCTION_REFERENCE);
        size::INSTANCE.saturating_add(self.bytes).saturating_add(references)
    }

    fn add(&mut self, count: u32, each: u64) {
        self.bytes = self.bytes.saturating_add(u64::from(count).saturating_mul(each));
    }

    fn import(&mut self, count: u32, ty: TypeRef) {
        self.imports = self.imports.saturating_add(count.into());
        if matches!(ty, TypeRef::Func(_) | TypeRef::FuncExact(_)) {
            self.add(count, size::IMPORTED_FUNCTION);
            self.functions = self.functions.saturating_add(count.into());
            self.referred = self.referred.saturating_add(count.into());
        } else {
            self.add(count, size::IMPORT);
        }
    }

    /// Counts the bytes of a section that can be the opcode `ref.func`: an upper bound on the function references in
    /// its constant expressions.
    fn refer_in(&mut self, section: Option<&[u8]>) {
        let named = section.unwrap_or_default().iter().filter(|byte| **byte == REF_FUNC).count();
        self.referred = self.referred.saturating_add(u64::try_from(named).unwrap_or(u64::MAX));
    }

    /// Counts the items in a section of the module.
    fn payload(&mut self, payload: &Payload<'_>, bytes: &[u8]) -> Result<(), BinaryReaderError> {
        match payload {
            Payload::ImportSection(imports) => {
                for imports in imports.clone() {
                    match imports? {
                        Imports::Single(_, import) => self.import(1, import.ty),
                        Imports::Compact1 { items, .. } => {
                            for item in items {
                                self.import(1, item?.ty);
                            }
                        }
                        Imports::Compact2 { ty, names, .. } => self.import(names.count(), ty),
                    }
                }
            }
            Payload::FunctionSection(functions) => {
                self.functions = self.functions.saturating_add(functions.count().into());
            }
            Payload::ExportSection(exports) => self.referred = self.referred.saturating_add(exports.count().into()),
            Payload::TableSection(tables) => {
                self.add(tables.count(), size::TABLE);
                for table in tables.clone() {
                    let laid_out = table?.ty.initial.min(MAX_LAID_OUT);
                    self.table_elements = self.table_elements.saturating_add(laid_out);
                }
                self.refer_in(bytes.get(tables.range()));
            }
            Payload::MemorySection(memories) => self.add(memories.count(), size::MEMORY),
            Payload::TagSection(tags) => self.add(tags.count(), size::TAG),
            Payload::GlobalSection(globals) => {
                self.add(globals.count(), size::GLOBAL);
                self.refer_in(bytes.get(globals.range()));
            }
            Payload::ElementSection(segments) => {
                self.refer_in(bytes.get(segments.range()));
                for segment in segments.clone() {
                    let segment = segment?;
                    let elements = match segment.items {
                        ElementItems::Functions(functions) => {
                            self.referred = self.referred.saturating_add(functions.count().into());
                            functions.count()
                        }
                        ElementItems::Expressions(_, expressions) => expressions.count(),
                    };
                    if matches!(segment.kind, ElementKind::Passive) {
                        self.add(1, size::SEGMENT);
                        self.add(elements, size::ELEMENT);
                    }
                }
            }
            // Wasmtime retains active segments that it could not apply at compile time.
            Payload::DataSection(segments) => self.add(segments.count(), size::DATA),
            _ => {}
        }
        Ok(())
    }
}

/// Returns `true` if a component, or a component nested in it, uses asynchronous calls or an interface of version 0.3.
///
/// Does not read types, because reading nested types is recursive. Therefore does not detect asynchronous function
/// types without asynchronous calls, unless an interface has version 0.3. Malformed input ends the search, because
/// Wasmtime rejects it later.
pub(crate) fn is_concurrent(component: &[u8]) -> bool {
    Parser::new(0).parse_all(component).map_while(Result::ok).any(|payload| match payload {
        Payload::ComponentImportSection(imports) => {
            imports.into_iter().map_while(Result::ok).any(|import| has_version_0_3(import.name.name))
        }
        Payload::ComponentExportSection(exports) => {
            exports.into_iter().map_while(Result::ok).any(|export| has_version_0_3(export.name.name))
        }
        Payload::ComponentCanonicalSection(functions) => {
            functions.into_iter().map_while(Result::ok).any(|function| is_asynchronous(&function))
        }
        _ => false,
    })
}

fn has_version_0_3(interface: &str) -> bool {
    interface.contains("@0.3.")
}

fn is_asynchronous(function: &CanonicalFunction) -> bool {
    match function {
        CanonicalFunction::Lift { options, .. } | CanonicalFunction::Lower { options, .. } => {
            options.contains(&CanonicalOption::Async)
        }
        CanonicalFunction::ResourceNew { .. }
        | CanonicalFunction::ResourceDrop { .. }
        | CanonicalFunction::ResourceRep { .. } => false,
        // All other built-in functions belong to tasks, streams and futures.
        _ => true,
    }
}
