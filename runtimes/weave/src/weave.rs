//! Weaves guests and a shim into one core module. Defines the options and errors of weaving.

use std::convert::Infallible;

use glovebox_vfs::escaped;
use wasm_encoder::{
    ConstExpr, MemoryType, ValType,
    reencode::{self, Reencode},
};
use wasmparser::{ExternalKind, TypeRef};

use crate::{
    Description, Guest,
    body::{self, Depth, Fuel, FunctionFrame, Instrumentation, VirtualMemory},
    glue::{self, Assembly},
    guest::{Module, ParsedGuest, count, index, is_host_call},
    machine,
    plan::{GeneratedFunctions, PlacedGuest, Plan, Reason, Shift},
};

/// Weaves guests into a shim, without encoding the result as a component. Identical inputs produce identical bytes.
pub(crate) fn weave_core(shim: &[u8], guests: &[Guest<'_>], options: &WeaveOptions) -> Result<WovenCore, WeaveError> {
    if guests.is_empty() {
        return Err(WeaveError::Guests("no guests were given; pass at least one guest".to_owned()));
    }
    let shim = Module::read("the shim", shim)?;
    let guests = guests.iter().map(ParsedGuest::new).collect::<Result<_, _>>()?;
    assemble(&shim, guests, options)
}

/// Options for weaving.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WeaveOptions {
    /// The maximum estimated native stack use of nested calls in a guest, in bytes. A call that exceeds this limit
    /// unwinds the guest.
    ///
    /// Default: 320 KiB. This fits in Wasmtime's default stack of 512 KiB and leaves space for the shim, although a
    /// few frames are larger than their estimate. One of these frames is the frame of QuickJS's interpreter loop,
    /// which is part of every recursion. This frame is 1.2 times its estimate in Wasmtime 49, and 1.5 times in
    /// Wasmtime 50. The median frame of the 10,200 possibly recursive functions of CPython and QuickJS is 0.53 times
    /// its estimate. V8's default stack is 984 KiB.
    pub stack_bytes: u32,
    /// `true` to meter fuel. Default: `true`. Without metering, a script can run forever, so disable metering only for
    /// measurements.
    pub metered: bool,
}

impl Default for WeaveOptions {
    fn default() -> Self {
        Self { stack_bytes: 320 << 10, metered: true }
    }
}

/// Errors from weaving a provider.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeaveError {
    /// The bytes are not a valid module, or use a WebAssembly feature that weaving does not support.
    #[error("`{module}` is not a supported WebAssembly module: {source}", module = escaped(.module))]
    Invalid {
        /// The guest's name, or `the shim`.
        module: String,
        /// The validator's error.
        source: wasmparser::Error,
    },
    /// The module uses a feature that a woven module cannot support.
    #[error("cannot weave `{module}`: {what}", module = escaped(.module))]
    Unsupported {
        /// The guest's name, or `the shim`.
        module: String,
        /// The unsupported feature.
        what: String,
    },
    /// The shim does not match the weaver or the guests.
    #[error("invalid shim: {0}; build it with `guest-shims/component/build`")]
    Shim(String),
    /// The guests or their description cannot be woven.
    #[error("cannot weave: {0}")]
    Guests(String),
    /// The woven module cannot be encoded as a component.
    #[error("cannot encode the woven module as a component: {0}")]
    Component(String),
    /// The provider and the HTTP adapter cannot be composed.
    #[error("the provider and the HTTP adapter do not match: {0}")]
    Served(String),
}

impl WeaveError {
    pub(crate) fn unsupported(module: &str, what: impl Into<String>) -> Self {
        Self::Unsupported { module: module.to_owned(), what: what.into() }
    }

    /// Returns a closure that converts errors from encoding the module.
    pub(crate) fn encoding(module: &str) -> impl Fn(reencode::Error<Infallible>) -> Self {
        move |error| match error {
            reencode::Error::ParseError(source) => Self::Invalid { module: module.to_owned(), source },
            other => Self::unsupported(module, other.to_string()),
        }
    }

    /// Returns a closure that converts errors from parsing the module.
    pub(crate) fn invalid(module: &str) -> impl Fn(wasmparser::Error) -> Self {
        move |source| Self::Invalid { module: module.to_owned(), source }
    }
}

/// The module name of the shim's imports that operate on guests.
const MACHINE: &str = "glovebox:machine";

/// The prefix of the custom sections that describe the component's type.
const COMPONENT_TYPE: &str = "component-type";

/// A woven core module, with statistics.
pub(crate) struct WovenCore {
    pub(crate) wasm: Vec<u8>,
    pub(crate) code_bytes: usize,
    pub(crate) data_bytes: usize,
    pub(crate) description: Description,
}

fn assemble(shim: &Module<'_>, guests: Vec<ParsedGuest<'_>>, options: &WeaveOptions) -> Result<WovenCore, WeaveError> {
    check_shim(shim)?;
    let stack = stack(&guests, options.stack_bytes)?;
    let description = Description::new(&guests, options.stack_bytes);
    let json = description.to_json()?;
    let mut assembly = Assembly::default();

    // The order of functions is: the component's imports, generated functions, the shim's functions, the guests'
    // functions. Generated functions precede others, because they are called most often and small indices have shorter
    // encodings.
    let held = shim.imports.iter().filter(|import| import.module != MACHINE).count();
    let mut own = GeneratedFunctions::new(u32::try_from(held).unwrap_or(u32::MAX));

    let shim_memory = count(&guests);
    let (mut shim_imports, mut machine_functions, mut next) = (Vec::new(), Vec::new(), 0u32);
    for import in &shim.imports {
        if import.module == MACHINE {
            let function = own.reserve();
            machine_functions.push((import, function));
            shim_imports.push(function);
        } else {
            shim_imports.push(next);
            next = next.saturating_add(1);
        }
    }
    let (unwind, unreachable, overflow, halt) = (own.reserve(), own.reserve(), own.reserve(), own.reserve());
    let wanted = glue::imported_functions(&guests, shim)?;
    let wasi: Vec<_> = wanted.iter().map(|(name, wanted)| (*name, wanted, own.reserve())).collect();
    let host_call = glue::host_call(&guests)?.cloned().map(|of| (of, own.reserve()));
    let wasi_of = |name: &str| wasi.iter().find(|(other, ..)| *other == name).map_or(unwind, |(.., at)| *at);

    let first_shim = own.next();
    let mut shim_shift = Shift {
        imported_functions: shim_imports,
        own_functions: first_shim,
        memories: shim_memory,
        ..Shift::default()
    };

    // The guests' memories precede the shim's memory. In all other index spaces, the shim's items precede the guests'
    // items, which precede generated items.
    assembly.add(shim, &mut shim_shift)?;
    let mut shifts = Vec::new();
    let (mut functions, mut image) = (first_shim.saturating_add(count(&shim.bodies)), count(&shim.data));
    for (number, guest) in (0u32..).zip(&guests) {
        let mut shift = Shift {
            imported_functions: guest
                .module
                .imports
                .iter()
                .map(|import| match &host_call {
                    Some((_, no_host)) if is_host_call(import) => *no_host,
                    _ => wasi_of(import.name),
                })
                .collect(),
            own_functions: functions,
            types: assembly.types.len(),
            tables: assembly.tables.len(),
            memories: number,
            tags: assembly.next_tag(),
            globals: assembly.globals.len(),
            elements: assembly.elements.len(),
            data: image,
        };
        assembly.add(&guest.module, &mut shift)?;
        functions = functions.saturating_add(count(&guest.module.bodies));
        shifts.push((shift, image));
        image = image.saturating_add(1);
    }
    let wasi: Vec<_> = wasi.into_iter().map(|(_, wanted, at)| (wanted.of.clone(), wanted.shim, at)).collect();
    drop(wanted);

    let tag = assembly.tag();
    let fuel = assembly.global(ValType::I64, &ConstExpr::i64_const(0));
    let reason = assembly.global(ValType::I32, &ConstExpr::i32_const(0));
    let depth = assembly.global(ValType::I64, &ConstExpr::i64_const(stack));
    let (mut placed, mut segment) = (Vec::new(), image);
    for (read, (shift, image)) in guests.into_iter().zip(shifts) {
        let library = read.guest.library.map(|_| segment);
        segment = segment.saturating_add(u32::from(library.is_some()));
        let pages = ConstExpr::i32_const(read.memory_pages.cast_signed());
        let virtual_size = assembly.global(ValType::I32, &pages);
        placed.push(PlacedGuest { read, shift, virtual_size, image, library });
    }
    let description_segment = (segment, count(&json));
    let plan = Plan { tag, shim_memory, fuel, reason, depth, description: description_segment, guests: placed };

    for import in shim.imports.iter().filter(|import| import.module != MACHINE) {
        assembly.import(import.module, import.name, import.ty, &mut shim_shift)?;
    }
    memories(&mut assembly, shim, &plan, &mut shim_shift)?;
    data(&mut assembly, shim, &plan, &json, &mut shim_shift)?;
    exports(&mut assembly, shim, &mut shim_shift)?;
    for (name, content) in &shim.customs {
        if name.starts_with(COMPONENT_TYPE) {
            assembly.custom(name, content);
        }
    }
    if let Some(start) = shim.start {
        assembly.start = Some(shim_shift.function(start));
    }

    let grow = shim_shift.function(glue::exported(shim, glue::GROW)?);
    let refuel = shim_shift.function(glue::exported(shim, glue::REFUEL)?);
    let depth = Depth { global: depth, overflow };
    own.define(&mut assembly, unwind, (&[], &[]), glue::unwind(&plan, Reason::Requested));
    own.define(&mut assembly, unreachable, (&[], &[]), glue::unwind(&plan, Reason::Unreachable));
    own.define(&mut assembly, overflow, (&[], &[]), glue::unwind(&plan, Reason::Depth));
    let halted = glue::halt(fuel, Some(depth), refuel, unwind);
    own.define(&mut assembly, halt, (&[ValType::I64], &[ValType::I64]), halted);
    for (of, shim_function, at) in wasi {
        let body = glue::wasi(&of, shim_shift.function(shim_function), unwind);
        let again = shim_shift.func_type(of).map_err(WeaveError::encoding(shim.name))?;
        own.define(&mut assembly, at, (again.params(), again.results()), body);
    }
    if let Some((of, at)) = host_call {
        let again = shim_shift.func_type(of).map_err(WeaveError::encoding(shim.name))?;
        own.define(&mut assembly, at, (again.params(), again.results()), glue::no_host());
    }
    for (import, at) in machine_functions {
        let (signature, body) = machine::function(import.name, &plan).ok_or_else(|| {
            WeaveError::Shim(format!("the module imports an unknown function, `{}`, from `{MACHINE}`", import.name))
        })?;
        own.define(&mut assembly, at, signature, body);
        let is_same = match import.ty {
            TypeRef::Func(of) => shim.types.get(index(of)).is_some_and(|of| has_signature(of, signature)),
            _ => false,
        };
        if !is_same {
            return Err(WeaveError::Shim(format!(
                "the module imports `{MACHINE}` `{}` with an unexpected type",
                import.name
            )));
        }
    }
    own.finish(&mut assembly).ok_or_else(|| WeaveError::Shim("a function has no body".to_owned()))?;
    assembly.copy_functions(shim, &mut shim_shift)?;
    for guest in &plan.guests {
        let work = Instrumentation {
            fuel: options.metered.then_some(Fuel { global: fuel, halt }),
            depth: Some(depth),
            memory: Some(VirtualMemory { size: guest.virtual_size, grow }),
            unreachable: Some(unreachable),
            tag: Some(tag),
        };
        rewrite_functions(&mut assembly, guest, &work)?;
    }

    let image_bytes = plan.guests.iter().map(|guest| guest.read.image.bytes.len()).sum::<usize>();
    let libraries = plan.guests.iter().filter_map(|guest| guest.read.guest.library);
    let library_bytes = libraries.map(|library| library.bytes()).sum::<usize>();
    let shim_bytes = shim.data.iter().map(|data| data.data.len()).sum::<usize>();
    let code_bytes = assembly.code_bytes();
    let data_bytes = image_bytes.saturating_add(library_bytes).saturating_add(shim_bytes).saturating_add(json.len());
    Ok(WovenCore { wasm: assembly.finish(), code_bytes, data_bytes, description })
}

/// Returns `true` if a function type has these parameters and results.
fn has_signature(of: &wasmparser::FuncType, (parameters, results): machine::Signature) -> bool {
    let same = |have: &[wasmparser::ValType], want: &[ValType]| {
        have.len() == want.len()
            && have.iter().zip(want).all(|(have, want)| ValType::try_from(*have).is_ok_and(|have| have == *want))
    };
    same(of.params(), parameters) && same(of.results(), results)
}

/// Returns the native stack budget for metered calls, in bytes.
fn stack(guests: &[ParsedGuest<'_>], stack_bytes: u32) -> Result<i64, WeaveError> {
    for guest in guests {
        let counted = guest.depths.counted.iter().flatten();
        let largest = counted.clone().max().copied().unwrap_or(0);
        let (name, once_bytes, count) = (guest.guest.name, guest.depths.once_bytes, counted.count());
        tracing::debug!(guest = name, once_bytes, counted_functions = count, largest_frame_bytes = largest, "stack");
    }
    let once = guests.iter().map(|guest| guest.depths.once_bytes).max().unwrap_or(0);
    let left = stack_bytes.checked_sub(once).map(i64::from).filter(|left| *left > 0);
    left.ok_or_else(|| {
        WeaveError::Guests(format!(
            "non-recursive calls need {once} bytes of stack; the limit is {stack_bytes}; raise the limit"
        ))
    })
}

fn check_shim(shim: &Module<'_>) -> Result<(), WeaveError> {
    let no_function = shim.imports.iter().find(|import| !matches!(import.ty, TypeRef::Func(_)));
    if let Some(import) = no_function {
        return Err(WeaveError::Shim(format!("its import `{}` `{}` is not a function", import.module, import.name)));
    }
    if shim.memories.len() != 1 {
        return Err(WeaveError::Shim("it does not have exactly one memory".to_owned()));
    }
    Ok(())
}

fn memories(assembly: &mut Assembly, shim: &Module<'_>, plan: &Plan<'_>, shift: &mut Shift) -> Result<(), WeaveError> {
    for guest in &plan.guests {
        let Some(memory) = guest.read.module.memories.first() else { continue };
        let maximum = memory.maximum;
        let minimum = memory.initial;
        assembly.memories.memory(MemoryType { minimum, maximum, memory64: false, shared: false, page_size_log2: None });
    }
    for memory in &shim.memories {
        let again = shift.memory_type(*memory).map_err(WeaveError::encoding(shim.name))?;
        assembly.memories.memory(again);
    }
    Ok(())
}

/// Adds the shim's segments unchanged, and the segments that only generated functions use: images, libraries and the
/// description.
fn data(
    assembly: &mut Assembly,
    shim: &Module<'_>,
    plan: &Plan<'_>,
    json: &[u8],
    shift: &mut Shift,
) -> Result<(), WeaveError> {
    for segment in &shim.data {
        shift.parse_data(&mut assembly.data, segment.clone()).map_err(WeaveError::encoding(shim.name))?;
    }
    for guest in &plan.guests {
        assembly.data.passive(guest.read.image.bytes.iter().copied());
    }
    for library in plan.guests.iter().filter_map(|guest| guest.read.guest.library) {
        assembly.data.passive(library.segment().collect::<Vec<u8>>());
    }
    assembly.data.passive(json.iter().copied());
    Ok(())
}

/// Adds the shim's exports, except exports that only the guests' code uses.
fn exports(assembly: &mut Assembly, shim: &Module<'_>, shift: &mut Shift) -> Result<(), WeaveError> {
    for export in &shim.exports {
        let is_ours = export.name.starts_with(glue::WASI_PREFIX) || export.name.starts_with(glue::MACHINE_PREFIX);
        if is_ours && export.kind == ExternalKind::Func {
            continue;
        }
        shift.parse_export(&mut assembly.exports, *export).map_err(WeaveError::encoding(shim.name))?;
    }
    Ok(())
}

fn rewrite_functions(
    assembly: &mut Assembly,
    guest: &PlacedGuest<'_>,
    work: &Instrumentation,
) -> Result<(), WeaveError> {
    let module = &guest.read.module;
    let mut shift = guest.shift.clone();
    for ((function, body), stack_bytes) in module.own_functions().zip(&guest.read.depths.counted) {
        let Some(of) = module.function_type(function) else { continue };
        let results = assembly.block_of(module.name, of, &mut shift)?;
        let frame = FunctionFrame { parameters: count(of.params()), results, stack_bytes: *stack_bytes };
        let rewritten = body::rewrite(module, body, frame, work, &mut shift)?;
        let at = module.functions.get(index(function)).copied().unwrap_or_default();
        assembly.define(at.saturating_add(shift.types), &rewritten.code);
    }
    Ok(())
}
