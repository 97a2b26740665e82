//! Generates the code for the added functions and for the wrappers around existing functions. The comments on
//! generators describe the generated functions.

use wasm_encoder::{BlockType, Function, InstructionSink, ValType};

use super::{Functions, at, begins, function, status, word};
use crate::rewrite::RewriteError;

/// The names of the added functions, in order.
pub(super) const ADDED: &[&str] = &[
    "release",
    "is_array",
    "is_index_to_narrow",
    "indices_fit",
    "can_cast_to_index",
    "invalid_cast",
    "converted_format",
    "with_wide_indices",
    "is_order",
    "can_cast_to_loop",
    "can_cast_array_to_loop",
];

/// The functions of the binary that the generated code calls.
pub(super) const CALLED: &[&str] = &[
    "PyArray_CanCastArrayTo",
    "PyArray_CanCastTypeTo",
    "PyArray_DescrFromType",
    "PyArray_FromArray",
    "PyArray_MultiplyList",
    "PyArray_Scalar",
    "PyBuffer_Release",
    "PyErr_Clear",
    "PyErr_SetString",
    "_Py_Dealloc",
    "array_getbuffer",
    "npy_set_invalid_cast_error",
];

/// Returns the encoded type of an added function.
pub(super) fn signature(name: &str) -> &'static [u8] {
    match name {
        "release" => &[0x60, 1, 0x7f, 0],
        "converted_format" => &[0x60, 2, 0x7f, 0x7f, 1, 0x7f],
        "can_cast_to_loop" | "can_cast_array_to_loop" => &[0x60, 5, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 1, 0x7f],
        "can_cast_to_index" | "is_order" => &[0x60, 4, 0x7f, 0x7f, 0x7f, 0x7f, 1, 0x7f],
        "invalid_cast" => &[0x60, 4, 0x7f, 0x7f, 0x7f, 0x7f, 0],
        name if status::ADDED.contains(&name) => status::signature(name),
        _ => &[0x60, 1, 0x7f, 1, 0x7f],
    }
}

// Offsets in CPython's 32-bit objects.
const TYPE: u64 = 4;
const TYPE_FLAGS: u64 = 84;
const TYPE_BUFFER: u64 = 80;
const TUPLE_LENGTH: u64 = 8;
const TUPLE_ITEMS: u64 = 16;
const VIEW_OBJECT: u64 = 4;
const VIEW_FORMAT: u64 = 24;
const TUPLE_FLAG: i32 = 1 << 26;
const LAST_MORTAL: i32 = 0x3fff_ffff;

// Offsets in numpy's arrays, types, scalars and parsed subscripts.
const ARRAY_DATA: u64 = 8;
const ARRAY_DIMENSIONS: u64 = 12;
const ARRAY_SHAPE: u64 = 16;
const ARRAY_TYPE: u64 = 28;
const TYPE_SCALAR: u64 = 8;
const TYPE_NUMBER: u64 = 16;
const SCALAR_VALUE: u64 = 8;
const UFUNC_ARGUMENTS: u64 = 16;
const UFUNC_LOOPS: u64 = 32;
const UFUNC_TYPES: u64 = 44;
const INDEX_KIND: u64 = 8;
const INDEX_BYTES: i32 = 12;
const FANCY: i32 = 16;

// Offsets in Cython's `__Pyx_TypeInfo`.
const INFO_FIELDS: u64 = 4;
const INFO_SIZE: u64 = 8;
const INFO_GROUP: u64 = 48;

/// `NPY_LONG`: the type number of numpy's `intp`.
const NARROW: i32 = 7;
/// `NPY_LONGLONG`: the type number of 64-bit integers.
const WIDE: i32 = 9;
/// `NPY_ULONGLONG`: the type number of unsigned 64-bit integers.
const UNSIGNED_WIDE: i32 = 10;
/// A bit mask of the type numbers `NPY_UINT`, `NPY_ULONG`, `NPY_LONGLONG` and `NPY_ULONGLONG`.
const TO_NARROW: i32 = (1 << 6) | (1 << 8) | (1 << WIDE) | (1 << UNSIGNED_WIDE);

const SAFE_CASTING: i32 = 2;
const FORCE_CAST: i32 = 0x10;
const PLAIN: i32 = 0x101; // contiguous and aligned
const SAME_KIND_CASTING: i32 = 1 << 26;
const WRITE_BACK_SHIFT: i32 = 13;
const BUFFER_RECORDS: i32 = 0x1c; // with format and strides

/// The address of `IndexError`.
const INDEX_ERROR: u64 = 26_079_528;
/// The address of the message "index out of range".
const INDEX_MESSAGE: i32 = 17_588_093;

/// The function indices and the table slot that the generated code uses.
pub(super) struct Context<'a> {
    pub(super) functions: &'a Functions,
    /// The table slot of numpy's `array_getbuffer`, which identifies arrays.
    pub(super) array_slot: i32,
}

/// The address of a word that identifies the last buffer requested from an array. The word's lowest bit is set if the
/// buffer is writable. C code does not use the word: it is at the end of the C stack, where an overflow traps, and
/// below all other data.
pub(super) const LAST_BUFFER: u64 = 16;

impl Context<'_> {
    pub(super) fn call(&self, name: &str) -> Result<u32, RewriteError> {
        self.functions.get(name)
    }

    /// Returns the code to insert before the check of a format. The code converts the buffer if necessary, and replaces
    /// the format with the format of the converted buffer.
    pub(super) fn format_prefix(&self) -> Result<Vec<u8>, RewriteError> {
        let mut code = Vec::new();
        InstructionSink::new(&mut code).local_get(0).local_get(1).call(self.call("converted_format")?).local_set(1);
        Ok(code)
    }

    /// Generates an added function.
    pub(super) fn added(&self, name: &str) -> Result<Function, RewriteError> {
        match name {
            "release" => self.release(),
            "is_array" => Ok(self.is_array()),
            "is_index_to_narrow" => Ok(is_index_to_narrow()),
            "indices_fit" => self.indices_fit(),
            "can_cast_to_index" => self.can_cast_to_index(),
            "invalid_cast" => self.invalid_cast(),
            "converted_format" => self.converted_format(),
            "with_wide_indices" => self.with_wide_indices(),
            "is_order" => Ok(is_order()),
            "can_cast_to_loop" => self.can_cast_to_loop("PyArray_CanCastTypeTo", false),
            "can_cast_array_to_loop" => self.can_cast_to_loop("PyArray_CanCastArrayTo", true),
            _ => self.added_for_status(name),
        }
    }

    /// Releases a reference, like `Py_DECREF(object)`.
    fn release(&self) -> Result<Function, RewriteError> {
        let (object, count) = (0, 1);
        let dealloc = self.call("_Py_Dealloc")?;
        Ok(function(&[(1, ValType::I32)], |code| {
            code.local_get(object).i32_load(at(0)).local_tee(count).i32_const(LAST_MORTAL).i32_le_s();
            code.if_(BlockType::Empty);
            code.local_get(object).local_get(count).i32_const(1).i32_sub().local_tee(count).i32_store(at(0));
            code.local_get(count).i32_eqz().if_(BlockType::Empty).local_get(object).call(dealloc).end();
            code.end().end();
        }))
    }

    /// Returns `true` if an object is an array, which has numpy's function as its `bf_getbuffer`.
    fn is_array(&self) -> Function {
        let (object, buffer) = (0, 1);
        function(&[(1, ValType::I32)], |code| {
            code.local_get(object).i32_load(at(TYPE)).i32_load(at(TYPE_BUFFER)).local_tee(buffer);
            code.if_(BlockType::Result(ValType::I32));
            code.local_get(buffer).i32_load(at(0)).i32_const(self.array_slot).i32_eq();
            code.else_().i32_const(0).end().end();
        })
    }

    /// Returns `true` if all values of an integer array fit into 32 bits.
    fn indices_fit(&self) -> Result<Function, RewriteError> {
        let (array, left, value, seen) = (0, 1, 2, 3);
        let (type_of, convert) = (self.call("PyArray_DescrFromType")?, self.call("PyArray_FromArray")?);
        let (product, release) = (self.call("PyArray_MultiplyList")?, self.call("release")?);
        // A value that does not fit sets a bit at or above bit 32 of `seen`.
        let check = |code: &mut InstructionSink<'_>, at_once: i32| {
            code.block(BlockType::Empty).loop_(BlockType::Empty);
            code.local_get(left).i32_const(at_once).i32_lt_u().br_if(1).local_get(seen);
            for offset in (0..at_once).map(|nth| nth.unsigned_abs() * 8) {
                code.local_get(value).i64_load(at(offset.into())).i64_const(1 << 31).i64_add().i64_or();
            }
            code.local_set(seen).local_get(value).i32_const(at_once * 8).i32_add().local_set(value);
            code.local_get(left).i32_const(at_once).i32_sub().local_set(left).br(0).end().end();
        };
        Ok(function(&[(2, ValType::I32), (1, ValType::I64)], |code| {
            code.local_get(array).i32_const(WIDE).call(type_of).i32_const(PLAIN | FORCE_CAST).call(convert);
            code.local_tee(array).i32_eqz().if_(BlockType::Empty).i32_const(0).return_().end();
            code.local_get(array).i32_load(at(ARRAY_SHAPE)).local_get(array).i32_load(at(ARRAY_DIMENSIONS));
            code.call(product).local_set(left);
            code.local_get(array).i32_load(at(ARRAY_DATA)).local_set(value);
            check(code, 8);
            check(code, 1);
            code.local_get(array).call(release).local_get(seen).i64_const(32).i64_shr_u().i64_eqz().end();
        }))
    }

    /// Like `PyArray_CanCastArrayTo`, but also receives the flags of the conversion. Allows the conversion of
    /// wider integers to indices if the values fit.
    fn can_cast_to_index(&self) -> Result<Function, RewriteError> {
        let (array, target, casting, flags, known) = (0, 1, 2, 3, 4);
        let (can_cast, narrow) = (self.call("PyArray_CanCastArrayTo")?, self.call("is_index_to_narrow")?);
        let fit = self.call("indices_fit")?;
        Ok(function(&[(1, ValType::I32)], |code| {
            code.local_get(array).local_get(target).local_get(casting).call(can_cast).local_set(known);
            // Check the values only for `safe` and `same_kind` casting.
            code.local_get(target).i32_load(at(TYPE_NUMBER)).i32_const(NARROW).i32_ne();
            code.local_get(casting).i32_const(SAFE_CASTING).i32_sub().i32_const(1).i32_gt_u().i32_or();
            code.local_get(array).i32_load(at(ARRAY_TYPE)).call(narrow).i32_eqz().i32_or();
            // Reject unsigned 64-bit integers for `safe` casting to indices, as on other platforms.
            code.local_get(known).i32_eqz().local_get(array).i32_load(at(ARRAY_TYPE)).i32_load(at(TYPE_NUMBER));
            code.i32_const(UNSIGNED_WIDE).i32_eq().i32_and().i32_or();
            code.if_(BlockType::Empty).local_get(known).return_().end();
            // Do not check the values of an output array.
            code.local_get(flags).i32_const(1 << WRITE_BACK_SHIFT).i32_and();
            code.if_(BlockType::Empty).i32_const(1).return_().end();
            code.local_get(array).call(fit).end();
        }))
    }

    /// Wraps `npy_set_invalid_cast_error`. Raises `IndexError` if values are too large for an index.
    fn invalid_cast(&self) -> Result<Function, RewriteError> {
        let (source, target, casting, scalar) = (0, 1, 2, 3);
        let (invalid, narrow) = (self.call("npy_set_invalid_cast_error")?, self.call("is_index_to_narrow")?);
        let set_error = self.call("PyErr_SetString")?;
        Ok(function(&[], |code| {
            code.local_get(source).call(narrow).local_get(target).i32_load(at(TYPE_NUMBER)).i32_const(NARROW).i32_eq();
            code.i32_and().local_get(source).i32_load(at(TYPE_NUMBER)).i32_const(UNSIGNED_WIDE).i32_eq();
            code.local_get(casting).i32_const(SAFE_CASTING).i32_eq().i32_and().i32_eqz().i32_and();
            code.if_(BlockType::Empty);
            code.i32_const(0).i32_load(at(INDEX_ERROR)).i32_const(INDEX_MESSAGE).call(set_error).return_().end();
            code.local_get(source).local_get(target).local_get(casting).local_get(scalar).call(invalid).end();
        }))
    }

    /// Returns the format string for `__Pyx_BufFmt_CheckString` to check. If Cython expects indices but the last buffer
    /// has 64-bit integers, or the reverse, replaces the buffer with a converted copy.
    fn converted_format(&self) -> Result<Function, RewriteError> {
        let (context, format, last, view, array, info, name, copy, target) = (0, 1, 2, 3, 4, 5, 6, 7, 8);
        let (is_array, fit, release) = (self.call("is_array")?, self.call("indices_fit")?, self.call("release")?);
        let (type_of, convert) = (self.call("PyArray_DescrFromType")?, self.call("PyArray_FromArray")?);
        let (clear, end_buffer) = (self.call("PyErr_Clear")?, self.call("PyBuffer_Release")?);
        let get_buffer = self.call("array_getbuffer")?;
        Ok(function(&[(7, ValType::I32)], |code| {
            code.i32_const(0).i32_load(at(LAST_BUFFER)).local_set(last);
            code.block(BlockType::Empty);
            code.local_get(last).i32_eqz().br_if(0);
            code.local_get(last).i32_const(-2).i32_and().local_tee(view).i32_load(at(VIEW_FORMAT));
            code.local_get(format).i32_ne().br_if(0);
            code.local_get(view).i32_load(at(VIEW_OBJECT)).local_tee(array).i32_eqz().br_if(0);
            code.local_get(array).call(is_array).i32_eqz().br_if(0);
            code.local_get(context).i32_load(at(0)).local_tee(info).i32_load8_u(at(INFO_GROUP));
            code.i32_const(i32::from(b'I')).i32_ne().br_if(0); // signed integers
            code.local_get(info).i32_load(at(INFO_FIELDS)).br_if(0);
            code.local_get(info).i32_load(at(INFO_SIZE)).i32_const(8).i32_eq().if_(BlockType::Empty);
            type_number(code, array).i32_const(NARROW).i32_ne().br_if(1).i32_const(WIDE).local_set(target);
            code.else_();
            code.local_get(info).i32_load(at(INFO_SIZE)).i32_const(4).i32_ne().br_if(1);
            type_number(code, array).i32_const(WIDE).i32_ne().br_if(1).i32_const(NARROW).local_set(target);
            // Compare names: `intp_t`, `intptr_t`, `npy_intp`, `Py_ssize_t` and `long`, each optionally preceded by
            // `const`, but not `int` and `int32_t`.
            code.local_get(info).i32_load(at(0)).local_tee(name).i32_load(at(0)).i32_const(word(*b"cons")).i32_eq();
            code.if_(BlockType::Empty).local_get(name).i32_const(6).i32_add().local_set(name).end();
            begins(code, name, 0, *b"intp");
            begins(code, name, 0, *b"Py_s").i32_or();
            begins(code, name, 0, *b"npy_");
            begins(code, name, 4, *b"intp").i32_and().i32_or();
            begins(code, name, 0, *b"long");
            code.local_get(name).i32_load8_u(at(4)).i32_eqz().i32_and().i32_or().i32_eqz().br_if(1);
            // A writable buffer may be an output, whose values are not valid yet.
            code.local_get(last).i32_const(1).i32_and().i32_eqz().if_(BlockType::Empty);
            code.local_get(array).call(fit).i32_eqz().br_if(2).end();
            code.end();
            code.local_get(array).local_get(target).call(type_of);
            code.local_get(last).i32_const(1).i32_and().i32_const(WRITE_BACK_SHIFT).i32_shl();
            code.i32_const(FORCE_CAST).i32_or().call(convert).local_tee(copy).i32_eqz();
            code.if_(BlockType::Empty).call(clear).br(1).end();
            code.local_get(view).call(end_buffer);
            code.local_get(copy).local_get(view).local_get(last).i32_const(1).i32_and();
            code.i32_const(BUFFER_RECORDS).i32_or().call(get_buffer).local_get(copy).call(release);
            code.if_(BlockType::Empty).call(clear).br(1).end();
            code.local_get(view).i32_load(at(VIEW_FORMAT)).local_set(format);
            code.end().local_get(format).end();
        }))
    }

    /// Converts indices that numpy returns (arrays, scalars and tuples of arrays) to 64 bits. An array with a second
    /// reference is the caller's output array, and is returned unchanged.
    fn with_wide_indices(&self) -> Result<Function, RewriteError> {
        let (object, left, item, wide, kind) = (0, 1, 2, 3, 4);
        let (is_array, release) = (self.call("is_array")?, self.call("release")?);
        let (type_of, convert) = (self.call("PyArray_DescrFromType")?, self.call("PyArray_FromArray")?);
        let (to_scalar, again) = (self.call("PyArray_Scalar")?, self.call("with_wide_indices")?);
        Ok(function(&[(4, ValType::I32)], |code| {
            code.local_get(object).i32_eqz().if_(BlockType::Empty).i32_const(0).return_().end();
            code.local_get(object).call(is_array).if_(BlockType::Empty);
            type_number(code, object).i32_const(NARROW).i32_eq();
            code.local_get(object).i32_load(at(0)).i32_const(1).i32_eq().i32_and().if_(BlockType::Empty);
            code.local_get(object).i32_const(WIDE).call(type_of).i32_const(FORCE_CAST).call(convert).local_set(wide);
            code.local_get(object).call(release).local_get(wide).return_().end();
            code.local_get(object).return_().end();
            code.local_get(object).i32_load(at(TYPE)).i32_load(at(TYPE_FLAGS)).i32_const(TUPLE_FLAG).i32_and();
            code.if_(BlockType::Empty);
            code.local_get(object).i32_load(at(TUPLE_LENGTH)).local_set(left).local_get(object).local_set(item);
            code.block(BlockType::Empty).loop_(BlockType::Empty);
            code.local_get(left).i32_eqz().br_if(1);
            code.local_get(item).local_get(item).i32_load(at(TUPLE_ITEMS)).call(again).local_tee(wide);
            code.i32_store(at(TUPLE_ITEMS)).local_get(wide).i32_eqz().if_(BlockType::Empty);
            code.local_get(object).call(release).i32_const(0).return_().end();
            code.local_get(item).i32_const(4).i32_add().local_set(item);
            code.local_get(left).i32_const(1).i32_sub().local_set(left).br(0).end().end();
            code.local_get(object).return_().end();
            code.i32_const(NARROW)
                .call(type_of)
                .local_tee(kind)
                .i32_load(at(TYPE_SCALAR))
                .local_get(kind)
                .call(release);
            code.local_get(object).i32_load(at(TYPE)).i32_ne().if_(BlockType::Empty).local_get(object).return_().end();
            // Reserve 16 bytes on the C stack for the 64-bit value.
            code.global_get(0).i32_const(16).i32_sub().local_tee(item).global_set(0);
            code.local_get(item).local_get(object).i32_load(at(SCALAR_VALUE)).i64_extend_i32_s().i64_store(at(0));
            code.local_get(item)
                .i32_const(WIDE)
                .call(type_of)
                .local_tee(kind)
                .i32_const(0)
                .call(to_scalar)
                .local_set(wide);
            code.local_get(kind).call(release);
            code.local_get(item).i32_const(16).i32_add().global_set(0);
            code.local_get(object).call(release).local_get(wide).end();
        }))
    }

    /// Returns `true` if a type or array can be cast to the type of a ufunc's loop. A 64-bit order (see `is_order`)
    /// can be cast to `long`.
    fn can_cast_to_loop(&self, can_cast: &str, is_array: bool) -> Result<Function, RewriteError> {
        let (from, to, casting, ufunc, types) = (0, 1, 2, 3, 4);
        let (can_cast, is_order) = (self.call(can_cast)?, self.call("is_order")?);
        Ok(function(&[], |code| {
            code.local_get(from).local_get(to).local_get(casting).call(can_cast);
            code.if_(BlockType::Empty).i32_const(1).return_().end();
            code.local_get(from);
            if is_array {
                code.i32_load(at(ARRAY_TYPE));
            }
            code.local_get(to).local_get(ufunc).local_get(types).call(is_order).end();
        }))
    }

    /// Wraps `int f(PyObject *, Py_buffer *view, int flags)`. Records an array's buffer for the later check of its
    /// format.
    pub(super) fn get_buffer(&self, old: u32) -> Result<Function, RewriteError> {
        let (object, view, flags, failed, seen) = (0, 1, 2, 3, 4);
        let is_array = self.call("is_array")?;
        Ok(function(&[(2, ValType::I32)], |code| {
            code.local_get(object).local_get(view).local_get(flags).call(old).local_tee(failed).i32_eqz();
            code.if_(BlockType::Empty).local_get(object).call(is_array).if_(BlockType::Empty);
            code.local_get(view).local_get(flags).i32_const(1).i32_and().i32_or().local_set(seen).end().end();
            // Write the word only if it changes, so that a program without arrays keeps sharing the memory page with
            // the image.
            code.local_get(seen).i32_const(0).i32_load(at(LAST_BUFFER)).i32_ne().if_(BlockType::Empty);
            code.i32_const(0).local_get(seen).i32_store(at(LAST_BUFFER)).end();
            code.local_get(failed).end();
        }))
    }

    /// Wraps numpy's subscript parser. Converts parsed arrays of 64-bit integers to arrays of indices. If a value does
    /// not fit, raises `IndexError`, frees the parsed subscript and returns -1.
    pub(super) fn prepare_index(&self, old: u32) -> Result<Function, RewriteError> {
        let (indices, count, kinds, left, index, array, copy) = (3, 4, 9, 10, 11, 12, 13);
        let (narrow, release) = (self.call("is_index_to_narrow")?, self.call("release")?);
        let (type_of, convert) = (self.call("PyArray_DescrFromType")?, self.call("PyArray_FromArray")?);
        let rewind = |code: &mut InstructionSink<'_>| {
            code.local_get(count).i32_load(at(0)).local_set(left).local_get(indices).local_set(index);
            code.block(BlockType::Empty).loop_(BlockType::Empty).local_get(left).i32_eqz().br_if(1);
        };
        let next = |code: &mut InstructionSink<'_>| {
            code.local_get(index).i32_const(INDEX_BYTES).i32_add().local_set(index);
            code.local_get(left).i32_const(1).i32_sub().local_set(left).br(0).end().end();
        };
        Ok(function(&[(5, ValType::I32)], |code| {
            for parameter in 0..9 {
                code.local_get(parameter);
            }
            code.call(old).local_tee(kinds).i32_const(0).i32_lt_s();
            code.local_get(kinds).i32_const(FANCY).i32_and().i32_eqz().i32_or();
            code.if_(BlockType::Empty).local_get(kinds).return_().end();
            rewind(code);
            code.block(BlockType::Empty);
            code.local_get(index).i32_load(at(INDEX_KIND)).i32_const(FANCY).i32_ne().br_if(0);
            code.local_get(index).i32_load(at(0)).local_tee(array).i32_load(at(ARRAY_TYPE)).call(narrow);
            code.i32_eqz().br_if(0);
            code.local_get(array).i32_const(NARROW).call(type_of).i32_const(SAME_KIND_CASTING).call(convert);
            code.local_tee(copy).i32_eqz().br_if(2);
            code.local_get(array).call(release).local_get(index).local_get(copy).i32_store(at(0)).end();
            next(code);
            code.local_get(left).i32_eqz().if_(BlockType::Empty).local_get(kinds).return_().end();
            rewind(code);
            code.local_get(index).i32_load(at(0)).local_tee(array);
            code.if_(BlockType::Empty).local_get(array).call(release).end();
            next(code);
            code.i32_const(-1).end();
        }))
    }

    /// Wraps a function that Python calls. Converts the indices in its result to 64 bits.
    pub(super) fn return_indices(&self, old: u32, parameters: u32) -> Result<Function, RewriteError> {
        let wide = self.call("with_wide_indices")?;
        Ok(function(&[], |code| {
            for parameter in 0..parameters {
                code.local_get(parameter);
            }
            code.call(old).call(wide).end();
        }))
    }

    /// Wraps `f(self, args, count, keywords)` like [`Context::return_indices`], but does not convert the result if the
    /// first argument is an array.
    pub(super) fn return_sample(&self, old: u32) -> Result<Function, RewriteError> {
        let (arguments, count, result) = (1, 2, 4);
        let (is_array, wide) = (self.call("is_array")?, self.call("with_wide_indices")?);
        Ok(function(&[(1, ValType::I32)], |code| {
            for parameter in 0..4 {
                code.local_get(parameter);
            }
            code.call(old).local_set(result);
            code.local_get(count).if_(BlockType::Empty).local_get(arguments).i32_load(at(0)).call(is_array);
            code.if_(BlockType::Empty).local_get(result).return_().end().end();
            code.local_get(result).call(wide).end();
        }))
    }

    /// Wraps `f(self, args, count)` like [`Context::return_indices`], but does not convert the result if there is more
    /// than one argument.
    pub(super) fn return_where(&self, old: u32) -> Result<Function, RewriteError> {
        let (count, result) = (2, 3);
        let wide = self.call("with_wide_indices")?;
        Ok(function(&[(1, ValType::I32)], |code| {
            code.local_get(0).local_get(1).local_get(count).call(old).local_set(result);
            code.local_get(count).i32_const(1).i32_ne();
            code.if_(BlockType::Empty).local_get(result).return_().end();
            code.local_get(result).call(wide).end();
        }))
    }

    /// Wraps `int64_to_long(object)`. Returns an array unchanged, with its 64-bit values.
    pub(super) fn to_long(&self, old: u32) -> Result<Function, RewriteError> {
        let is_array = self.call("is_array")?;
        Ok(function(&[], |code| {
            code.local_get(0).call(is_array).if_(BlockType::Empty);
            code.local_get(0).local_get(0).i32_load(at(0)).i32_const(1).i32_add().i32_store(at(0));
            code.local_get(0).return_().end().local_get(0).call(old).end();
        }))
    }
}

/// Returns `true` if a type is an integer type whose values may be too large for an index.
fn is_index_to_narrow() -> Function {
    function(&[(1, ValType::I32)], |code| {
        code.local_get(0).i32_load(at(TYPE_NUMBER)).local_set(1);
        code.i32_const(TO_NARROW).local_get(1).i32_shr_u().i32_const(1).i32_and();
        code.local_get(1).i32_const(UNSIGNED_WIDE).i32_le_u().i32_and().end();
    })
}

/// `f(from, to, ufunc, types)`: returns `true` if a 64-bit integer is passed for the order parameter of a function
/// such as scipy's `eval_hermite(n, x)` or `lambertw(z, k)`. In such functions, exactly one of the loop's first two
/// types is `long`, and no loop of the ufunc has a 64-bit integer parameter.
fn is_order() -> Function {
    let (from, to, ufunc, types, left, loops) = (0, 1, 2, 3, 4, 5);
    function(&[(2, ValType::I32)], |code| {
        code.local_get(from).i32_load(at(TYPE_NUMBER)).i32_const(WIDE).i32_ne();
        code.local_get(to).i32_load(at(TYPE_NUMBER)).i32_const(NARROW).i32_ne().i32_or();
        code.local_get(types).i32_load(at(0)).i32_const(NARROW).i32_eq();
        code.local_get(types).i32_load(at(4)).i32_const(NARROW).i32_eq().i32_eq().i32_or();
        code.if_(BlockType::Empty).i32_const(0).return_().end();
        code.local_get(ufunc).i32_load(at(UFUNC_TYPES)).local_set(loops);
        code.local_get(ufunc).i32_load(at(UFUNC_ARGUMENTS)).local_get(ufunc).i32_load(at(UFUNC_LOOPS)).i32_mul();
        code.local_set(left).block(BlockType::Empty).loop_(BlockType::Empty).local_get(left).i32_eqz().br_if(1);
        code.local_get(left).i32_const(1).i32_sub().local_tee(left).local_get(loops).i32_add().i32_load8_u(at(0));
        code.i32_const(WIDE).i32_eq().if_(BlockType::Empty).i32_const(0).return_().end().br(0).end().end();
        code.i32_const(1).end();
    })
}

fn type_number<'a, 'b>(code: &'a mut InstructionSink<'b>, array: u32) -> &'a mut InstructionSink<'b> {
    code.local_get(array).i32_load(at(ARRAY_TYPE)).i32_load(at(TYPE_NUMBER))
}
