//! The changes within functions of QuickJS-NG.

use super::super::Splice;

/// The name of the function that parses calls, array literals and `this`.
const PARSER: &str = "js_parse_postfix_expr";
/// The name of the function that parses destructuring patterns.
const PATTERN_PARSER: &str = "js_parse_destructuring_element";
/// The name of the function that compiles the end of a function and `return`.
const RETURN: &str = "emit_return";
/// The name of the function that performs calls.
const CALL: &str = "JS_CallInternal";
/// The name of the function that calls constructors.
const CONSTRUCT: &str = "JS_CallConstructorInternal";
/// The name of the function that returns the iterator of a value.
const ITERATOR: &str = "JS_GetIterator";
/// The name of the function that converts a value to an object.
const OBJECT: &str = "JS_ToObject";
/// The name of the function that implements `apply`.
const APPLY: &str = "js_function_apply";

/// The name of the function that runs after a module's promise is fulfilled. The function evaluates the modules that
/// waited for the promise.
pub(super) const FULFILLED: &str = "js_async_module_execution_fulfilled";

/// Changes to [`FULFILLED`], one for each supported binary: 0.17 and 0.11. The changes clear `async_evaluation` of a
/// module that waited, as the engine does for a module with its own `await`. In the original code, later importers of
/// such a module wait forever.
pub(super) const COMPLETIONS: &[Splice] = &[
    Splice::new(FULFILLED, "20 09 41 05 3a 00 5f", "20 09 41 05 3a 00 5f 20 09 41 00 3a 00 7c"),
    Splice::new(FULFILLED, "20 09 41 05 3a 00 57", "20 09 41 05 3a 00 57 20 09 41 00 3a 00 74"),
];

/// Changes that record positions and name callees. In the parser, local 0 is the parser state and local 2 the stack
/// frame.
pub(super) const SPLICES: &[Splice] = &[
    // Enlarges the frame from 112 to 128 bytes.
    Splice::new(
        PARSER,
        "41 f0 00 6b 22 02 24 80 80 80 80 00",
        "41 80 01 6b 22 02 24 80 80 80 80 00 20 00 20 02 10 {begin_expression}",
    ),
    Splice::new(PARSER, "20 02 41 f0 00 6a 24", "20 02 41 80 01 6a 24"),
    // Records the call of `new X` without arguments: `dup`, `call_constructor`.
    Splice::new(
        PARSER,
        "41 11 10 {emit_op} 20 04 28 02 00 41 21 10 {emit_op}",
        "41 11 10 {emit_op} 20 00 20 02 10 {record_call} 20 04 28 02 00 41 21 10 {emit_op}",
    ),
    // Stores the position of a call's parenthesis. Local 1 is 0 after `?.`.
    Splice::new(
        PARSER,
        "02 40 20 00 10 {next_token} 45 0d 00 41 7f 21 04 0c 0a 0b 41 00 21 0a",
        "02 40 20 00 20 02 20 01 10 {begin_call} 20 00 10 {next_token} 45 0d 00 41 7f 21 04 0c 0a 0b 41 00 21 0a",
    ),
    // Stores the position of a tagged template, for which local 10 is 1. For other calls, the position is already
    // stored.
    Splice::new(
        PARSER,
        "41 00 21 07 0b 20 00 10 {emit_source_loc} 41 00 21 08",
        "41 00 21 07 0b 20 00 20 02 20 0a 45 10 {begin_call} 20 00 10 {emit_source_loc} 41 00 21 08",
    ),
    // Records a call after its arguments. The first splice changes calls with spread arguments (`...`), the second
    // changes calls without them.
    Splice::new(
        PARSER,
        "20 00 28 02 60 41 0e 10 {emit_op} 02 40 02 40 02 40 02 40 20 08",
        "20 00 20 02 10 {record_call} 20 00 28 02 60 41 0e 10 {emit_op} 02 40 02 40 02 40 02 40 20 08",
    ),
    Splice::new(
        PARSER,
        "0c 08 0b 02 40 02 40 02 40 02 40 20 08 41 4e 6a",
        "0c 08 0b 20 00 20 02 10 {record_call} 02 40 02 40 02 40 02 40 20 08 41 4e 6a",
    ),
    // Records the position of the name after `.` or `?.`.
    Splice::new(
        PARSER,
        "21 08 0b 02 40 02 40 20 08 41 a9 7f 47",
        "21 08 0b 20 00 20 02 10 {record_property} 02 40 02 40 20 08 41 a9 7f 47",
    ),
    // Clears the position at a property in brackets, so that a call of the property begins at its parenthesis.
    Splice::new(
        PARSER,
        "41 7f 21 04 20 00 10 {next_token} 0d 03 20 00 41 01 10 {js_parse_assign_expr2}",
        "41 7f 21 04 20 02 41 00 36 02 70 20 00 10 {next_token} 0d 03 20 00 41 01 10 {js_parse_assign_expr2}",
    ),
    // Records the position of a destructuring pattern before the pattern's code, because the value's code follows it.
    Splice::new(
        PATTERN_PARSER,
        "41 c0 00 6b 22 07 24 80 80 80 80 00",
        "41 c0 00 6b 22 07 24 80 80 80 80 00 20 00 10 {record_token}",
    ),
    // For a spread element of an array, stores the position of the element's value in the frame, 8 bytes after the
    // call's position. Records the position before `append`.
    Splice::new(
        PARSER,
        "0d 0b 41 d1 00 21 07 20 00 41 01 10 {js_parse_assign_expr2} 45 0d 01 0c 0b",
        "0d 0b 20 00 20 02 41 08 6a 10 {mark} 41 d1 00 21 07 20 00 41 01 10 {js_parse_assign_expr2} 0d 0b \
         20 00 20 02 41 08 6a 10 {record} 0c 01",
    ),
    // Records the position of `this`, because reading it before `super()` throws an error.
    Splice::new(
        PARSER,
        "02 40 20 00 10 {next_token} 45 0d 00 41 7f 21 04 0c 0d 0b 20 00 41 e0 00 6a 22 04 28 02 00 41 bd 01",
        "20 00 10 {record_token} 02 40 20 00 10 {next_token} 45 0d 00 41 7f 21 04 0c 0d 0b \
         20 00 41 e0 00 6a 22 04 28 02 00 41 bd 01",
    ),
    // Records the position of the last token before a derived constructor returns `this`.
    Splice::new(
        RETURN,
        "20 03 28 02 24 22 02 41 80 80 02 71 45 0d 00",
        "20 03 28 02 24 22 02 41 80 80 02 71 45 0d 00 20 03 20 00 28 02 04 20 00 28 02 08 10 {emit_source_loc_at}",
    ),
    // Replaces the errors "not a function" and "not a constructor".
    Splice::new(CALL, "20 00 41 {@9368} 41 00 10 {JS_ThrowTypeError} 1a", "20 00 20 01 41 00 10 {throw_uncallable}"),
    Splice::new(APPLY, "20 00 41 {@9368} 41 00 10 {JS_ThrowTypeError} 1a", "20 00 20 01 41 00 10 {throw_uncallable}"),
    Splice::new(
        CONSTRUCT,
        "20 00 41 {@9368} 41 00 10 {JS_ThrowTypeError} 1a",
        "20 00 20 01 41 01 10 {throw_uncallable}",
    ),
    Splice::new(
        CONSTRUCT,
        "20 00 20 01 10 {JS_ThrowTypeErrorNotAConstructor}",
        "20 00 20 01 41 01 10 {throw_uncallable}",
    ),
    // Names `undefined` and `null` in errors of `for`-`of`, array patterns and spread elements.
    Splice::new(
        ITERATOR,
        "41 e4 01 20 01 41 00 10 {JS_GetPropertyInternal} 22 03 42 80 80 80 80 70 83 42 80 80 80 80 e0 00 51 0d 06",
        "41 e4 01 20 01 41 00 10 {iterator_method} 22 03 42 80 80 80 80 70 83 42 80 80 80 80 e0 00 51 0d 06",
    ),
    Splice::new(
        CALL,
        "41 e4 01 20 0b 41 00 10 {JS_GetPropertyInternal} 22 0b",
        "41 e4 01 20 0b 41 00 10 {iterator_method} 22 0b",
    ),
    // Throws "value is not iterable" only if the namer returns no message.
    Splice::new(
        ITERATOR,
        "20 00 41 {@14184} 41 00 10 {JS_ThrowTypeError} 1a",
        "20 00 20 01 41 02 10 {throw_named} 45 04 40 20 00 41 {@14184} 41 00 10 {JS_ThrowTypeError} 1a 0b",
    ),
    // Throws "Cannot convert undefined or null to object" only if the namer returns no message.
    Splice::new(
        OBJECT,
        "20 00 41 {@4274} 41 00 10 {JS_ThrowTypeError} 1a",
        "20 00 20 01 41 03 10 {throw_named} 45 04 40 20 00 41 {@4274} 41 00 10 {JS_ThrowTypeError} 1a 0b",
    ),
];
