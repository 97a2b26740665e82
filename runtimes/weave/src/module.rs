//! Parsed core modules.

use wasmparser::{
    Data, Element, Export, FuncType, FuncValidatorAllocations, FunctionBody, Global, Import, MemoryType, Parser,
    Payload, Table, TagType, TypeRef, ValidPayload, Validator, WasmFeatures,
};

use crate::WeaveError;

/// WebAssembly features that modules may use. The validator rejects all others by name, so the passes never see garbage
/// collection, threads, 64-bit memories or legacy exceptions.
const FEATURES: WasmFeatures = WasmFeatures::WASM2
    .union(WasmFeatures::TAIL_CALL)
    .union(WasmFeatures::EXTENDED_CONST)
    .union(WasmFeatures::EXCEPTIONS);

/// The items of a valid module, in the order of their index spaces.
pub(crate) struct Module<'a> {
    /// Name for error messages.
    pub(crate) name: &'a str,
    pub(crate) types: Vec<FuncType>,
    pub(crate) imports: Vec<Import<'a>>,
    /// Type indices of all functions, imported ones first.
    pub(crate) functions: Vec<u32>,
    pub(crate) imported_functions: u32,
    pub(crate) tables: Vec<Table<'a>>,
    pub(crate) memories: Vec<MemoryType>,
    /// The module's own tags. Imported tags have lower indices.
    pub(crate) tags: Vec<TagType>,
    pub(crate) globals: Vec<Global<'a>>,
    pub(crate) exports: Vec<Export<'a>>,
    pub(crate) start: Option<u32>,
    pub(crate) elements: Vec<Element<'a>>,
    pub(crate) bodies: Vec<FunctionBody<'a>>,
    pub(crate) data: Vec<Data<'a>>,
    /// Custom sections, as name and contents.
    pub(crate) customs: Vec<(&'a str, &'a [u8])>,
}

impl<'a> Module<'a> {
    pub(crate) fn read(name: &'a str, bytes: &'a [u8]) -> Result<Self, WeaveError> {
        Validator::new_with_features(FEATURES).validate_all(bytes).map_err(WeaveError::invalid(name))?;
        Self::take_apart(name, bytes).map_err(WeaveError::invalid(name))
    }

    fn take_apart(name: &'a str, bytes: &'a [u8]) -> Result<Self, wasmparser::Error> {
        let mut module = Self {
            name,
            types: Vec::new(),
            imports: Vec::new(),
            functions: Vec::new(),
            imported_functions: 0,
            tables: Vec::new(),
            memories: Vec::new(),
            tags: Vec::new(),
            globals: Vec::new(),
            exports: Vec::new(),
            start: None,
            elements: Vec::new(),
            bodies: Vec::new(),
            data: Vec::new(),
            customs: Vec::new(),
        };
        for payload in Parser::new(0).parse_all(bytes) {
            match payload? {
                Payload::TypeSection(types) => {
                    for item in types.into_iter_err_on_gc_types() {
                        module.types.push(item?);
                    }
                }
                Payload::ImportSection(imports) => {
                    for item in imports.into_imports() {
                        let import = item?;
                        if let TypeRef::Func(index) = import.ty {
                            module.functions.push(index);
                            module.imported_functions += 1;
                        }
                        module.imports.push(import);
                    }
                }
                Payload::FunctionSection(items) => collect(&mut module.functions, items)?,
                Payload::TableSection(items) => collect(&mut module.tables, items)?,
                Payload::MemorySection(items) => collect(&mut module.memories, items)?,
                Payload::TagSection(items) => collect(&mut module.tags, items)?,
                Payload::GlobalSection(items) => collect(&mut module.globals, items)?,
                Payload::ExportSection(items) => collect(&mut module.exports, items)?,
                Payload::StartSection { func, .. } => module.start = Some(func),
                Payload::ElementSection(items) => collect(&mut module.elements, items)?,
                Payload::CodeSectionEntry(body) => module.bodies.push(body),
                Payload::DataSection(items) => collect(&mut module.data, items)?,
                Payload::CustomSection(custom) => module.customs.push((custom.name(), custom.data())),
                _ => {}
            }
        }
        Ok(module)
    }

    /// Returns the type of a function, by function index.
    pub(crate) fn function_type(&self, function: u32) -> Option<&FuncType> {
        self.types.get(index(*self.functions.get(index(function))?))
    }

    /// Returns the number of values in an exception with this tag.
    pub(crate) fn tag_values(&self, tag: u32) -> usize {
        let imported = self.imports.iter().filter_map(|import| match import.ty {
            TypeRef::Tag(of) => Some(of),
            _ => None,
        });
        let of = imported.chain(self.tags.iter().copied()).nth(index(tag)).map(|of| index(of.func_type_idx));
        of.and_then(|of| self.types.get(of)).map_or(0, |of| of.params().len())
    }

    /// Returns the maximum height of the operand stack in each of the module's own functions.
    pub(crate) fn max_operands(&self, bytes: &[u8]) -> Result<Vec<u32>, WeaveError> {
        max_operands(bytes).map_err(WeaveError::invalid(self.name))
    }

    /// Iterates over the function bodies with their function indices.
    pub(crate) fn own_functions(&self) -> impl Iterator<Item = (u32, &FunctionBody<'a>)> {
        (self.imported_functions..).zip(&self.bodies)
    }
}

fn collect<'a, T: wasmparser::FromReader<'a>>(
    into: &mut Vec<T>,
    items: wasmparser::SectionLimited<'a, T>,
) -> Result<(), wasmparser::Error> {
    for item in items {
        into.push(item?);
    }
    Ok(())
}

fn max_operands(bytes: &[u8]) -> Result<Vec<u32>, wasmparser::Error> {
    let mut all = Vec::new();
    let mut validator = Validator::new_with_features(FEATURES);
    let mut allocations = FuncValidatorAllocations::default();
    for payload in Parser::new(0).parse_all(bytes) {
        let ValidPayload::Func(function, body) = validator.payload(&payload?)? else { continue };
        let mut function = function.into_validator(allocations);
        let mut reader = body.get_binary_reader();
        function.read_locals(&mut reader)?;
        let mut operators = body.get_operators_reader()?;
        let mut most = 0;
        while !operators.eof() {
            let offset = operators.original_position();
            function.op(offset, &operators.read()?)?;
            most = most.max(function.operand_stack_height());
        }
        all.push(most);
        allocations = function.into_allocations();
    }
    Ok(all)
}

/// Converts a WebAssembly index. All targets have pointers of at least 32 bits.
pub(crate) fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Returns the number of items in an index space. Validation keeps it far below `u32::MAX`.
pub(crate) fn count<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).unwrap_or(u32::MAX)
}
