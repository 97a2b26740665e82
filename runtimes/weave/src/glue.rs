//! A core module under construction, and generated functions through which guests call the shim. Depending on the
//! shim's result, these functions unwind the guest.

use std::collections::{BTreeMap, HashMap};

use wasm_encoder::{
    BlockType, BranchHint, BranchHints, CodeSection, ConstExpr, CustomSection, DataCountSection, DataSection,
    ElementSection, EntityType, ExportKind, ExportSection, Function, FunctionSection, GlobalSection, GlobalType,
    ImportSection, MemorySection, StartSection, TableSection, TagKind, TagSection, TagType, TypeSection, ValType,
    reencode::Reencode,
};
use wasmparser::{FuncType, TypeRef};

use crate::{
    WeaveError,
    body::Depth,
    guest::{Module, ParsedGuest, index, is_host_call},
    plan::{Plan, Reason, Shift},
};

/// The prefix of the shim's exports that implement WASI preview 1.
pub(crate) const WASI_PREFIX: &str = "glovebox:wasi/";

// Exports of the shim that the guests' code calls, in addition to WASI.
pub(crate) const REFUEL: &str = "glovebox:machine/refuel";
pub(crate) const GROW: &str = "glovebox:machine/grow";

/// The prefix of [`REFUEL`] and [`GROW`].
pub(crate) const MACHINE_PREFIX: &str = "glovebox:machine/";

/// A WASI function that a guest imports.
pub(crate) struct ImportedFunction<'a> {
    pub(crate) of: &'a FuncType,
    /// The index of the shim's function.
    pub(crate) shim: u32,
}

/// Returns the WASI functions that the guests import, by name. Each name is resolved once.
pub(crate) fn imported_functions<'a>(
    guests: &'a [ParsedGuest<'_>],
    shim: &Module<'_>,
) -> Result<BTreeMap<&'a str, ImportedFunction<'a>>, WeaveError> {
    let mut wanted: BTreeMap<&str, ImportedFunction<'_>> = BTreeMap::new();
    for guest in guests {
        for (number, import) in (0u32..).zip(&guest.module.imports).filter(|(_, import)| !is_host_call(import)) {
            let name = import.name;
            let Some(of) = guest.module.function_type(number) else { continue };
            let other = || {
                WeaveError::unsupported(
                    guest.guest.name,
                    format!("the module imports `{name}` with an unexpected type"),
                )
            };
            if let Some(known) = wanted.get(name) {
                if known.of != of {
                    return Err(other());
                }
                continue;
            }
            let shim_function = exported(shim, &format!("{WASI_PREFIX}{name}"))?;
            let shim_type = shim.function_type(shim_function);
            let fits = shim_type.is_some_and(|shim| {
                let is_answered = of.results() == shim.results() || of.results().is_empty();
                shim.params() == of.params() && shim.results() == [wasmparser::ValType::I32] && is_answered
            });
            if !fits {
                return Err(other());
            }
            wanted.insert(name, ImportedFunction { of, shim: shim_function });
        }
    }
    Ok(wanted)
}

/// Returns the type of the guests' host calls, or `None` if no guest has any. The type must return an `i32` and be the
/// same in all guests.
pub(crate) fn host_call<'a>(guests: &'a [ParsedGuest<'_>]) -> Result<Option<&'a FuncType>, WeaveError> {
    let mut wanted = None;
    for guest in guests {
        for (number, _) in (0u32..).zip(&guest.module.imports).filter(|(_, import)| is_host_call(import)) {
            let of = guest.module.function_type(number).filter(|of| of.results() == [wasmparser::ValType::I32]);
            let fits = of.is_some() && wanted.is_none_or(|known| Some(known) == of);
            wanted = of.filter(|_| fits);
            if wanted.is_none() {
                return Err(WeaveError::unsupported(
                    guest.guest.name,
                    "the module imports `host` `call` with an unexpected type",
                ));
            }
        }
    }
    Ok(wanted)
}

/// Generates a host call that returns -1, because there is no host.
pub(crate) fn no_host() -> Function {
    let mut function = Function::new([]);
    function.instructions().i32_const(-1).end();
    function
}

/// Returns the index of a function that the shim exports.
pub(crate) fn exported(shim: &Module<'_>, name: &str) -> Result<u32, WeaveError> {
    let found =
        shim.exports.iter().find(|export| export.name == name && matches!(export.kind, wasmparser::ExternalKind::Func));
    found.map(|export| export.index).ok_or_else(|| WeaveError::Shim(format!("it exports no function `{name}`")))
}

/// Generates a call to the shim that unwinds if the result is not an errno. A call to a function without a result, such
/// as `proc_exit`, always unwinds.
pub(crate) fn wasi(of: &FuncType, shim: u32, unwind: u32) -> Function {
    let parameters = crate::guest::count(of.params());
    let mut function = Function::new([(1, ValType::I32)]);
    let mut code = function.instructions();
    for parameter in 0..parameters {
        code.local_get(parameter);
    }
    code.call(shim);
    if of.results().is_empty() {
        code.drop().call(unwind).unreachable().end();
        return function;
    }
    let answer = parameters;
    code.local_tee(answer).i32_const(0).i32_lt_s().if_(BlockType::Empty).call(unwind).end();
    code.local_get(answer).end();
    function
}

/// Generates a function that stores the reason and throws the unwinding exception.
pub(crate) fn unwind(plan: &Plan<'_>, reason: Reason) -> Function {
    let mut function = Function::new([]);
    function.instructions().i32_const(reason as i32).global_set(plan.reason).throw(plan.tag).end();
    function
}

/// Generates the function that is called when a counter is negative. If calls are too deep, the function unwinds.
/// Otherwise, the function requests more fuel from the shim and returns the new counter, or unwinds if the shim grants
/// no fuel.
pub(crate) fn halt(fuel: u32, depth: Option<Depth>, refuel: u32, unwind: u32) -> Function {
    let mut function = Function::new([]);
    let mut code = function.instructions();
    if let Some(Depth { global, overflow }) = depth {
        code.global_get(global).i64_const(0).i64_lt_s().if_(BlockType::Empty).call(overflow).end();
    }
    code.local_get(0).global_set(fuel);
    code.call(refuel).if_(BlockType::Empty).call(unwind).end();
    code.global_get(fuel).end();
    function
}

type Signature = (Vec<ValType>, Vec<ValType>);

/// The sections of the woven module.
///
/// Each index space contains the items of the input modules, module by module, followed by generated items. Callers
/// that add items themselves must use this order, except for functions and memories, whose order they choose.
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
    hints: BranchHints,
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

    /// Adds an import. An imported function receives the next function index.
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

    /// Returns the type index of a generated function. Call this method only after all input modules have added their
    /// types.
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

    /// Hints that the branches at these offsets in a function are not taken. Call this method for functions in order of
    /// their indices.
    pub(crate) fn hint_not_taken(&mut self, function: u32, branches: &[u32]) {
        if branches.is_empty() {
            return;
        }
        let hint = |branch: &u32| BranchHint { branch_func_offset: *branch, branch_hint_value: 0 };
        self.hints.function_hints(function, branches.iter().map(hint));
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

    /// Returns the index of the first tag of the next module to add.
    pub(crate) fn next_tag(&self) -> u32 {
        self.tags.len()
    }

    /// Adds the tag of the unwinding exception. Call this method after all modules have added their tags.
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
        if !self.hints.is_empty() {
            module.section(&self.hints);
        }
        module.section(&self.code).section(&self.data);
        for (name, content) in self.customs {
            module.section(&CustomSection { name: name.into(), data: content.into() });
        }
        module.finish()
    }
}
