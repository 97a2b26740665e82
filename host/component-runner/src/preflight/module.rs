//! Host memory of each instance of a core module.

use wasmparser::{BinaryReaderError, ElementItems, ElementKind, Imports, Payload, TypeRef};

/// Host memory per item of a module, from `vmtypes.rs` and `vmoffsets.rs` of `wasmtime-environ`, on 64-bit machines.
mod size {
    /// `Instance` with the fixed part of `VMContext`, its entry in the store, and the allocator's overhead.
    pub(super) const INSTANCE: u64 = 1_024;
    /// `VMFuncRef`, for each function that can be referenced.
    pub(super) const FUNCTION_REFERENCE: u64 = 32;
    /// `VMFunctionImport`, and its entry in the list that it is copied from.
    pub(super) const IMPORTED_FUNCTION: u64 = 2 * 32;
    /// `VMTableImport`, `VMMemoryImport`, `VMGlobalImport` and `VMTagImport`, and their entries in the lists that they
    /// are copied from.
    pub(super) const IMPORT: u64 = 2 * 24;
    /// `VMGlobalDefinition`.
    pub(super) const GLOBAL: u64 = 16;
    /// `VMTagDefinition`.
    pub(super) const TAG: u64 = 4;
    /// `VMTableDefinition` and `Table`.
    pub(super) const TABLE: u64 = 128;
    /// `VMMemoryDefinition`, `Memory`, and the system's overhead of a mapping.
    pub(super) const MEMORY: u64 = 1_024;
    /// `PassiveElementSegment`.
    pub(super) const SEGMENT: u64 = 32;
    /// `ValRaw`, for each element of a passive or declared segment.
    pub(super) const ELEMENT: u64 = 16;
    /// Address and length.
    pub(super) const DATA: u64 = 12;
}

/// Longest table that Wasmtime initializes at compile time: `try_func_table_init`.
const MAX_LAID_OUT: u64 = 1 << 20;

/// Opcode of `ref.func`.
const REF_FUNC: u8 = 0xd2;

/// Counts of a module's definitions and imports.
#[derive(Debug, Default)]
pub(super) struct Module {
    pub(super) imports: u64,
    /// Initial table elements, as far as Wasmtime could initialize them at compile time: a few bytes can request a
    /// million.
    pub(super) table_elements: u64,
    /// Host memory per instance in bytes, without function references.
    bytes: u64,
    functions: u64,
    /// Number of references to functions. A function counts each time that it is named.
    referred: u64,
}

impl Module {
    /// Returns an upper bound of the host memory of one instance in bytes. Linear memories and table elements are
    /// counted when they are created.
    pub(super) fn instance_bytes(&self) -> u64 {
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

    /// Counts references to functions in the constant expressions of a section.
    fn refer_in(&mut self, section: Option<&[u8]>) {
        let named = section.unwrap_or_default().iter().filter(|byte| **byte == REF_FUNC).count();
        self.referred = self.referred.saturating_add(u64::try_from(named).unwrap_or(u64::MAX));
    }

    /// Counts a section of the module.
    pub(super) fn payload(&mut self, payload: &Payload<'_>, bytes: &[u8]) -> Result<(), BinaryReaderError> {
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
