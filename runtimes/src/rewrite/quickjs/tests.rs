//! Tests of the added functions and of the splices.

use std::fmt::Write as _;

use wasmparser::{BinaryReader, FunctionBody, Validator};

use super::*;

/// Returns a module with all functions that the added code calls, and one function to splice.
fn module() -> Vec<u8> {
    let mut text =
        String::from("(module (memory 1) (global $stack (mut i32) (i32.const 64)) (global f64 (f64.const 0))");
    for name in CALLED {
        let signature = match *name {
            "JS_Call" => "(param i32 i64 i64 i32 i32) (result i64) i64.const 0",
            "JS_FreeValue" | "JS_ThrowTypeErrorNotAConstructor" => "(param i32 i64)",
            "JS_FreeCString" => "(param i32 i32)",
            "emit_source_loc_at" => "(param i32 i32 i32)",
            "JS_GetPropertyInternal" => "(param i32 i64 i32 i64 i32) (result i64) i64.const 0",
            "JS_ToCStringLen2" => "(param i32 i32 i64 i32) (result i32) i32.const 0",
            _ => "(param i32 i32 i32) (result i64) i64.const 0",
        };
        writeln!(text, "(func ${name} {signature})").unwrap();
    }
    text.push_str("(func $spliced (param i32 i32) local.get 0 local.get 1 i32.const 7 drop drop drop))");
    wat::parse_str(text).unwrap()
}

fn bodies(module: &[u8]) -> Vec<Vec<String>> {
    let sections = Sections::read(module).unwrap();
    let operators = |body| FunctionBody::new(BinaryReader::new(body, 0)).get_operators_reader().unwrap();
    let text = |body| operators(body).into_iter().map(|operator| format!("{:?}", operator.unwrap())).collect();
    bodies_of(&sections).unwrap().into_iter().map(text).collect()
}

#[test]
fn added_code_is_valid_and_the_global_is_zero() {
    let before = module();
    let after = locate_calls_with(&before, &[]).unwrap();
    Validator::new().validate_all(&after).unwrap();
    let (old, new) = (bodies(&before), bodies(&after));
    assert_eq!(new[..old.len()], old[..]);
    assert_eq!(new.len(), old.len() + ADDED.len());
    let sections = Sections::read(&after).unwrap();
    let globals = sections.globals().unwrap();
    assert!(globals.len() == 3 && globals[2].mutable && globals[2].content_type == wasmparser::ValType::I32);
    assert!(sections.names().is_some(), "the recipe's names are looked up later");
}

#[test]
fn spliced_code_calls_the_added_functions() {
    let splice = Splice::new("spliced", "41 07 1a", "20 00 20 01 10 {record_call} 41 07 1a");
    let after = locate_calls_with(&module(), &[splice]).unwrap();
    Validator::new().validate_all(&after).unwrap();
    let position = ADDED.iter().position(|(name, _)| *name == "record_call").unwrap();
    let index = CALLED.len() + 1 + position;
    assert_eq!(bodies(&after)[CALLED.len()][4], format!("Call {{ function_index: {index} }}"));
}

#[test]
fn modules_that_waited_are_completed_in_both_binaries() {
    for (status, flag) in [(95, 124), (87, 116)] {
        let store = format!("(i32.store8 offset={status} (local.get 9) (i32.const 5))");
        let locals = "i32 ".repeat(10);
        let text = format!("(module (memory 1) (func) (func ${FULFILLED} (local {locals}) {store}))");
        let after = complete_modules(&wat::parse_str(&text).unwrap()).unwrap();
        Validator::new().validate_all(&after).unwrap();
        let code = &bodies(&after)[1];
        assert_eq!(code.len(), 7, "{code:?}");
        assert!(code[5].starts_with("I32Store8") && code[5].contains(&format!("offset: {flag}")), "{code:?}");
    }
    let problem = complete_modules(&module()).unwrap_err().to_string();
    assert!(problem.contains("no function named `"), "{problem}");
    let other = wat::parse_str(format!("(module (func ${FULFILLED}))")).unwrap();
    let problem = complete_modules(&other).unwrap_err().to_string();
    assert!(problem.contains("has unexpected code"), "{problem}");
}

#[test]
fn unknown_binary_error_names_the_function() {
    let problem = locate_calls(&module()).unwrap_err().to_string();
    assert!(problem.contains("no function named `"), "{problem}");
    let problem = locate_calls(&wat::parse_str("(module (func $f))").unwrap()).unwrap_err().to_string();
    assert!(problem.contains("no function named `"), "{problem}");
    let splice = Splice::new("spliced", "41 08 1a", "1a");
    let problem = locate_calls_with(&module(), &[splice]).unwrap_err().to_string();
    assert!(problem.contains("`spliced` has unexpected code"), "{problem}");
}

#[test]
fn all_splices_can_be_encoded() {
    let splices = || SPLICES.iter().chain(COMPLETIONS);
    let names = splices().flat_map(Splice::calls).chain(splices().map(|splice| splice.function));
    let functions = names.map(|name| (name.to_owned(), 1)).collect();
    for splice in splices() {
        splice.encoded(&functions).unwrap();
    }
}
