//! Gives functions a frame on the C stack.
//!
//! An interpreter that counts nested calls by how much of its C stack is taken does not count a function that keeps everything in
//! locals: a structure of enough levels then exhausts the native stack, which traps, instead of raising an exception.

use std::collections::BTreeSet;

use wasm_encoder::{CodeSection, Function, FunctionSection, SectionId};
use wasmparser::{BinaryReader, CodeSectionReader, CompositeInnerType, Payload, ValType};

use super::RewriteError;
use super::sections::{Changed, Sections, bound};

/// What each call takes. The C stack is aligned by 16 bytes.
const FRAME_BYTES: i32 = 64;

/// Puts in the place of each function one that takes a frame, calls the old one, and gives the frame back. The old ones become new
/// functions at the end, so that all indices stay valid. Where an exception leaves the old one, whoever catches it resets the stack
/// pointer, as for any other function.
pub(super) fn frame(module: &[u8], functions: &BTreeSet<u32>, stack_pointer: u32) -> Result<Vec<u8>, RewriteError> {
    let sections = Sections::read(module)?;
    let total = sections.counts()?.functions;
    let pointer = usize::try_from(stack_pointer).ok().and_then(|at| sections.globals().ok()?.get(at).copied());
    if !pointer.is_some_and(|global| global.mutable && global.content_type == ValType::I32) {
        return Err(unsupported(format!("its global {stack_pointer} is no stack pointer")));
    }
    let parameters = parameter_counts(&sections)?;
    let (mut types, mut bodies) = (FunctionSection::new(), CodeSection::new());
    let mut moved = Vec::new();
    let defined = defined_functions(&sections)?;
    let imported = total.saturating_sub(u32::try_from(defined.len()).unwrap_or(u32::MAX));
    for ((index, type_index), body) in (imported..).zip(defined).zip(bodies_of(&sections)?) {
        types.function(type_index);
        if !functions.contains(&index) {
            bodies.raw(body);
            continue;
        }
        let old = u32::try_from(moved.len()).ok().and_then(|nth| total.checked_add(nth));
        let old = old.ok_or_else(|| unsupported("it has no room for another function"))?;
        let parameters = usize::try_from(type_index).ok().and_then(|at| parameters.get(at).copied().flatten());
        let parameters = parameters.ok_or_else(|| unsupported(format!("its function {index} has no type")))?;
        bodies.function(&framed_call(old, parameters, stack_pointer));
        moved.push((type_index, body));
    }
    if moved.len() != functions.len() {
        return Err(unsupported("a function that is to have a frame is not its own"));
    }
    for (type_index, body) in moved {
        types.function(type_index);
        bodies.raw(body);
    }
    Ok(sections.rebuild(vec![Changed::to(types), Changed::to(bodies)]))
}

fn framed_call(function: u32, parameters: u32, stack_pointer: u32) -> Function {
    let mut framed = Function::new([]);
    let mut body = framed.instructions();
    body.global_get(stack_pointer).i32_const(FRAME_BYTES).i32_sub().global_set(stack_pointer);
    for parameter in 0..parameters {
        body.local_get(parameter);
    }
    body.call(function);
    body.global_get(stack_pointer).i32_const(FRAME_BYTES).i32_add().global_set(stack_pointer).end();
    framed
}

/// For each type the number of parameters, if it is a function's.
fn parameter_counts(sections: &Sections<'_>) -> Result<Vec<Option<u32>>, RewriteError> {
    let mut counts = Vec::new();
    for section in &sections.0 {
        let Payload::TypeSection(groups) = &section.payload else { continue };
        for group in groups.clone() {
            for found in group?.types() {
                bound(counts.len(), "types")?;
                counts.push(match &found.composite_type.inner {
                    CompositeInnerType::Func(function) => u32::try_from(function.params().len()).ok(),
                    _ => None,
                });
            }
        }
    }
    Ok(counts)
}

/// The types of the functions that the module defines itself.
fn defined_functions(sections: &Sections<'_>) -> Result<Vec<u32>, RewriteError> {
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

/// Their bodies, without their lengths.
fn bodies_of<'a>(sections: &Sections<'a>) -> Result<Vec<&'a [u8]>, RewriteError> {
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
    use std::collections::BTreeMap;

    use wasmparser::{FunctionBody, Validator};

    use super::super::with_exports;
    use super::*;
    use crate::ExportList;

    /// `f` returns where the stack pointer is, as does `f` called through the table.
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

    /// The instructions of each function.
    fn functions(module: &[u8]) -> Vec<Vec<String>> {
        let sections = Sections::read(module).unwrap();
        let bodies = bodies_of(&sections).unwrap().into_iter();
        let operators =
            bodies.map(|body| FunctionBody::new(BinaryReader::new(body, 0)).get_operators_reader().unwrap());
        operators.map(|reader| reader.into_iter().map(|op| format!("{:?}", op.unwrap())).collect()).collect()
    }

    #[test]
    fn a_framed_function_takes_and_gives_back_its_frame_around_the_old_one() {
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
        assert_eq!(others, expected, "calls name functions by the indices that they had");
    }

    #[test]
    fn what_is_not_a_function_of_the_module_is_refused_by_name() {
        assert!(framed("absent").unwrap_err().contains("`absent`"));
        assert!(framed("other").unwrap_err().contains("not its own"));
    }

    #[test]
    fn a_frame_needs_a_stack_pointer() {
        let mut list = ExportList { framed: vec!["f".to_owned()], ..ExportList::default() };
        let error = |list: &ExportList, module: &str| {
            with_exports(&wat::parse_str(module).unwrap(), list).unwrap_err().to_string()
        };
        assert!(error(&list, MODULE).contains("__stack_pointer"));
        list.globals.insert("__stack_pointer".to_owned(), 0);
        for other in ["(global $sp i32 (i32.const 0))", "(global $sp (mut i64) (i64.const 0))"] {
            let module = format!("(module {other} (func $f))");
            assert!(error(&list, &module).contains("no stack pointer"), "{other}");
        }
    }
}
