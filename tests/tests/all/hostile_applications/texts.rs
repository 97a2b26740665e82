//! Tests WAVE calls that are nested too deeply or too long.

use glovebox_component_runner::AppConfig;
use glovebox_tests::process::in_child;

use super::{LONG, chain, world};

const APP: &str = r#"(component
    (type $l0 (list u8))
    (type $l1 (list $l0))
    (core module $m
        (memory (export "memory") 1)
        (func (export "f") (param i32 i32))
        (func (export "realloc") (param i32 i32 i32 i32) (result i32)
            (drop (memory.grow (i32.add (i32.shr_u (local.get 3) (i32.const 16)) (i32.const 1))))
            (i32.sub (i32.shl (memory.size) (i32.const 16))
                (i32.and (i32.add (local.get 3) (i32.const 7)) (i32.const -8)))))
    (core instance $i (instantiate $m))
    (alias core export $i "memory" (core memory $mem))
    (alias core export $i "realloc" (core func $realloc))
    (func (export "f") (param "p" $l1) (canon lift (core func $i "f") (memory $mem) (realloc $realloc))))"#;

#[test]
fn deeply_nested_and_unterminated_texts_are_errors() {
    if !in_child("hostile_applications::texts::deeply_nested_and_unterminated_texts_are_errors", LONG) {
        return;
    }
    let world = world();
    let application = world.applications.load_bytes("app", &wat::parse_str(APP).unwrap()).unwrap();
    let call = |text: &str| {
        let ended = application.invoke(text, &world.host, &AppConfig::default());
        ended.map(|ended| ended.outcome).map_err(|error| chain(&error).len())
    };
    assert!(call("f([[1, 2], []])").is_ok());
    assert!(call(&format!("f([[{}]])", "1,".repeat(500_000))).is_ok(), "large inputs below the limit are accepted");
    let deep = 1_000_000;
    for open in ["[", "(", "{a: ", "some(", "a(", "{a: [", "\"\\u{"] {
        assert!(call(&format!("f({}", open.repeat(deep))).is_err(), "{open}");
    }
    for (open, close) in [("[", "]"), ("(", ")"), ("some(", ")")] {
        assert!(call(&format!("f({}1{})", open.repeat(deep), close.repeat(deep))).is_err(), "{open}");
    }
    for text in
        ["f(", "f()", "f", "(", "", "f([[256]])", "f([[-1]])", "f([[1]]) f([[1]])", "f([[1]]\0)", &"f".repeat(deep)]
    {
        assert!(call(text).is_err(), "{}", text.chars().take(20).collect::<String>());
    }
}
