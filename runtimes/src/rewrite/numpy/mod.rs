//! Makes numpy behave as on Linux. Widens numpy's default integer to 64 bits in a binary with 32-bit pointers, and
//! makes numpy report floating-point errors ([`status`]).
//!
//! numpy's default integer is as wide as a pointer, so `np.arange(100_000).sum()` overflows in WebAssembly. The default
//! is a constant in a few functions. This module changes the constant to `NPY_LONGLONG`. Indices in C code remain 32
//! bits wide, so this module also inserts conversions between the two widths:
//!
//! * Functions with index parameters accept 64-bit integers, and raise `IndexError` for a value that does not fit.
//! * Functions that return indices (`argsort`, `nonzero`, …) return 64-bit integers.
//! * A Cython function that declares a buffer of `intp_t` or `long` receives a 32-bit copy, which is written back when
//!   the buffer is released. A function that declares a buffer of `int64_t` receives a 64-bit copy of an array of
//!   indices.
//!
//! The changes apply to one specific binary. The error for unexpected code contains the function's name.

mod code;
mod status;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use wasm_encoder::{CodeSection, Function, FunctionSection, InstructionSink, MemArg, SectionId, ValType};
use wasmparser::{BinaryReader, FunctionBody, Name};

use super::{
    RewriteError, Splice, apply, by_function,
    exports::type_count,
    function_wrappers::{bodies_of, defined_functions, function_types},
    index_of, no_room,
    sections::{SectionChange, Sections, extended_section},
};

/// The function that provides an object's buffer. The function is wrapped to record the buffer for the check of its
/// format.
const GET_BUFFER: &str = "PyObject_GetBuffer";

/// numpy's parser of subscripts.
const PREPARE_INDEX: &str = "prepare_index_noarray";

/// `numpy.where`, which returns indices if called with one argument.
const WHERE: &str = "array_where";

/// The conversion of arrays and numbers from 64-bit integers to `long`, in numpy's legacy random generator.
const TO_LONG: &str = "__pyx_f_5numpy_6random_6mtrand_int64_to_long";

/// Methods of numpy's legacy random generator that return indices. If their argument is an array, they return an array
/// of the same type instead.
const RETURN_SAMPLE: &[&str] = &[
    "__pyx_pw_5numpy_6random_6mtrand_11RandomState_35choice",
    "__pyx_pw_5numpy_6random_6mtrand_11RandomState_109permutation",
];

/// numpy functions that return indices, or other pointer-sized integers, to Python.
const RETURN_INDICES: &[&str] = &[
    "__pyx_pw_5numpy_6random_6mtrand_11RandomState_43random_integers",
    "__pyx_pw_5numpy_6random_6mtrand_11RandomState_87binomial",
    "__pyx_pw_5numpy_6random_6mtrand_11RandomState_97hypergeometric",
    "__pyx_pw_5numpy_6random_6mtrand_11RandomState_103multinomial",
    "arr_bincount",
    "arr_ravel_multi_index",
    "arr_unravel_index",
    "array_argmax",
    "array_argmin",
    "array_argpartition",
    "array_argsort",
    "array_count_nonzero",
    "array_lexsort",
    "array_nonzero",
    "array_searchsorted",
];

/// Functions to wrap in addition to the functions that return indices and the loops.
const WRAPPED: [&str; 5] = [GET_BUFFER, PREPARE_INDEX, TO_LONG, WHERE, status::FETCH_MASK];

/// Changes within functions. The type number of `NPY_LONG` is 7, and the type number of `NPY_LONGLONG` is 9.
const SPLICES: &[Splice] = &[
    // The type of Python's `int`, of a list of Python integers, of `dtype(int)` and of `arange`.
    Splice::new("int_default_descriptor", "41 07 10 {PyArray_DescrFromType}", "41 09 10 {PyArray_DescrFromType}"),
    Splice::new("discover_descriptor_from_pylong", "41 07 41 09", "41 09 41 09"),
    // The type of the integer -1. The original code handles -1 separately, because -1 can signal a conversion error.
    Splice::new(
        "discover_descriptor_from_pylong",
        "41 07 10 {PyArray_DescrFromType} 0f",
        "41 09 10 {PyArray_DescrFromType} 0f",
    ),
    Splice::new("_convert_from_any", "41 07 10 {PyArray_DescrFromType}", "41 09 10 {PyArray_DescrFromType}"),
    Splice::new("PyArray_ArangeObj", "41 07 10 {PyArray_DescrFromType}", "41 09 10 {PyArray_DescrFromType}"),
    // The array that represents Python integers in ufuncs, and the check for such integers.
    Splice::new("_multiarray_umath_exec", "41 07 10 {PyArray_DescrFromType}", "41 09 10 {PyArray_DescrFromType}"),
    Splice::new("convert_ufunc_arguments", "28 02 00 41 07 46", "28 02 00 41 09 46"),
    // Sign-extends the Python integer argument of a ufunc to 64 bits.
    Splice::new(
        "ufunc_generic_fastcall",
        "20 09 36 02 b0 02 41 07 10 {PyArray_DescrFromType}",
        "20 09 ac 37 03 b0 02 41 09 10 {PyArray_DescrFromType}",
    ),
    // The common type of `bool` and an integer: `_LongLong_dtype` instead of `_Intp_dtype`.
    Splice::new("int_common_dtype", "28 02 {@27642972} 22 02", "28 02 {@27642932} 22 02"),
    Splice::new("int_common_dtype", "28 02 {@27642972} 20 01", "28 02 {@27642932} 20 01"),
    // Sums and products of `bool` and of types smaller than 8 bytes. The original code looks up the result type in a
    // table. The new code computes the type: odd type numbers are signed.
    Splice::new("reducelike_promote_and_resolve", "41 07 21 09", "41 09 21 09"),
    Splice::new("reducelike_promote_and_resolve", "28 02 00 41 03 4d", "28 02 00 41 07 4d"),
    Splice::new("reducelike_promote_and_resolve", "20 0b 2d 00 {@22081920}", "41 0a 20 0b 41 01 71 6b"),
    // Conversions to indices. The new functions also receive the flags of the conversion.
    Splice::new("PyArray_FromArray", "10 {PyArray_CanCastArrayTo}", "20 02 10 {can_cast_to_index}"),
    Splice::new("PyArray_FromArray", "10 {npy_set_invalid_cast_error}", "10 {invalid_cast}"),
    // `NPY_ARRAY_SAME_KIND_CASTING` instead of `NPY_ARRAY_FORCECAST`, so that the values are checked.
    Splice::new("iter_subscript", "41 10 10 {PyArray_FromArray}", "41 80 80 80 20 10 {PyArray_FromArray}"),
    Splice::new("iter_ass_subscript", "41 10 10 {PyArray_FromArray}", "41 80 80 80 20 10 {PyArray_FromArray}"),
    Splice::new("arr_bincount", "41 91 0a 41 81 0a 20 02", "41 81 8a 80 20 41 81 0a 20 02"),
    Splice::new("arr_bincount", "41 91 0a 41 81 0a 20 05", "41 81 8a 80 20 41 81 0a 20 05"),
    // Functions with an order parameter, such as scipy's `eval_hermite`, declare the parameter as `long`.
    Splice::new(
        "ufunc_loop_matches",
        "20 05 20 02 10 {PyArray_CanCastTypeTo}",
        "20 05 20 02 20 00 20 06 10 {can_cast_to_loop}",
    ),
    Splice::new(
        "ufunc_loop_matches",
        "20 10 28 02 00 20 05 20 02 10 {PyArray_CanCastArrayTo}",
        "20 10 28 02 00 20 05 20 02 20 00 20 06 10 {can_cast_array_to_loop}",
    ),
    Splice::new(
        "ufunc_loop_matches",
        "20 07 28 02 00 20 05 20 02 10 {PyArray_CanCastArrayTo}",
        "20 07 28 02 00 20 05 20 02 20 00 20 06 10 {can_cast_array_to_loop}",
    ),
    // Suppresses numpy's warning when a copy is written back on the release of its buffer.
    Splice::new(
        "_clear_array_attributes",
        "41 01 10 {PyErr_WarnEx} 21 02 02 40 02 40",
        "41 01 1a 1a 1a 41 00 21 02 02 40 02 40",
    ),
    // Scalar operations. The new functions also set the floating-point status.
    Splice::new("double_add", "a0 39 03 00 02 40 20 02", "10 {scalar_add} 02 40 20 02"),
    Splice::new("double_subtract", "a1 39 03 00 02 40 20 02", "10 {scalar_subtract} 02 40 20 02"),
    Splice::new("double_multiply", "a2 39 03 00 02 40 20 02", "10 {scalar_multiply} 02 40 20 02"),
    Splice::new("double_true_divide", "a3 39 03 00 02 40 20 02", "10 {scalar_divide} 02 40 20 02"),
    Splice::new("double_power", "10 {pow} 39 03 00 02 40 20 03", "10 {scalar_power} 02 40 20 03"),
    Splice::new("float_subtract", "93 38 02 00 02 40 20 02", "10 {scalar_subtract_single} 02 40 20 02"),
    Splice::new("float_multiply", "94 38 02 00 02 40 20 02", "10 {scalar_multiply_single} 02 40 20 02"),
    Splice::new("float_true_divide", "95 38 02 00 02 40 20 02", "10 {scalar_divide_single} 02 40 20 02"),
    Splice::new("float_power", "10 {powf} 38 02 00 02 40 20 03", "10 {scalar_power_single} 02 40 20 03"),
    // Changes nothing, but checks the addresses of `IndexError` and of a tuple's error message that ends with "index
    // out of range".
    Splice::new("PyTuple_GetItem", "28 02 {@26079528} 41 {@17588087}", "28 02 {@26079528} 41 {@17588087}"),
];

/// Returns the module with a 64-bit default integer. Preserves custom sections.
pub(super) fn widen(module: &[u8]) -> Result<Vec<u8>, RewriteError> {
    widen_with(module, SPLICES)
}

fn widen_with(module: &[u8], splices: &[Splice]) -> Result<Vec<u8>, RewriteError> {
    let sections = Sections::read(module)?;
    let counts = sections.counts()?;
    let added = || code::ADDED.iter().chain(status::ADDED).copied();
    let loops = status::LOOPS.iter().map(|(name, _)| *name);
    let wrapped = || RETURN_INDICES.iter().chain(RETURN_SAMPLE).copied().chain(WRAPPED).chain(loops.clone());
    let mut wanted: BTreeSet<&str> = code::CALLED.iter().chain(status::CALLED).copied().chain(wrapped()).collect();
    for splice in splices {
        wanted.insert(splice.function);
        wanted.extend(splice.calls().filter(|name| !added().any(|added| added == *name)));
    }
    let mut functions = Functions::find(&sections, &wanted)?;
    let mut next = counts.functions;
    for name in added() {
        functions.named.insert(name.to_owned(), next);
        next = next.checked_add(1).ok_or_else(no_room)?;
    }
    let mut moved = BTreeMap::new();
    for name in wrapped() {
        moved.insert(functions.get(name)?, (name, next));
        next = next.checked_add(1).ok_or_else(no_room)?;
    }
    let context = code::Context {
        functions: &functions,
        array_slot: sections
            .table_slot(functions.get("array_getbuffer")?)?
            .ok_or_else(|| RewriteError::UnexpectedCode("array_getbuffer".to_owned()))?,
    };

    let spliced = by_function(splices, &functions.named)?;
    let function_types = function_types(&sections)?;
    let (mut types, mut bodies, mut appended) = (FunctionSection::new(), CodeSection::new(), BTreeMap::new());
    let defined = defined_functions(&sections)?;
    let imported = counts.functions.saturating_sub(u32::try_from(defined.len()).unwrap_or(u32::MAX));
    for ((index, type_index), body) in (imported..).zip(defined).zip(bodies_of(&sections)?) {
        types.function(type_index);
        let mut body = apply(body, spliced.get(&index).map_or(&[], Vec::as_slice), &functions.named)?;
        if functions.checks.contains(&index) {
            body = with_prefix(&body, &context.format_prefix()?)?;
        }
        let Some((name, moved_to)) = moved.remove(&index) else {
            bodies.raw(&body);
            continue;
        };
        let function_type = usize::try_from(type_index).ok().and_then(|at| function_types.get(at)?.as_ref());
        let parameters = function_type.map_or(0, |(parameters, _)| u32::try_from(parameters.len()).unwrap_or(u32::MAX));
        bodies.function(&match name {
            GET_BUFFER if parameters == 3 => context.get_buffer(moved_to)?,
            PREPARE_INDEX if parameters == 9 => context.prepare_index(moved_to)?,
            TO_LONG if parameters == 1 => context.to_long(moved_to)?,
            WHERE if parameters == 3 => context.return_where(moved_to)?,
            status::FETCH_MASK if parameters == 2 => context.fetch_mask(moved_to),
            name if RETURN_SAMPLE.contains(&name) && parameters == 4 => context.return_sample(moved_to)?,
            name if let Some(bits) = status::bits_of(name)
                && parameters == 4 =>
            {
                context.checked_loop(moved_to, bits)?
            }
            name if !RETURN_INDICES.contains(&name) => return Err(RewriteError::UnexpectedCode(name.to_owned())),
            _ => context.return_indices(moved_to, parameters)?,
        });
        appended.insert(moved_to, (type_index, body));
    }
    if let Some((name, _)) = moved.into_values().next() {
        return Err(RewriteError::UnexpectedCode(name.to_owned())); // it is imported
    }
    let first_type = type_count(&sections)?;
    let mut signatures = Vec::new();
    for (nth, name) in (0u32..).zip(added()) {
        signatures.extend_from_slice(code::signature(name));
        types.function(first_type.checked_add(nth).ok_or_else(no_room)?);
        bodies.function(&context.added(name)?);
    }
    for (type_index, body) in appended.into_values() {
        types.function(type_index);
        bodies.raw(&body);
    }
    let added = u32::try_from(added().count()).map_err(|_| no_room())?;
    Ok(sections.rebuild_all(vec![
        SectionChange::to(extended_section(&sections, SectionId::Type, added, &signatures)?),
        SectionChange::to(types),
        SectionChange::to(bodies),
    ]))
}

/// Inserts code before a function's first instruction.
fn with_prefix(body: &[u8], prefix: &[u8]) -> Result<Vec<u8>, RewriteError> {
    let start = FunctionBody::new(BinaryReader::new(body, 0)).get_operators_reader()?.original_position();
    let (locals, code) = body.split_at_checked(start).unwrap_or((body, &[]));
    Ok([locals, prefix, code].concat())
}

/// Cython's check of a buffer's format. Each Cython module has its own copy of the function.
const CHECK_FORMAT: &str = "__Pyx_BufFmt_CheckString";

/// The indices of functions that new code and splices refer to.
struct Functions {
    named: BTreeMap<String, u32>,
    checks: BTreeSet<u32>,
}

impl Functions {
    fn get(&self, name: &str) -> Result<u32, RewriteError> {
        index_of(&self.named, name)
    }

    /// Finds the wanted functions in the `name` section.
    fn find(sections: &Sections<'_>, wanted: &BTreeSet<&str>) -> Result<Self, RewriteError> {
        let mut functions = Self { named: BTreeMap::new(), checks: BTreeSet::new() };
        for part in sections.names().into_iter().flatten() {
            let Name::Function(map) = part? else { continue };
            for naming in map {
                let naming = naming?;
                // C++ names include the parameter types.
                if naming.name.split_once('(').map_or(naming.name, |(name, _)| name) == CHECK_FORMAT {
                    functions.checks.insert(naming.index);
                } else if wanted.contains(naming.name)
                    && functions.named.insert(naming.name.to_owned(), naming.index).is_some()
                {
                    return Err(RewriteError::AmbiguousFunction(naming.name.to_owned()));
                }
            }
        }
        match wanted.iter().find(|name| !functions.named.contains_key(**name)) {
            Some(name) => Err(RewriteError::NoFunction((*name).to_owned())),
            None => Ok(functions),
        }
    }
}

fn at(offset: u64) -> MemArg {
    MemArg { offset, align: 0, memory_index: 0 }
}

fn function(locals: &[(u32, ValType)], build: impl FnOnce(&mut InstructionSink<'_>)) -> Function {
    let mut function = Function::new(locals.iter().copied());
    build(&mut function.instructions());
    function
}

/// Compares four characters at an offset in a string.
fn begins<'a, 'b>(
    code: &'a mut InstructionSink<'b>,
    text: u32,
    offset: u64,
    characters: [u8; 4],
) -> &'a mut InstructionSink<'b> {
    code.local_get(text).i32_load(at(offset)).i32_const(word(characters)).i32_eq()
}

/// Returns four characters as a little-endian word.
const fn word(text: [u8; 4]) -> i32 {
    i32::from_le_bytes(text)
}
