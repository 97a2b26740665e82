//! Tests components that implement tools incorrectly, and applications that would answer their own calls.

use glovebox::Sandbox;
use glovebox_component_runner::{AppConfig, AppLimits, Applications, LoadError, ToolsComponent};
use glovebox_tests::{
    engine,
    process::{in_child, peak_resident_bytes, resident_bytes},
    puppet::component,
};

use super::{LONG, MIB, assert_others_work, chain};

/// Builds a tool provider with the given imports and bodies of `list` and `call`.
fn provider(imports: &str, list: &str, call: &str) -> Vec<u8> {
    let core = format!(
        r#"(module
        {imports}
        (memory (export "memory") 2)
        (data (i32.const 1024) "\00\08\00\00\01\00\00\00")
        (data (i32.const 2048) "a")
        (func (export "glovebox:sandbox/tools@0.2.0#list-tools") (result i32)
            (i32.store (i32.const 16) (i32.const 1024)) (i32.store (i32.const 20) (i32.const 1)) {list} (i32.const 16))
        (func (export "glovebox:sandbox/tools@0.2.0#call") (param i32 i32 i32 i32) (result i32)
            (i32.store (i32.const 32) (i32.const 0)) {call} (i32.const 32))
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 65536)))"#
    );
    let world = if imports.is_empty() { "" } else { "import glovebox:sandbox/sandbox@0.2.0;" };
    component(&format!("{world} export glovebox:sandbox/tools@0.2.0;"), &core)
}

fn load(bytes: &[u8]) -> Result<ToolsComponent, LoadError> {
    let mut config = AppConfig::default();
    config.limits = AppLimits::for_tools();
    config.limits.fuel = 100_000_000;
    ToolsComponent::load_bytes(&Applications::new(engine()).unwrap(), "tools", bytes, config)
}

#[test]
fn tool_provider_gets_no_sandbox() {
    let imports = r#"(import "glovebox:sandbox/sandbox@0.2.0" "info" (func $info (param i32)))"#;
    let refused = load(&provider(imports, "(call $info (i32.const 4096))", "")).unwrap_err();
    let LoadError::MissingImport { import, .. } = &refused else { panic!("{refused:?}") };
    assert_eq!(import, "glovebox:sandbox/sandbox@0.2.0");
}

#[test]
fn invalid_tool_lists_are_reported_on_loading() {
    if !in_child("hostile_applications::tool_providers::invalid_tool_lists_are_reported_on_loading", LONG) {
        return;
    }
    assert_others_work();
    let before = resident_bytes();
    let len = |len: &str| format!("(i32.store (i32.const 20) (i32.const {len}))");
    let lists = [
        ("unreachable".into(), "unreachable"),
        ("(loop $again (br $again))".into(), "out of fuel"),
        ("(return (i32.const 17))".into(), "aligned"),
        ("(return (i32.const -16))".into(), "out of bounds"),
        (len("0xfffffff"), "out of bounds"),
        (len("-1"), "out of bounds"),
        ("(drop (memory.grow (i32.const 3500)))".to_owned() + &len("3000000"), "hostcalls"),
        ("(i32.store (i32.const 1028) (i32.const 0x10000000))".into(), "out of bounds"),
        ("(i32.store8 (i32.const 1040) (i32.const 2))".into(), "discriminant"),
        ("(i32.store8 (i32.const 2048) (i32.const 255))".into(), "utf-8"),
    ];
    for (list, words) in lists {
        let Err(error) = load(&provider("", &list, "")) else { panic!("{list} was accepted") };
        assert!(chain(&error).contains(words), "{list}: {}", chain(&error));
    }
    let grown = peak_resident_bytes().saturating_sub(before);
    assert!(grown < 256 * MIB, "the host grew by {} MiB", grown / MIB);
    assert_others_work();
}

#[test]
fn invalid_tool_answers_fail_cheaply_in_the_script() {
    if !in_child("hostile_applications::tool_providers::invalid_tool_answers_fail_cheaply_in_the_script", LONG) {
        return;
    }
    assert_others_work();
    let before = resident_bytes();
    let text = |pointer: &str, len: &str| {
        format!("(i32.store (i32.const 36) (i32.const {pointer})) (i32.store (i32.const 40) (i32.const {len}))")
    };
    let grow = "(if (i32.eq (memory.grow (i32.const 3000)) (i32.const -1)) (then unreachable))";
    let answers = [
        text("0", "0x40000000"),
        text("-1", "1"),
        text("131071", "2"),
        // The result fits into the component's memory, but exceeds the maximum size of a call's result.
        grow.to_owned() + &text("4096", "0x0a000000"),
        // The component's memory limit prevents growth by a gigabyte, so the component traps.
        "(if (i32.eq (memory.grow (i32.const 16384)) (i32.const -1)) (then unreachable))".into(),
        "(return (i32.const 33))".into(),
        "(return (i32.const -4))".into(),
        "(i32.store8 (i32.const 32) (i32.const 9))".into(),
        "unreachable".into(),
        "(loop $again (br $again))".into(),
        text("0", "0"),
        // The result consists of zeros, which are not JSON.
        text("4096", "1000"),
    ];
    for answer in answers {
        let tools = load(&provider("", "", &answer)).unwrap();
        let mut builder = Sandbox::builder(engine());
        for tool in tools.tools() {
            builder = builder.tool(tool);
        }
        let script = "try:\n    print(tools.a())\nexcept tools.ToolError:\n    print('failed')\nprint('alive')";
        let execution = builder.build().unwrap().execute(script).unwrap();
        assert_eq!(execution.stdout.text(), "failed\nalive\n", "{answer}: {}", execution.stderr.text());
    }
    let grown = peak_resident_bytes().saturating_sub(before);
    assert!(grown < 512 * MIB, "the host grew by {} MiB", grown / MIB);
    assert_others_work();
}
