//! Makes QuickJS-NG 0.17 report where calls begin, and name the callee in errors. In all supported versions, fixes
//! repeated imports of modules that waited for another module's `await`.
//!
//! The compiler records a source position before some instructions, but not before call instructions, which therefore
//! have the position of their last argument. This module changes the parser of calls to store the position at which a
//! call begins, and to record it before the call instruction. As in V8, a call begins at one of the following:
//!
//! * the name of the called variable or property, or `super`;
//! * `new`;
//! * the parenthesis or template, if another expression is called.
//!
//! The changed parser also records the positions of property accesses, destructuring patterns, spread elements of
//! arrays, `this` and the end of a derived constructor. The position of the current call is stored in the parser's
//! stack frame.
//!
//! The boot scripts define a function, the namer, which returns an error message with the name of a value. The engine
//! calls the namer if a callee is not a function or constructor, a value is not iterable, or `undefined` or `null` is
//! destructured. The module gets a new global, [`NAMER`], which contains the address of the namer's value, or zero.
//!
//! The changes apply only to specific binaries. If a function's code is not the expected code, the error names the
//! function. Comments on Rust functions that emit code describe the emitted code.

mod splices;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, Function, FunctionSection, GlobalSection, GlobalType, InstructionSink, MemArg,
    SectionId, ValType,
};

use super::{
    RewriteError, Splice, apply, by_function,
    exports::{function_indices, type_count},
    function_wrappers::{bodies_of, defined_functions},
    index_of, no_room,
    sections::{SectionChange, Sections, entries, extended_section},
};
use splices::{COMPLETIONS, FULFILLED, SPLICES};

/// The export name of the global with the address of the namer's value.
pub(super) const NAMER: &str = "__callee_namer";

/// Names and encoded types of the added functions, in order.
const ADDED: &[(&str, &[u8])] = &[
    ("mark", &[0x60, 2, 0x7f, 0x7f, 0]),
    ("record", &[0x60, 2, 0x7f, 0x7f, 0]),
    ("begin_expression", &[0x60, 2, 0x7f, 0x7f, 0]),
    ("begin_call", &[0x60, 3, 0x7f, 0x7f, 0x7f, 0]),
    ("record_property", &[0x60, 2, 0x7f, 0x7f, 0]),
    ("record_call", &[0x60, 2, 0x7f, 0x7f, 0]),
    ("record_token", &[0x60, 1, 0x7f, 0]),
    ("throw_named", &[0x60, 3, 0x7f, 0x7e, 0x7f, 1, 0x7f]),
    ("throw_uncallable", &[0x60, 3, 0x7f, 0x7e, 0x7f, 0]),
    ("iterator_method", &[0x60, 5, 0x7f, 0x7e, 0x7f, 0x7e, 0x7f, 1, 0x7e]),
];

/// The functions of the binary that the added functions call.
const CALLED: &[&str] = &[
    "emit_source_loc_at",
    "JS_Call",
    "JS_FreeCString",
    "JS_FreeValue",
    "JS_GetPropertyInternal",
    "JS_NewArrayBufferCopy",
    "JS_ThrowTypeError",
    "JS_ThrowTypeErrorNotAConstructor",
    "JS_ToCStringLen2",
];

/// The offset of the call's line in the parser's frame. A call without a position has line 0.
const CALL_LINE: u64 = 112;
/// The offset of the call's column in the parser's frame.
const CALL_COLUMN: u64 = 116;

// Offsets in `JSParseState`.
const TOKEN_KIND: u64 = 24;
const TOKEN_LINE: u64 = 28;
const TOKEN_COLUMN: u64 = 32;
const TOKEN_TEXT: u64 = 36;
const LINE_START: u64 = 84;
const PARSED_FUNCTION: u64 = 96;

/// Tokens at which a call can begin: `TOK_IDENT`, `TOK_NEW` and `TOK_SUPER`.
const NAMED_TOKENS: [i32; 3] = [-125, -74, -50];

// Offsets in `JSContext`, `JSRuntime`, `JSStackFrame` and `JSObject`.
const RUNTIME: u64 = 8;
const CURRENT_FRAME: u64 = 652;
const FRAME_FUNCTION: u64 = 8;
const FRAME_FUNCTION_TAG: u64 = 12;
const FRAME_PC: u64 = 28;
const CLASS: u64 = 10;
const FUNCTION_CODE: u64 = 24;

/// The class IDs of functions with bytecode: plain, generator, asynchronous, and asynchronous generator.
const CLASSES: [i32; 4] = [13, 17, 55, 59];

// Offsets in `JSFunctionBytecode`: the code, the variables and the variables of outer functions, and their lengths.
const CODE: u64 = 12;
const CODE_BYTES: u64 = 16;
const VARIABLES: u64 = 24;
const OUTER_VARIABLES: u64 = 28;
const ARGUMENT_COUNT: u64 = 32;
const VARIABLE_COUNT: u64 = 34;
const OUTER_COUNT: u64 = 42;

/// The size of `JSVarDef`.
const VARIABLE_BYTES: i32 = 20;
/// The size of `JSClosureVar`.
const OUTER_BYTES: i32 = 8;

// The tags of a `JSValue`, in its upper half.
const OBJECT: i32 = -1;
const NULL_TAG: i64 = 2;
const UNDEFINED_TAG: i64 = 3;
const EXCEPTION: i64 = 6;
const UNDEFINED: i64 = 3 << 32;

/// The address of the string "not a function".
const NOT_A_FUNCTION: i32 = 9368;
/// The address of the string "%s".
const TEXT_FORMAT: i32 = 6111;

/// The index of the global with the C stack pointer.
const STACK_POINTER: u32 = 0;
/// The offsets of the namer's arguments.
const ARGUMENTS: [u64; 7] = [0, 8, 16, 24, 32, 40, 48];
/// The size of the stack area for the namer's arguments, in bytes. Must be a multiple of 16.
const ARGUMENT_BYTES: i32 = 64;

/// The error kind "not iterable". The splices and `callee.js` also use kind 0 if the callee is not a function, 1 if the
/// callee is not a constructor, and 3 if `undefined` or `null` is converted to an object.
const NOT_ITERABLE: i32 = 2;

/// Applies the changes that record positions and name callees. Preserves custom sections.
pub(super) fn locate_calls(module: &[u8]) -> Result<Vec<u8>, RewriteError> {
    locate_calls_with(module, SPLICES)
}

fn locate_calls_with(module: &[u8], splices: &[Splice]) -> Result<Vec<u8>, RewriteError> {
    let sections = Sections::read(module)?;
    let counts = sections.counts()?;
    let is_added = |name: &str| ADDED.iter().any(|(added, _)| *added == name);
    let mut wanted: BTreeSet<&str> = CALLED.iter().copied().collect();
    for splice in splices {
        wanted.insert(splice.function);
        wanted.extend(splice.calls().filter(|name| !is_added(name)));
    }
    let mut functions = function_indices(&sections, &wanted)?;
    let mut next = counts.functions;
    for (name, _) in ADDED {
        functions.insert((*name).to_owned(), next);
        next = next.checked_add(1).ok_or_else(no_room)?;
    }
    let spliced = by_function(splices, &functions)?;
    let (mut types, mut bodies) = (FunctionSection::new(), CodeSection::new());
    let defined = defined_functions(&sections)?;
    let imported = counts.functions.saturating_sub(u32::try_from(defined.len()).unwrap_or(u32::MAX));
    for ((index, type_index), body) in (imported..).zip(defined).zip(bodies_of(&sections)?) {
        types.function(type_index);
        match spliced.get(&index) {
            Some(splices) => bodies.raw(&apply(body, splices, &functions)?),
            None => bodies.raw(body),
        };
    }
    let first_type = type_count(&sections)?;
    let mut signatures = Vec::new();
    let context = Context { functions: &functions, namer: counts.globals };
    for (nth, (name, signature)) in (0u32..).zip(ADDED) {
        signatures.extend_from_slice(signature);
        types.function(first_type.checked_add(nth).ok_or_else(no_room)?);
        bodies.function(&context.added(name)?);
    }
    let added = u32::try_from(ADDED.len()).map_err(|_| no_room())?;
    let mut globals = GlobalSection::new();
    globals.global(GlobalType { val_type: ValType::I32, mutable: true, shared: false }, &ConstExpr::i32_const(0));
    Ok(sections.rebuild_all(vec![
        SectionChange::to(extended_section(&sections, SectionId::Type, added, &signatures)?),
        SectionChange::to(types),
        SectionChange::to(extended_section(&sections, SectionId::Global, 1, &entries(&globals)?)?),
        SectionChange::to(bodies),
    ]))
}

/// Applies the change that completes modules which waited for another module. Preserves custom sections.
pub(super) fn complete_modules(module: &[u8]) -> Result<Vec<u8>, RewriteError> {
    let sections = Sections::read(module)?;
    let functions = function_indices(&sections, &BTreeSet::from([FULFILLED]))?;
    let changed = index_of(&functions, FULFILLED)?;
    let bodies = bodies_of(&sections)?;
    let imported = sections.counts()?.functions.saturating_sub(u32::try_from(bodies.len()).unwrap_or(u32::MAX));
    let mut code = CodeSection::new();
    for (index, body) in (imported..).zip(bodies) {
        if index == changed {
            code.raw(&completed(body, &functions)?);
        } else {
            code.raw(body);
        }
    }
    Ok(sections.rebuild_all(vec![SectionChange::to(code)]))
}

/// Applies the first of [`COMPLETIONS`] that matches the code of [`FULFILLED`].
fn completed(body: &[u8], functions: &BTreeMap<String, u32>) -> Result<Vec<u8>, RewriteError> {
    let mut attempts = COMPLETIONS.iter().map(|splice| apply(body, &[splice], functions));
    attempts.find(Result::is_ok).unwrap_or_else(|| Err(RewriteError::UnexpectedCode(FULFILLED.to_owned())))
}

fn at(offset: u64) -> MemArg {
    MemArg { offset, align: 2, memory_index: 0 }
}

fn short(offset: u64) -> MemArg {
    MemArg { offset, align: 1, memory_index: 0 }
}

fn long(offset: u64) -> MemArg {
    MemArg { offset, align: 3, memory_index: 0 }
}

/// The indices that the added functions refer to.
struct Context<'a> {
    functions: &'a BTreeMap<String, u32>,
    /// The index of the namer's global.
    namer: u32,
}

impl Context<'_> {
    fn call(&self, name: &str) -> Result<u32, RewriteError> {
        index_of(self.functions, name)
    }

    fn added(&self, name: &str) -> Result<Function, RewriteError> {
        if name == "throw_named" {
            return self.throw_named();
        }
        let mut function = Function::new([]);
        let mut code = function.instructions();
        match name {
            "mark" => mark(&mut code),
            "record" => self.record(&mut code)?,
            "begin_expression" => self.begin_expression(&mut code)?,
            "begin_call" => self.begin_call(&mut code)?,
            "record_property" => {
                code.local_get(0).local_get(1).call(self.call("mark")?);
                code.local_get(0).local_get(1).call(self.call("record")?);
            }
            "record_call" => {
                code.local_get(1).i32_load(at(CALL_LINE)).if_(BlockType::Empty);
                code.local_get(0).local_get(1).call(self.call("record")?);
                code.local_get(1).i32_const(0).i32_store(at(CALL_LINE)).end();
            }
            "throw_uncallable" => self.throw_uncallable(&mut code)?,
            "iterator_method" => self.iterator_method(&mut code)?,
            "record_token" => {
                let state = 0;
                code.local_get(state).i32_load(at(PARSED_FUNCTION)).local_get(state).i32_load(at(TOKEN_LINE));
                token_column(&mut code);
                code.call(self.call("emit_source_loc_at")?);
            }
            _ => return Err(RewriteError::NoFunction(name.to_owned())),
        }
        code.end();
        Ok(function)
    }

    /// Records the position stored in the frame.
    fn record(&self, code: &mut InstructionSink<'_>) -> Result<(), RewriteError> {
        let (state, frame) = (0, 1);
        code.local_get(state).i32_load(at(PARSED_FUNCTION));
        code.local_get(frame).i32_load(at(CALL_LINE)).local_get(frame).i32_load(at(CALL_COLUMN));
        code.call(self.call("emit_source_loc_at")?);
        Ok(())
    }

    /// Stores the position of the current token if a call can begin there. Otherwise, clears the position.
    fn begin_expression(&self, code: &mut InstructionSink<'_>) -> Result<(), RewriteError> {
        let (state, frame) = (0, 1);
        code.local_get(frame).i32_const(0).i32_store(at(CALL_LINE));
        for (nth, token) in NAMED_TOKENS.into_iter().enumerate() {
            code.local_get(state).i32_load(at(TOKEN_KIND)).i32_const(token).i32_eq();
            if nth > 0 {
                code.i32_or();
            }
        }
        code.if_(BlockType::Empty).local_get(state).local_get(frame).call(self.call("mark")?).end();
        Ok(())
    }

    /// Stores the position of the current token if the call has no position yet, follows `?.`, or is a tagged template.
    fn begin_call(&self, code: &mut InstructionSink<'_>) -> Result<(), RewriteError> {
        let (state, frame, is_plain) = (0, 1, 2);
        code.local_get(is_plain).i32_eqz().local_get(frame).i32_load(at(CALL_LINE)).i32_eqz().i32_or();
        code.if_(BlockType::Empty).local_get(state).local_get(frame).call(self.call("mark")?).end();
        Ok(())
    }

    /// Throws the namer's error, or the engine's own error if the namer returns no message.
    fn throw_uncallable(&self, code: &mut InstructionSink<'_>) -> Result<(), RewriteError> {
        let (context, callee, constructs) = (0, 1, 2);
        code.local_get(context).local_get(callee).local_get(constructs).call(self.call("throw_named")?);
        code.if_(BlockType::Empty).return_().end();
        code.local_get(constructs).if_(BlockType::Empty);
        code.local_get(context).local_get(callee).call(self.call("JS_ThrowTypeErrorNotAConstructor")?);
        code.else_();
        code.local_get(context).i32_const(NOT_A_FUNCTION).i32_const(0).call(self.call("JS_ThrowTypeError")?).drop();
        code.end();
        Ok(())
    }

    /// Returns the iterator method of a value, like `JS_GetPropertyInternal`. For `undefined` and `null`, throws the
    /// namer's error if the namer returns a message.
    fn iterator_method(&self, code: &mut InstructionSink<'_>) -> Result<(), RewriteError> {
        let (context, object) = (0, 1);
        for (nth, tag) in [NULL_TAG, UNDEFINED_TAG].into_iter().enumerate() {
            code.local_get(object).i64_const(32).i64_shr_u().i64_const(tag).i64_eq();
            if nth > 0 {
                code.i32_or();
            }
        }
        code.if_(BlockType::Empty);
        code.local_get(context).local_get(object).i32_const(NOT_ITERABLE).call(self.call("throw_named")?);
        code.if_(BlockType::Empty).i64_const(EXCEPTION << 32).return_().end().end();
        for argument in 0..5 {
            code.local_get(argument);
        }
        code.call(self.call("JS_GetPropertyInternal")?);
        Ok(())
    }

    /// Calls the namer with a description of the running function: its bytecode, its variables, the outer functions'
    /// variables, the offset of the instruction and the number of arguments. Also passes the error kind and the value.
    /// Throws an error with the message that the namer returns. Returns 0 if the running function has no bytecode or
    /// the namer returns no message. Returns 1 if an exception was thrown.
    fn throw_named(&self) -> Result<Function, RewriteError> {
        let (context, value, kind) = (0, 1, 2);
        let (namer, frame, object, bytecode, arguments, text, result) = (3, 4, 5, 6, 7, 8, 9);
        let mut function = Function::new([(6, ValType::I32), (1, ValType::I64)]);
        let mut code = function.instructions();
        let (copy, free) = (self.call("JS_NewArrayBufferCopy")?, self.call("JS_FreeValue")?);
        let throw = self.call("JS_ThrowTypeError")?;
        code.block(BlockType::Empty);
        code.global_get(self.namer).local_tee(namer).i32_eqz().br_if(0);
        code.local_get(context).i32_load(at(RUNTIME)).i32_load(at(CURRENT_FRAME)).local_tee(frame).i32_eqz().br_if(0);
        code.local_get(frame).i32_load(at(FRAME_FUNCTION_TAG)).i32_const(OBJECT).i32_ne().br_if(0);
        code.local_get(frame).i32_load(at(FRAME_FUNCTION)).local_set(object);
        for (nth, class) in CLASSES.into_iter().enumerate() {
            code.local_get(object).i32_load16_u(short(CLASS)).i32_const(class).i32_eq();
            if nth > 0 {
                code.i32_or();
            }
        }
        code.i32_eqz().br_if(0);
        code.local_get(frame).i32_load(at(FRAME_PC)).i32_eqz().br_if(0);
        code.local_get(object).i32_load(at(FUNCTION_CODE)).local_set(bytecode);
        code.global_get(STACK_POINTER).i32_const(ARGUMENT_BYTES).i32_sub().local_tee(arguments);
        code.global_set(STACK_POINTER);
        let [code_at, variables_at, outer_at, offset_at, count_at, kind_at, value_at] = ARGUMENTS;
        let restore = |code: &mut InstructionSink<'_>| {
            code.local_get(arguments).i32_const(ARGUMENT_BYTES).i32_add().global_set(STACK_POINTER);
        };

        code.local_get(arguments).local_get(context);
        code.local_get(bytecode).i32_load(at(CODE)).local_get(bytecode).i32_load(at(CODE_BYTES));
        code.call(copy).i64_store(long(code_at));
        code.local_get(arguments).local_get(context).local_get(bytecode).i32_load(at(VARIABLES));
        code.local_get(bytecode).i32_load16_u(short(ARGUMENT_COUNT));
        code.local_get(bytecode).i32_load16_u(short(VARIABLE_COUNT)).i32_add().i32_const(VARIABLE_BYTES).i32_mul();
        code.call(copy).i64_store(long(variables_at));
        code.local_get(arguments).local_get(context).local_get(bytecode).i32_load(at(OUTER_VARIABLES));
        code.local_get(bytecode).i32_load16_u(short(OUTER_COUNT)).i32_const(OUTER_BYTES).i32_mul();
        code.call(copy).i64_store(long(outer_at));
        // The `JSValue` of a small integer is the integer itself.
        code.local_get(arguments).local_get(frame).i32_load(at(FRAME_PC)).local_get(bytecode).i32_load(at(CODE));
        code.i32_sub().i32_const(1).i32_sub().i64_extend_i32_u().i64_store(long(offset_at));
        code.local_get(arguments).local_get(bytecode).i32_load16_u(short(ARGUMENT_COUNT)).i64_extend_i32_u();
        code.i64_store(long(count_at));
        code.local_get(arguments).local_get(kind).i64_extend_i32_u().i64_store(long(kind_at));
        code.local_get(arguments).local_get(value).i64_store(long(value_at));

        // Clear the global, so that an error inside the namer cannot call the namer again.
        code.i32_const(0).global_set(self.namer);
        code.local_get(context).local_get(namer).i64_load(long(0)).i64_const(UNDEFINED);
        code.i32_const(i32::try_from(ARGUMENTS.len()).map_err(|_| no_room())?).local_get(arguments);
        code.call(self.call("JS_Call")?).local_set(result);
        code.local_get(namer).global_set(self.namer);
        for offset in [code_at, variables_at, outer_at] {
            code.local_get(context).local_get(arguments).i64_load(long(offset)).call(free);
        }
        code.local_get(result).i64_const(32).i64_shr_u().i64_const(EXCEPTION).i64_eq();
        code.if_(BlockType::Empty);
        restore(&mut code);
        code.i32_const(1).return_().end();
        code.local_get(result).i64_const(UNDEFINED).i64_ne().if_(BlockType::Empty);
        code.local_get(context).i32_const(0).local_get(result).i32_const(0).call(self.call("JS_ToCStringLen2")?);
        code.local_set(text).local_get(context).local_get(result).call(free);
        code.local_get(text).if_(BlockType::Empty);
        code.local_get(arguments).local_get(text).i32_store(at(0));
        code.local_get(context).i32_const(TEXT_FORMAT).local_get(arguments).call(throw).drop();
        code.local_get(context).local_get(text).call(self.call("JS_FreeCString")?);
        restore(&mut code);
        code.i32_const(1).return_().end().end();
        restore(&mut code);
        code.end().i32_const(0).end();
        Ok(function)
    }
}

/// Stores the position of the current token in the frame.
fn mark(code: &mut InstructionSink<'_>) {
    let (state, frame) = (0, 1);
    code.local_get(frame).local_get(state).i32_load(at(TOKEN_LINE)).i32_store(at(CALL_LINE));
    code.local_get(frame);
    token_column(code);
    code.i32_store(at(CALL_COLUMN));
}

/// Computes the column of the current token. Local 0 is the parser state. The tokenizer counts columns only for some
/// tokens, so the column is computed from the start of the line. A token that spans lines begins before the current
/// line, and has the tokenizer's column.
fn token_column(code: &mut InstructionSink<'_>) {
    let state = 0;
    let text_and_start = |code: &mut InstructionSink<'_>| {
        code.local_get(state).i32_load(at(TOKEN_TEXT)).local_get(state).i32_load(at(LINE_START));
    };
    text_and_start(code);
    code.i32_ge_u().if_(BlockType::Result(ValType::I32));
    text_and_start(code);
    code.i32_sub().i32_const(1).i32_add().else_();
    code.local_get(state).i32_load(at(TOKEN_COLUMN)).end();
}
