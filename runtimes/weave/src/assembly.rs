//! A core module under construction.

use std::collections::HashMap;

use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, CustomSection, DataCountSection, DataSection, ElementSection, EntityType,
    ExportKind, ExportSection, Function, FunctionSection, GlobalSection, GlobalType, ImportSection, MemorySection,
    StartSection, TableSection, TagKind, TagSection, TagType, TypeSection, ValType, reencode::Reencode,
};
use wasmparser::{FuncType, TypeRef};

use crate::{
    WeaveError,
    module::{Module, index},
    plan::Shift,
};

type Signature = (Vec<ValType>, Vec<ValType>);

/// The sections of the woven module.
///
/// Within each index space, the items of the input modules come first, module by module, followed by generated items.
/// Callers that fill several sections must follow this order.
#[derive(Default)]
pub(crate) struct Assembly {
    pub(crate) types: TypeSection,
    pub(crate) imports: ImportSection,
    functions: FunctionSection,
    pub(crate) tables: TableSection,
    pub(crate) memories: MemorySection,
    tags: TagSection,
    pub(crate) globals: GlobalSection,
    pub(crate) exports: ExportSection,
    pub(crate) start: Option<u32>,
    pub(crate) elements: ElementSection,
    code: CodeSection,
    pub(crate) data: DataSection,
    customs: Vec<(String, Vec<u8>)>,
    own_types: HashMap<Signature, u32>,
}

impl Assembly {
    /// Adds a module's types, tables, tags, globals and elements.
    pub(crate) fn add(&mut self, module: &Module<'_>, shift: &mut Shift) -> Result<(), WeaveError> {
        self.add_items(module, shift).map_err(WeaveError::encoding(module.name))
    }

    fn add_items(&mut self, module: &Module<'_>, shift: &mut Shift) -> Result<(), wasm_encoder::reencode::Error> {
        for of in &module.types {
            let again = shift.func_type(of.clone())?;
            self.types.ty().func_type(&again);
        }
        for table in &module.tables {
            shift.parse_table(&mut self.tables, table.clone())?;
        }
        for tag in &module.tags {
            let again = shift.tag_type(*tag)?;
            self.tags.tag(again);
        }
        for global in &module.globals {
            shift.parse_global(&mut self.globals, global.clone())?;
        }
        for element in &module.elements {
            shift.parse_element(&mut self.elements, element.clone())?;
        }
        Ok(())
    }

    /// Adds an import. Imported functions take the next function index.
    pub(crate) fn import(
        &mut self,
        module: &str,
        name: &str,
        of: TypeRef,
        shift: &mut Shift,
    ) -> Result<(), WeaveError> {
        let of: EntityType = shift.entity_type(of).map_err(WeaveError::encoding(module))?;
        self.imports.import(module, name, of);
        Ok(())
    }

    /// Returns the type index of a generated function. Call this only after all input modules have added their types.
    pub(crate) fn signature(&mut self, parameters: &[ValType], results: &[ValType]) -> u32 {
        let signature = (parameters.to_vec(), results.to_vec());
        if let Some(known) = self.own_types.get(&signature) {
            return *known;
        }
        let new = self.types.len();
        self.types.ty().function(parameters.iter().copied(), results.iter().copied());
        self.own_types.insert(signature, new);
        new
    }

    /// Returns the block type with the results of the function type `of`.
    pub(crate) fn block_of(&mut self, module: &str, of: &FuncType, shift: &mut Shift) -> Result<BlockType, WeaveError> {
        let results = of.results().iter().map(|of| shift.val_type(*of)).collect::<Result<Vec<_>, _>>();
        Ok(match results.map_err(WeaveError::encoding(module))?.as_slice() {
            [] => BlockType::Empty,
            [one] => BlockType::Result(*one),
            several => BlockType::FunctionType(self.signature(&[], several)),
        })
    }

    /// Adds a function with the next free index.
    pub(crate) fn define(&mut self, signature: u32, body: &Function) {
        self.functions.function(signature);
        self.code.function(body);
    }

    /// Copies a module's functions without rewriting their operators.
    pub(crate) fn copy_functions(&mut self, module: &Module<'_>, shift: &mut Shift) -> Result<(), WeaveError> {
        for (function, body) in module.own_functions() {
            let of = module.functions.get(index(function)).copied().unwrap_or_default();
            self.functions.function(of.saturating_add(shift.types));
            shift.parse_function_body(&mut self.code, body.clone()).map_err(WeaveError::encoding(module.name))?;
        }
        Ok(())
    }

    /// Adds a generated mutable global and returns its index.
    pub(crate) fn global(&mut self, val_type: ValType, init: &ConstExpr) -> u32 {
        let new = self.globals.len();
        self.globals.global(GlobalType { val_type, mutable: true, shared: false }, init);
        new
    }

    /// Returns the index of the first tag that the next module adds.
    pub(crate) fn next_tag(&self) -> u32 {
        self.tags.len()
    }

    /// Adds the tag of the unwinding exception. Call this after all modules have added their tags.
    pub(crate) fn tag(&mut self) -> u32 {
        let func_type_idx = self.signature(&[], &[]);
        let new = self.tags.len();
        self.tags.tag(TagType { kind: TagKind::Exception, func_type_idx });
        new
    }

    pub(crate) fn export(&mut self, name: &str, kind: ExportKind, index: u32) {
        self.exports.export(name, kind, index);
    }

    pub(crate) fn custom(&mut self, name: &str, content: &[u8]) {
        self.customs.push((name.to_owned(), content.to_vec()));
    }

    pub(crate) fn code_bytes(&self) -> usize {
        self.code.byte_len()
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        let mut module = wasm_encoder::Module::new();
        module.section(&self.types).section(&self.imports).section(&self.functions).section(&self.tables);
        module.section(&self.memories).section(&self.tags).section(&self.globals).section(&self.exports);
        if let Some(function_index) = self.start {
            module.section(&StartSection { function_index });
        }
        module.section(&self.elements).section(&DataCountSection { count: self.data.len() });
        module.section(&self.code).section(&self.data);
        for (name, content) in self.customs {
            module.section(&CustomSection { name: name.into(), data: content.into() });
        }
        module.finish()
    }
}
