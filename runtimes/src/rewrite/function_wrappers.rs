//! Wraps functions, either to reserve a frame on the C stack for each call or to correct the C library.
//!
//! Interpreters measure the call depth by the use of the C stack. They miss calls to functions whose variables are all
//! WebAssembly locals. With deeply nested data, such calls exhaust the native stack and trap, instead of raising an
//! exception.

use std::{borrow::Cow, collections::BTreeMap};

use wasm_encoder::{BlockType, CodeSection, Function, FunctionSection, MemArg, SectionId, ValType as EncodedType};
use wasmparser::{BinaryReader, CodeSectionReader, CompositeInnerType, Payload, ValType};

use super::RewriteError;
use super::allocator::Replacement;
use super::sections::{SectionChange, Sections, bound};

/// The size of a frame in bytes. The C stack is aligned to 16 bytes.
const FRAME_BYTES: i32 = 64;

/// The first multiplier of MurmurHash3's finalizer, 0x85ebca6b.
const MIXER: i32 = 0x85eb_ca6b_u32.cast_signed();

/// The parameter types of wasi-libc's `__wasilibc_find_relpath_alloc`.
const PATH_FINDER: [ValType; 5] = [ValType::I32; 5];

/// The most frequent destructor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Destructor {
    index: u32,
    /// The function's slot in the table.
    slot: i32,
}

impl Destructor {
    /// Finds the function's slot.
    pub(super) fn find(sections: &Sections<'_>, index: u32, name: &str) -> Result<Self, RewriteError> {
        let slot = sections.table_slot(index)?;
        let slot = slot.ok_or_else(|| unsupported(format!("its function `{name}` is not in the table")))?;
        Ok(Self { index, slot })
    }
}

/// The offset of the type in CPython's objects, in bytes.
const OBJECT_TYPE: u64 = 4;
/// The offset of the destructor (`tp_dealloc`) in CPython's types.
const TYPE_DESTRUCTOR: u64 = 24;
/// The offset of the flags (`tp_flags`) in CPython's types.
const TYPE_FLAGS: u64 = 84;
/// The flag of types with garbage collection (`Py_TPFLAGS_HAVE_GC`).
const HAVE_GC: i32 = 1 << 14;

/// The code to add around a function.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wrapper {
    /// Reserves a frame on the C stack for the duration of the call. `stack_pointer` is the index of the global. If an
    /// exception leaves the function, the code that catches it resets the stack pointer, as for any function.
    ///
    /// With a destructor, the function is CPython's `_Py_Dealloc`, which calls the destructor of an object's type. For
    /// types without garbage collection, it does nothing else, except that it calls a tracer that only C code can set.
    /// Their destructors are called instead of the function, without a frame, and the given one directly.
    Frame { stack_pointer: u32, destructor: Option<Destructor> },
    /// Preserves an empty path. wasi-libc's `__wasilibc_find_relpath_alloc` finds the preopen and the relative path
    /// for every function with a path parameter. The function replaces an empty path with `.`, so `rmtree("")` would
    /// empty the working directory. With an empty path, the file system returns `ENOENT`.
    EmptyPath,
    /// Mixes the bits of a 32-bit hash. QuickJS hashes an integer key of a `Map` as a double, whose low bits are zero,
    /// and takes the low bits of the hash as the bucket. Without mixing, most integers share a few buckets.
    MixedHash,
    /// Chooses between two allocators.
    Allocator(Replacement),
}

impl Wrapper {
    /// Returns the wrapped function's body with the changes that the wrapper needs.
    fn adapt<'a>(&self, body: &'a [u8]) -> Result<Cow<'a, [u8]>, RewriteError> {
        match self {
            Self::Allocator(replacement) => replacement.adapt(body),
            _ => Ok(Cow::Borrowed(body)),
        }
    }
}

/// Replaces each function with a wrapper that calls it. The wrapped functions are moved to the end of the module, so
/// that all indices stay valid.
pub(super) fn wrap(module: &[u8], functions: &BTreeMap<u32, Wrapper>) -> Result<Vec<u8>, RewriteError> {
    let sections = Sections::read(module)?;
    let total = sections.counts()?.functions;
    let function_types = function_types(&sections)?;
    let (mut types, mut bodies) = (FunctionSection::new(), CodeSection::new());
    let mut moved = Vec::new();
    let defined = defined_functions(&sections)?;
    let imported = total.saturating_sub(u32::try_from(defined.len()).unwrap_or(u32::MAX));
    for ((index, type_index), body) in (imported..).zip(defined).zip(bodies_of(&sections)?) {
        types.function(type_index);
        let Some(wrapper) = functions.get(&index) else {
            bodies.raw(body);
            continue;
        };
        let old = u32::try_from(moved.len()).ok().and_then(|nth| total.checked_add(nth));
        let old = old.ok_or_else(|| unsupported("it already has the maximum number of functions"))?;
        let function_type = usize::try_from(type_index).ok().and_then(|at| function_types.get(at)?.as_ref());
        let (parameters, results) =
            function_type.ok_or_else(|| unsupported(format!("its function {index} has no type")))?;
        bodies.function(&match *wrapper {
            Wrapper::Frame { stack_pointer, destructor } => {
                check_stack_pointer(&sections, stack_pointer)?;
                let is_destructor = matches!((parameters.as_slice(), results.as_slice()), ([ValType::I32], []));
                if destructor.is_some() && !is_destructor {
                    return Err(unsupported(format!(
                        "its function {index} does not have the signature of `_Py_Dealloc`"
                    )));
                }
                framed_call(old, parameters.len(), stack_pointer, destructor.map(|of| (of, type_index)))
            }
            Wrapper::Allocator(replacement) if parameters.len() == replacement.parameters() => replacement.body(old),
            Wrapper::Allocator(_) => {
                return Err(unsupported(format!("its function {index} is not a function of CPython's allocator")));
            }
            Wrapper::EmptyPath if *parameters == PATH_FINDER => path_finder_call(old),
            Wrapper::MixedHash if *results == [ValType::I32] => mixed_hash(old, parameters.len()),
            Wrapper::MixedHash => return Err(unsupported(format!("its function {index} does not return a hash"))),
            Wrapper::EmptyPath => {
                return Err(unsupported(format!(
                    "its function {index} does not have the signature of `__wasilibc_find_relpath_alloc`"
                )));
            }
        });
        moved.push((type_index, wrapper.adapt(body)?));
    }
    if moved.len() != functions.len() {
        return Err(unsupported("a function to wrap is imported"));
    }
    for (type_index, body) in moved {
        types.function(type_index);
        bodies.raw(&body);
    }
    Ok(sections.rebuild(vec![SectionChange::to(types), SectionChange::to(bodies)]))
}

fn check_stack_pointer(sections: &Sections<'_>, stack_pointer: u32) -> Result<(), RewriteError> {
    let pointer = usize::try_from(stack_pointer).ok().and_then(|at| sections.globals().ok()?.get(at).copied());
    if pointer.is_some_and(|global| global.mutable && global.content_type == ValType::I32) {
        Ok(())
    } else {
        Err(unsupported(format!("its global {stack_pointer} is not a stack pointer")))
    }
}

fn framed_call(
    function: u32,
    parameters: usize,
    stack_pointer: u32,
    destructor: Option<(Destructor, u32)>,
) -> Function {
    let mut framed = Function::new(destructor.map(|_| (2, EncodedType::I32)));
    let mut body = framed.instructions();
    if let Some((Destructor { index, slot }, type_index)) = destructor {
        let word = |offset| MemArg { offset, align: 2, memory_index: 0 };
        let (object, of, found) = (0, 1, 2);
        body.local_get(object).i32_load(word(OBJECT_TYPE)).local_tee(of).i32_load(word(TYPE_DESTRUCTOR));
        body.local_tee(found).i32_const(slot).i32_eq();
        body.if_(BlockType::Empty).local_get(object).call(index).else_();
        body.local_get(of).i32_load(word(TYPE_FLAGS)).i32_const(HAVE_GC).i32_and().i32_eqz();
        body.if_(BlockType::Empty).local_get(object).local_get(found).call_indirect(0, type_index).else_();
    }
    body.global_get(stack_pointer).i32_const(FRAME_BYTES).i32_sub().global_set(stack_pointer);
    for (parameter, _) in (0u32..).zip(0..parameters) {
        body.local_get(parameter);
    }
    body.call(function);
    body.global_get(stack_pointer).i32_const(FRAME_BYTES).i32_add().global_set(stack_pointer);
    if destructor.is_some() {
        body.end().end();
    }
    body.end();
    framed
}

/// `int f(const char *path, const char **prefix, char **relative, size_t *relative_bytes, int can_realloc)`. Calls the
/// wrapped function. If the wrapped function finds a preopen for an empty path, makes the relative path empty.
fn path_finder_call(function: u32) -> Function {
    let byte = MemArg { offset: 0, align: 0, memory_index: 0 };
    let word = MemArg { offset: 0, align: 2, memory_index: 0 };
    let (path, relative, found) = (0, 2, 5);
    let mut finder = Function::new([(1, EncodedType::I32)]);
    let mut body = finder.instructions();
    for parameter in 0..5 {
        body.local_get(parameter);
    }
    body.call(function).local_tee(found).i32_const(-1).i32_ne();
    body.local_get(path).i32_load8_u(byte).i32_eqz().i32_and();
    body.if_(BlockType::Empty).local_get(relative).i32_load(word).i32_const(0).i32_store8(byte).end();
    body.local_get(found).end();
    finder
}

/// Calls the wrapped function, and mixes its result so that each bit of the hash affects the low bits. The steps are
/// those of MurmurHash3's finalizer, except for its last multiplication.
fn mixed_hash(function: u32, parameters: usize) -> Function {
    let hash = u32::try_from(parameters).unwrap_or(u32::MAX);
    let mut mixed = Function::new([(1, EncodedType::I32)]);
    let mut body = mixed.instructions();
    for (parameter, _) in (0u32..).zip(0..parameters) {
        body.local_get(parameter);
    }
    body.call(function).local_tee(hash).local_get(hash).i32_const(16).i32_shr_u().i32_xor();
    body.i32_const(MIXER).i32_mul().local_tee(hash).local_get(hash).i32_const(13).i32_shr_u().i32_xor().end();
    mixed
}

/// The parameters and results of a function type.
pub(super) type FunctionType = (Vec<ValType>, Vec<ValType>);

/// Returns the parameters and results of each type, or `None` for types that are not function types.
pub(super) fn function_types(sections: &Sections<'_>) -> Result<Vec<Option<FunctionType>>, RewriteError> {
    let mut types = Vec::new();
    for section in &sections.0 {
        let Payload::TypeSection(groups) = &section.payload else { continue };
        for group in groups.clone() {
            for found in group?.types() {
                bound(types.len(), "types")?;
                types.push(match &found.composite_type.inner {
                    CompositeInnerType::Func(function) => {
                        Some((function.params().to_vec(), function.results().to_vec()))
                    }
                    _ => None,
                });
            }
        }
    }
    Ok(types)
}

/// Returns the type indices of the functions that the module defines.
pub(super) fn defined_functions(sections: &Sections<'_>) -> Result<Vec<u32>, RewriteError> {
    let mut types = Vec::new();
    for section in &sections.0 {
        if let Payload::FunctionSection(functions) = &section.payload {
            for found in functions.clone() {
                types.push(found?);
            }
        }
    }
    Ok(types)
}

/// Returns the function bodies, without their length prefixes.
pub(super) fn bodies_of<'a>(sections: &Sections<'a>) -> Result<Vec<&'a [u8]>, RewriteError> {
    let mut bodies = Vec::new();
    for section in sections.0.iter().filter(|section| section.id == u8::from(SectionId::Code)) {
        for body in CodeSectionReader::new(BinaryReader::new(section.data, 0))? {
            bodies.push(section.data.get(body?.range()).unwrap_or_default());
        }
    }
    Ok(bodies)
}

fn unsupported(what: impl Into<String>) -> RewriteError {
    RewriteError::Unsupported(what.into())
}

#[cfg(test)]
mod tests {
    use wasmparser::{FunctionBody, Validator};

    use super::super::with_exports;
    use super::*;
    use crate::{ExportList, FunctionId};

    /// A module whose function `f` returns the stack pointer, even if called through the table.
    const MODULE: &str = r#"(module
        (import "env" "other" (func $other (param i32)))
        (global $sp (mut i32) (i32.const 1024))
        (table 1 1 funcref)
        (elem (i32.const 0) $f)
        (memory 1)
        (func $before (result i32) i32.const 5)
        (func $f (param i32 i64) (result i32) global.get $sp)
        (func (export "direct") (result i32) i32.const 0 i64.const 0 call $f)
        (func (export "indirect") (result i32)
            i32.const 0 i64.const 0 i32.const 0 call_indirect (param i32 i64) (result i32))
        (func (export "left") (result i32) global.get $sp))"#;

    fn framed(name: &str) -> Result<Vec<u8>, String> {
        let list = ExportList {
            globals: BTreeMap::from([("__stack_pointer".to_owned(), 0)]),
            framed: vec![name.to_owned()],
            ..ExportList::default()
        };
        let made = with_exports(&wat::parse_str(MODULE).unwrap(), &list);
        made.map(|made| made.bytes).map_err(|error| error.to_string())
    }

    /// Returns the instructions of each function.
    fn functions(module: &[u8]) -> Vec<Vec<String>> {
        let sections = Sections::read(module).unwrap();
        let bodies = bodies_of(&sections).unwrap().into_iter();
        let operators =
            bodies.map(|body| FunctionBody::new(BinaryReader::new(body, 0)).get_operators_reader().unwrap());
        operators.map(|reader| reader.into_iter().map(|op| format!("{:?}", op.unwrap())).collect()).collect()
    }

    #[test]
    fn framed_function_wraps_the_original() {
        let before = functions(&wat::parse_str(MODULE).unwrap());
        let bytes = framed("f").unwrap();
        Validator::new().validate_all(&bytes).unwrap();
        let after = functions(&bytes);
        let (moved, others) = after.split_last().unwrap();
        assert_eq!(moved, &before[1]);
        let mut expected = before.clone();
        expected[1] = [
            "GlobalGet { global_index: 0 }",
            "I32Const { value: 64 }",
            "I32Sub",
            "GlobalSet { global_index: 0 }",
            "LocalGet { local_index: 0 }",
            "LocalGet { local_index: 1 }",
            "Call { function_index: 6 }",
            "GlobalGet { global_index: 0 }",
            "I32Const { value: 64 }",
            "I32Add",
            "GlobalSet { global_index: 0 }",
            "End",
        ]
        .map(str::to_owned)
        .to_vec();
        assert_eq!(others, expected, "calls must keep their function indices");
    }

    #[test]
    fn unknown_framed_function_error_names_it() {
        assert!(framed("absent").unwrap_err().contains("`absent`"));
        assert!(framed("other").unwrap_err().contains("is imported"));
    }

    #[test]
    fn wrapped_path_finder_keeps_empty_paths() {
        let module = r#"(module (memory 1)
            (func $finder (param i32 i32 i32 i32 i32) (result i32) i32.const 3)
            (func $other (param i32) (result i32) i32.const 3))"#;
        let wrapped = |finder: FunctionId| {
            let list = ExportList { path_finder: Some(finder), ..ExportList::default() };
            let made = with_exports(&wat::parse_str(module).unwrap(), &list);
            made.map(|made| made.bytes).map_err(|error| error.to_string())
        };
        let bytes = wrapped(FunctionId::Name("finder".to_owned())).unwrap();
        assert_eq!(bytes, wrapped(FunctionId::Index(0)).unwrap());
        Validator::new().validate_all(&bytes).unwrap();
        let after = functions(&bytes);
        assert_eq!(after[2], ["I32Const { value: 3 }", "End"]);
        assert_eq!(after[0][5], "Call { function_index: 2 }");
        assert!(after[0].iter().any(|instruction| instruction.starts_with("I32Store8")), "{:?}", after[0]);
        assert!(
            wrapped(FunctionId::Name("other".to_owned()))
                .unwrap_err()
                .contains("does not have the signature of `__wasilibc_find_relpath_alloc`")
        );
        assert!(wrapped(FunctionId::Name("absent".to_owned())).unwrap_err().contains("`absent`"));
        assert!(wrapped(FunctionId::Index(2)).unwrap_err().contains("is imported"));
    }

    #[test]
    fn framing_without_a_stack_pointer_is_rejected() {
        let mut list = ExportList { framed: vec!["f".to_owned()], ..ExportList::default() };
        let error = |list: &ExportList, module: &str| {
            with_exports(&wat::parse_str(module).unwrap(), list).unwrap_err().to_string()
        };
        assert!(error(&list, MODULE).contains("__stack_pointer"));
        list.globals.insert("__stack_pointer".to_owned(), 0);
        for other in ["(global $sp i32 (i32.const 0))", "(global $sp (mut i64) (i64.const 0))"] {
            let module = format!("(module {other} (func $f))");
            assert!(error(&list, &module).contains("not a stack pointer"), "{other}");
        }
    }
}
