//! Prepared guests, parsed core modules, and the description of the guests that the shim receives.

use std::collections::BTreeMap;

use glovebox_runtimes::{
    Digest,
    rewrite::{GlobalKind, MutableGlobal},
};
use serde::Serialize;
use wasmparser::{
    Data, Element, Export, ExternalKind, FuncType, FuncValidatorAllocations, FunctionBody, Global, Import, MemoryType,
    Operator, Parser, Payload, Table, TagType, TypeRef, ValType, ValidPayload, Validator, WasmFeatures,
};

use crate::{
    WeaveError,
    depth::{Depths, depths},
    plan::{Image, Slots, slots},
};

const WASI: &str = "wasi_snapshot_preview1";

/// An import that guests may have in addition to WASI. The binary of CPython 3.15 imports this function to call its
/// host. There is no host, so the function returns an error, as in the engine.
const HOST_CALL: (&str, &str) = ("host", "call");

/// The export name of the table whose functions the driver calls by slot.
const TABLE: &str = "__table";

/// A prepared interpreter.
#[derive(Clone, Debug)]
pub struct Guest<'a> {
    /// The name of the runtime.
    pub name: &'a str,
    /// The alternative names of the runtime.
    pub aliases: &'a [String],
    /// The language: `python` or `javascript`.
    pub language: &'a str,
    /// The name of the driver, as in recipes.
    pub driver: &'a str,
    /// The interpreter's version.
    pub version: &'a str,
    /// The prepared module, as [`with_image`](glovebox_runtimes::rewrite::with_image) returns it.
    pub module: &'a [u8],
    /// The digest of the prepared module, which identifies the image.
    pub image_sha256: Digest,
    /// Addresses in the image that the driver needs, by name.
    pub anchors: &'a BTreeMap<String, u32>,
    /// All mutable globals. Weaving fails if the list is incomplete, because the value of a missing global would leak
    /// into the next session.
    pub globals: &'a [MutableGlobal],
    /// The names of the exported functions that the driver calls.
    pub exports: &'a [String],
    /// The standard library, if it is a separate file.
    pub library: Option<GuestLibrary<'a>>,
}

pub(crate) struct ParsedGuest<'a> {
    pub(crate) guest: &'a Guest<'a>,
    pub(crate) module: Module<'a>,
    pub(crate) depths: Depths,
    /// The size of the image in pages of 64 KiB.
    pub(crate) memory_pages: u32,
    pub(crate) image: Image,
    /// The indices of the functions that the driver calls by name.
    pub(crate) exports: Vec<u32>,
    /// The mutable globals and the raw bits of their values in the image.
    pub(crate) globals: Vec<(MutableGlobal, u64)>,
    /// The index of the table for calls by slot, and the functions in its slots. `None` if the guest does not export
    /// the table.
    pub(crate) table: Option<(u32, Slots)>,
}

impl<'a> ParsedGuest<'a> {
    pub(crate) fn new(guest: &'a Guest<'a>) -> Result<Self, WeaveError> {
        let module = Module::read(guest.name, guest.module)?;
        let wrong = |what: &str| WeaveError::unsupported(guest.name, what);
        for import in &module.imports {
            let is_given = import.module == WASI || is_host_call(import);
            if !is_given || !matches!(import.ty, TypeRef::Func(_)) {
                let what = format!(
                    "the module imports `{}` `{}`, but only WASI preview 1 is available",
                    import.module, import.name
                );
                return Err(WeaveError::unsupported(guest.name, what));
            }
        }
        if let Some(library) = &guest.library {
            library.check(guest.name)?;
        }
        if module.start.is_some() {
            return Err(wrong("the module has a start function; only prepared modules can be woven"));
        }
        // Reject unlisted globals, because their values would leak from one session into the next.
        let is_known = |at: u32| guest.globals.iter().any(|global| global.index == at);
        if let Some((at, _)) = (0u32..).zip(&module.globals).find(|(at, global)| global.ty.mutable && !is_known(*at)) {
            return Err(wrong(&format!("the module's mutable global {at} is not saved")));
        }
        let [memory] = module.memories.as_slice() else {
            return Err(wrong("the module does not have exactly one memory"));
        };
        let memory_pages = u32::try_from(memory.initial).map_err(|_| wrong("the module's memory is too large"))?;
        let image = Image::of(&module)?;
        Ok(Self {
            guest,
            memory_pages,
            image,
            exports: exported_functions(&module, guest.exports)?,
            globals: guest.globals.iter().map(|global| initial(&module, global)).collect::<Result<_, _>>()?,
            table: called_table(&module)?,
            depths: depths(&module, guest.module)?,
            module,
        })
    }
}

/// Returns `true` for CPython's call to its host. The sandbox does not provide such a host.
pub(crate) fn is_host_call(import: &Import<'_>) -> bool {
    (import.module, import.name) == HOST_CALL
}

fn exported_functions(module: &Module<'_>, names: &[String]) -> Result<Vec<u32>, WeaveError> {
    let find = |name: &String| {
        let found = module.exports.iter().find(|export| export.kind == ExternalKind::Func && export.name == *name);
        let function = found.map(|export| export.index).ok_or_else(|| {
            WeaveError::unsupported(module.name, format!("the module exports no function `{name}` for its driver"))
        })?;
        match module.function_type(function) {
            Some(of) if is_callable(of) => Ok(function),
            _ => Err(WeaveError::unsupported(
                module.name,
                format!("`{name}` has parameters or results that are not integers"),
            )),
        }
    };
    names.iter().map(find).collect()
}

/// Returns `true` if the shim can call functions of this type, which have only integer parameters and at most one
/// integer result.
pub(crate) fn is_callable(of: &FuncType) -> bool {
    let is_integer = |of: &ValType| matches!(of, ValType::I32 | ValType::I64);
    of.params().iter().chain(of.results()).all(is_integer) && of.results().len() <= 1
}

/// Returns a global and the raw bits of its initial value.
fn initial(module: &Module<'_>, global: &MutableGlobal) -> Result<(MutableGlobal, u64), WeaveError> {
    let no_number = || {
        let what = format!("global {} (`{}`) has no constant initial value", global.index, global.export);
        WeaveError::unsupported(module.name, what)
    };
    let defined = module.globals.get(index(global.index)).ok_or_else(no_number)?;
    let mut reader = defined.init_expr.get_operators_reader();
    let first = reader.read().map_err(WeaveError::invalid(module.name))?;
    if !matches!(reader.read(), Ok(Operator::End)) {
        return Err(no_number());
    }
    let bits = match first {
        Operator::I32Const { value } => u64::from(value.cast_unsigned()),
        Operator::I64Const { value } => value.cast_unsigned(),
        Operator::F32Const { value } => u64::from(value.bits()),
        Operator::F64Const { value } => value.bits(),
        _ => return Err(no_number()),
    };
    Ok((global.clone(), bits))
}

/// Finds the table for calls by slot. Its slots never change, because preparation rejects modules that modify tables.
fn called_table(module: &Module<'_>) -> Result<Option<(u32, Slots)>, WeaveError> {
    let found = module.exports.iter().find(|export| export.kind == ExternalKind::Table && export.name == TABLE);
    let Some(table) = found.map(|export| export.index) else { return Ok(None) };
    let mut slots = slots(module, table)?;
    for slot in &mut slots {
        *slot = slot.filter(|function| module.function_type(*function).is_some_and(is_callable));
    }
    Ok(Some((table, slots)))
}

/// WebAssembly features that modules may use. The validator rejects all other features by name, so the passes never
/// encounter garbage collection, threads, 64-bit memories or legacy exceptions.
const FEATURES: WasmFeatures = WasmFeatures::WASM2
    .union(WasmFeatures::TAIL_CALL)
    .union(WasmFeatures::EXTENDED_CONST)
    .union(WasmFeatures::EXCEPTIONS);

/// The items of a valid module, in the order of their index spaces.
pub(crate) struct Module<'a> {
    /// The name of the module in error messages.
    pub(crate) name: &'a str,
    pub(crate) types: Vec<FuncType>,
    pub(crate) imports: Vec<Import<'a>>,
    /// The type indices of all functions. Imported functions are first.
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
    /// The names and contents of the custom sections.
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

    /// Returns the indices and bodies of the defined functions.
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
        let mut highest = 0;
        while !operators.eof() {
            let offset = operators.original_position();
            function.op(offset, &operators.read()?)?;
            highest = highest.max(function.operand_stack_height());
        }
        all.push(highest);
        allocations = function.into_allocations();
    }
    Ok(all)
}

/// Converts a WebAssembly index to `usize`, which has at least 32 bits on all targets.
pub(crate) fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Returns the number of items in an index space, which validation limits to far below `u32::MAX`.
pub(crate) fn count<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).unwrap_or(u32::MAX)
}

// The description of the guests for the shim is JSON in a data segment of the woven module. A standard library that is
// a separate file is in a passive data segment, so that unread parts of the library use no memory.

/// The guests and weaving options, which the shim receives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Description {
    /// The guests, indexed by their numbers.
    pub guests: Vec<GuestDescription>,
    /// Options that the guests were woven with.
    pub weave: WeaveDescription,
}

/// A guest in the shim's description.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GuestDescription {
    /// The runtime's name.
    pub name: String,
    /// The alternative names of the runtime.
    pub aliases: Vec<String>,
    /// The language: `python` or `javascript`.
    pub language: String,
    /// The name of the driver, as in recipes.
    pub driver: String,
    /// The interpreter's version.
    pub version: String,
    /// The digest of the prepared module, in hexadecimal.
    pub image_sha256: String,
    /// The size of the prepared memory in pages of 64 KiB.
    pub memory_pages: u32,
    /// Addresses in the image that the driver needs, by name.
    pub anchors: BTreeMap<String, u32>,
    /// The names of the functions that the driver calls. A call contains the function's index in this list.
    pub exports: Vec<String>,
    /// The mutable globals. A global's number is its index in this list.
    pub globals: Vec<GlobalDescription>,
    /// The layout of the image, as alternating lengths of zeros and of bytes from the image's data segment. The first
    /// length counts zeros. All memory after the last length is zero.
    pub image: Vec<u32>,
    /// The standard library, if it is a separate file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<LibraryDescription>,
}

/// A mutable global.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GlobalDescription {
    /// The name of the global's export in the prepared module.
    pub export: String,
    /// The type of the global's value.
    pub kind: GlobalKind,
    /// The raw bits of the global's value in the image.
    pub value: u64,
}

/// The weaving options in the shim's description.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WeaveDescription {
    /// The weaver's version.
    pub version: String,
    /// The maximum estimated native stack use of nested calls, in bytes.
    pub stack_bytes: u32,
}

impl Description {
    pub(crate) fn new(guests: &[ParsedGuest<'_>], stack_bytes: u32) -> Self {
        let weave = WeaveDescription { version: env!("CARGO_PKG_VERSION").to_owned(), stack_bytes };
        Self { guests: guests.iter().map(GuestDescription::new).collect(), weave }
    }

    /// Encodes the description for the shim.
    pub(crate) fn to_json(&self) -> Result<Vec<u8>, WeaveError> {
        serde_json::to_vec(self).map_err(|error| WeaveError::Guests(error.to_string()))
    }
}

impl GuestDescription {
    fn new(read: &ParsedGuest<'_>) -> Self {
        let globals = read.globals.iter().map(|(global, value)| GlobalDescription {
            export: global.export.clone(),
            kind: global.kind,
            value: *value,
        });
        Self {
            name: read.guest.name.to_owned(),
            aliases: read.guest.aliases.to_vec(),
            language: read.guest.language.to_owned(),
            driver: read.guest.driver.to_owned(),
            version: read.guest.version.to_owned(),
            image_sha256: read.guest.image_sha256.to_string(),
            memory_pages: read.memory_pages,
            anchors: read.guest.anchors.clone(),
            exports: read.guest.exports.to_vec(),
            globals: globals.collect(),
            image: read.image.lengths(),
            library: read.guest.library.as_ref().map(|library| library.describe()),
        }
    }
}

/// A runtime's library: an archive that the guest sees as a file.
#[derive(Clone, Copy, Debug)]
pub struct GuestLibrary<'a> {
    /// The path of the archive in the guest's file system.
    pub guest_path: &'a str,
    /// The contents of the archive.
    pub archive: &'a [u8],
    /// Files next to the archive, by path relative to the archive's directory.
    pub files: &'a BTreeMap<String, Vec<u8>>,
    /// The common directory of `files`, relative to the archive's directory. Empty if there are no files.
    pub files_directory: &'a str,
}

/// A library in the shim's description. The data segment contains the archive, followed by the files in the order of
/// their paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LibraryDescription {
    /// The path of the archive in the guest's file system.
    pub guest_path: String,
    /// The length of the archive in bytes.
    pub archive_bytes: u32,
    /// The common directory of the files, relative to the archive's directory.
    pub files_directory: String,
    /// The lengths of the files in bytes, by path.
    pub files: BTreeMap<String, u32>,
}

impl GuestLibrary<'_> {
    /// Iterates over the contents of the data segment.
    pub(crate) fn segment(&self) -> impl Iterator<Item = u8> {
        self.archive.iter().chain(self.files.values().flatten()).copied()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.files.values().map(Vec::len).fold(self.archive.len(), usize::saturating_add)
    }

    /// Rejects a library that is too large for 32-bit offsets.
    pub(crate) fn check(&self, guest: &str) -> Result<(), WeaveError> {
        match u32::try_from(self.bytes()) {
            Ok(_) => Ok(()),
            Err(_) => Err(WeaveError::unsupported(guest, "the library is larger than 4 GiB")),
        }
    }

    pub(crate) fn describe(&self) -> LibraryDescription {
        LibraryDescription {
            guest_path: self.guest_path.to_owned(),
            archive_bytes: count(self.archive),
            files_directory: self.files_directory.to_owned(),
            files: self.files.iter().map(|(path, bytes)| (path.clone(), count(bytes))).collect(),
        }
    }
}
