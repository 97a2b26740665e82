use std::fmt::Write as _;

use wasmparser::Validator;

use super::*;

/// Returns a module with all functions that are called or wrapped, two format checks, and one function to splice.
fn module() -> Vec<u8> {
    let mut text = String::from(
        "(module (memory 1) (table 9 funcref) (elem (i32.const 3) $array_getbuffer) (global (mut i32) (i32.const 64))",
    );
    let mut function = |name: &str, parameters: usize, result: bool| {
        let words = " i32".repeat(parameters);
        let (result, body) = if result { ("(result i32)", "i32.const 0") } else { ("", "") };
        writeln!(text, "(func ${name} (param{words}) {result} {body})").unwrap();
    };
    for name in code::CALLED.iter().chain(status::CALLED).filter(|name| !name.starts_with("pow")) {
        let (parameters, result) = match *name {
            name if status::CALLED.contains(&name) => (0, false),
            "PyErr_Clear" => (0, false),
            "PyBuffer_Release" | "_Py_Dealloc" => (1, false),
            "PyErr_SetString" => (2, false),
            "npy_set_invalid_cast_error" => (4, false),
            "PyArray_DescrFromType" => (1, true),
            "PyArray_MultiplyList" => (2, true),
            _ => (3, true),
        };
        function(name, parameters, result);
    }
    RETURN_INDICES.iter().chain(RETURN_SAMPLE).for_each(|name| function(name, 4, true));
    function(GET_BUFFER, 3, true);
    function(PREPARE_INDEX, 9, true);
    function(TO_LONG, 1, true);
    function(WHERE, 3, true);
    function(status::FETCH_MASK, 2, true);
    status::LOOPS.iter().for_each(|(name, _)| function(name, 4, false));
    text.push_str("(func $pow (param f64 f64) (result f64) local.get 0)");
    text.push_str("(func $powf (param f32 f32) (result f32) local.get 0)");
    text.push_str(
        r#"(func $check1 (@name "__Pyx_BufFmt_CheckString") (param i32 i32) (result i32) (local i64) local.get 1)
        (func $check2 (@name "__Pyx_BufFmt_CheckString(__Pyx_BufFmt_Context*, char const*)")
            (param i32 i32) (result i32) local.get 1)
        (func $spliced (result i32) i32.const 7 i32.const 5 i32.add))"#,
    );
    wat::parse_str(text).unwrap()
}

fn bodies(module: &[u8]) -> Vec<Vec<String>> {
    let sections = Sections::read(module).unwrap();
    let operators = |body| FunctionBody::new(BinaryReader::new(body, 0)).get_operators_reader().unwrap();
    let text = |body| operators(body).into_iter().map(|operator| format!("{:?}", operator.unwrap())).collect();
    bodies_of(&sections).unwrap().into_iter().map(text).collect()
}

fn error(module: &[u8], splices: &[Splice]) -> String {
    widen_with(module, splices).unwrap_err().to_string()
}

#[test]
fn added_code_is_valid_and_calls_the_old_functions() {
    let before = module();
    let after = widen_with(&before, &[]).unwrap();
    Validator::new().validate_all(&after).unwrap();
    let (old, new) = (bodies(&before), bodies(&after));
    let wrapped = RETURN_INDICES.len() + RETURN_SAMPLE.len() + WRAPPED.len() + status::LOOPS.len();
    let added = code::ADDED.len() + status::ADDED.len();
    assert_eq!(new.len(), old.len() + added + wrapped);
    let first = code::CALLED.len() + status::CALLED.len() - 2;
    let moved_to = old.len() + added;
    assert!(new[first].contains(&format!("Call {{ function_index: {moved_to} }}")), "{:?}", new[first]);
    assert_eq!(new[moved_to], old[first]);
    let converted = old.len() + code::ADDED.iter().position(|name| *name == "converted_format").unwrap();
    for check in [old.len() - 3, old.len() - 2] {
        let call = format!("Call {{ function_index: {converted} }}");
        let prefix =
            ["LocalGet { local_index: 0 }", "LocalGet { local_index: 1 }", &call, "LocalSet { local_index: 1 }"];
        assert_eq!(new[check][..4], prefix);
        assert_eq!(new[check][4..], old[check]);
    }
    let sections = Sections::read(&after).unwrap();
    assert!(sections.names().is_some(), "the recipe's names are looked up later");
    let before = module();
    let globals = |sections: &Sections<'_>| sections.globals().unwrap().len();
    assert_eq!(globals(&sections), globals(&Sections::read(&before).unwrap()), "the rewrite must not add globals");
}

#[test]
fn splice_requires_exactly_one_match() {
    let splice = |old, new| [Splice::new("spliced", old, new)];
    let after = widen_with(&module(), &splice("41 07 41", "41 09 41")).unwrap();
    let spliced = &bodies(&after)[bodies(&module()).len() - 1];
    assert_eq!(spliced[0], "I32Const { value: 9 }");
    let after = widen_with(&module(), &splice("41 05 6a", "10 {check1} 6a"));
    assert!(after.unwrap_err().to_string().contains("`check1`"), "no function has this name");
    for old in ["41 08", "41"] {
        let problem = error(&module(), &splice(old, "41 09"));
        assert!(problem.contains("`spliced` has unexpected code"), "{problem}");
    }
}

#[test]
fn unknown_binary_error_names_the_function() {
    assert!(error(&wat::parse_str("(module (func $f))").unwrap(), &[]).contains("no function named `"));
    let problem = error(&module(), SPLICES);
    assert!(problem.contains("no function named `"), "{problem}");
    let twice = r#"(module (func (@name "PyErr_Clear")) (func (@name "PyErr_Clear")))"#;
    assert!(error(&wat::parse_str(twice).unwrap(), &[]).contains("several functions named `PyErr_Clear`"));
}

#[test]
fn all_splices_can_be_encoded() {
    let names = SPLICES.iter().flat_map(Splice::calls).chain(SPLICES.iter().map(|splice| splice.function));
    let functions = names.map(|name| (name.to_owned(), 1)).collect();
    for splice in SPLICES {
        let problem = apply(&[], &[splice], &functions).unwrap_err();
        assert!(matches!(problem, RewriteError::UnexpectedCode(name) if name == splice.function));
        splice.encoded(&functions).unwrap();
    }
}
