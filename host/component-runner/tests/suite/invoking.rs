//! Tests calls to exports in WAVE, and components that cannot be loaded.

use std::{fmt::Write as _, fs};

use glovebox::{Limits, Sandbox, ToolOutcome, json_weight};
use glovebox_component_runner::{
    AppConfig, AppLimits, AppOutcome, Applications, InvokeError, LoadError, RunError, ToolsComponent,
};

use crate::support::{component, config, prepared, probe, world};

/// A component that exports a top-level function, an interface in two versions, another interface with a function of
/// the same name, and types.
const APP: &str = r#"
(component
  (type $point' (record (field "x" s32) (field "y" s32) (field "label" (option string))))
  (type $shade' (enum "light" "dark"))
  (core module $code
    (memory (export "memory") 1)
    (global $next (mut i32) (i32.const 1024))
    (func (export "realloc") (param i32 i32 i32 i32) (result i32)
      (local $at i32)
      (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
      (global.set $next (i32.add (local.get $at) (local.get 3)))
      (local.get $at))
    (func (export "one") (result i32) (i32.const 1))
    (func (export "two") (result i32) (i32.const 2))
    (func (export "move") (param i32 i32 i32 i32 i32) (result i32)
      (i32.store (i32.const 16) (local.get 0))
      (i32.store (i32.const 20) (local.get 1))
      (i32.store (i32.const 24) (local.get 2))
      (i32.store (i32.const 28) (local.get 3))
      (i32.store (i32.const 32) (local.get 4))
      (i32.const 16))
    (func (export "invert") (param i32) (result i32) (i32.xor (local.get 0) (i32.const 1)))
    (func (export "check") (param i32) (result i32) (i32.eqz (local.get 0)))
    (func (export "nothing"))
    (func (export "make") (result i32) (i32.const 1)))
  (core instance $c (instantiate $code))
  (alias core export $c "memory" (core memory $mem))
  (alias core export $c "realloc" (core func $realloc))
  (export $point "point" (type $point'))
  (export $shade "shade" (type $shade'))
  (func (export "move") (param "p" $point) (result $point)
    (canon lift (core func $c "move") (memory $mem) (realloc $realloc)))
  (func (export "invert") (param "of" $shade) (result $shade) (canon lift (core func $c "invert")))
  (func (export "check") (param "good" bool) (result (result)) (canon lift (core func $c "check")))
  (func (export "nothing") (canon lift (core func $c "nothing")))
  (func $one (result u32) (canon lift (core func $c "one")))
  (func $two (result u32) (canon lift (core func $c "two")))
  (instance $first (export "get" (func $one)) (export "only" (func $one)))
  (instance $second (export "get" (func $two)))
  (export "a:b/first@1.2.3" (instance $first))
  (export "a:b/second@1.2.3" (instance $second))
  (type $thing' (resource (rep i32)))
  (export $thing "thing" (type $thing'))
  (core func $new (canon resource.new $thing'))
  (core module $maker (import "" "new" (func $new (param i32) (result i32)))
    (func (export "make") (result i32) (call $new (i32.const 7))))
  (core instance $k (instantiate $maker (with "" (instance (export "new" (func $new))))))
  (func (export "make") (result (own $thing)) (canon lift (core func $k "make"))))
"#;

fn invoke(call: &str) -> Result<(AppOutcome, Option<String>), InvokeError> {
    let world = world();
    let application = world.applications.load_bytes("app", &component(APP)).unwrap();
    let ended = application.invoke(call, &world.host, &AppConfig::default())?;
    Ok((ended.outcome, ended.value))
}

#[test]
fn arguments_and_results_are_text() {
    let table = [
        ("move({x: -1, y: 2, label: some(\"a b\")})", "{x: -1, y: 2, label: some(\"a b\")}"),
        ("move({x: 1, y: 2})", "{x: 1, y: 2}"),
        (" invert ( light )", "dark"),
        ("check(true)", "ok"),
    ];
    for (call, expected) in table {
        assert_eq!(invoke(call).unwrap(), (AppOutcome::Returned, Some(expected.to_owned())), "{call}");
    }
    assert_eq!(invoke("nothing()").unwrap(), (AppOutcome::Returned, None));
    assert_eq!(invoke("check(false)").unwrap(), (AppOutcome::Failed, Some("err".into())));
}

#[test]
fn interface_function_is_found_by_full_and_short_names() {
    for name in ["a:b/first@1.2.3.get", "a:b/first.get@1.2.3", "a:b/first.get", "first.get", "first@1.2.3.get", "only"]
    {
        assert_eq!(invoke(&format!("{name}()")).unwrap().1.as_deref(), Some("1"), "{name}");
    }
    assert_eq!(invoke("second.get()").unwrap().1.as_deref(), Some("2"));
    let error = invoke("get()").unwrap_err();
    assert_eq!(error.to_string(), "`get` is ambiguous; use one of `a:b/first@1.2.3.get`, `a:b/second@1.2.3.get`");
}

#[test]
fn uncallable_function_error_lists_the_callable() {
    for (call, beginning) in [
        ("get", "`get` is not a call; write it as"),
        ("", "`` is not a call"),
        ("(1)", "`(1)` is not a call"),
        ("third.get()", "`app` exports no function `third.get`"),
        ("make()", "cannot invoke `make`: its parameters or result contain a type without a textual form"),
        ("move()", "`move: func(p: record { x: s32, y: s32, label: option<string> }) -> record { "),
        ("move({x: 1})", "`move: "),
        ("invert(grey)", "`invert: func(of: enum { light, dark }) -> enum { light, dark }` does not accept `(grey)`"),
        ("invert(light) x", "`invert: "),
        ("check(1)", "`check: "),
    ] {
        let error = invoke(call).unwrap_err();
        assert!(error.to_string().starts_with(beginning), "{call}: {error}");
    }
    let Err(InvokeError::NoSuchFunction { exports, .. }) = invoke("none()") else {
        panic!("the component exports no such function")
    };
    let names: Vec<_> = exports.iter().map(|export| (export.name.as_str(), export.is_invocable)).collect();
    let expected = [
        ("a:b/first@1.2.3.get", true),
        ("a:b/first@1.2.3.only", true),
        ("a:b/second@1.2.3.get", true),
        ("check", true),
        ("invert", true),
        ("make", false),
        ("move", true),
        ("nothing", true),
    ];
    assert_eq!(names, expected);
}

#[test]
fn long_signature_is_truncated() {
    // Each type contains the previous one twice, so the text of the last one would contain `u8` 65,536 times.
    let mut text = "(component (type $t0 (tuple u8 u8))\n".to_owned();
    for at in 1..16 {
        text += &format!("(type $t{at} (tuple $t{0} $t{0}))\n", at - 1);
    }
    text += "(core module $m (memory (export \"m\") 1) (func (export \"r\") (param i32 i32 i32 i32) (result i32) unreachable)
        (func (export \"f\") (param i32)))
      (core instance $i (instantiate $m))
      (alias core export $i \"m\" (core memory $mem))
      (alias core export $i \"r\" (core func $realloc))
      (func (export \"f\") (param \"it\" $t15)
        (canon lift (core func $i \"f\") (memory $mem) (realloc $realloc))))";
    let world = world();
    let application = world.applications.load_bytes("app", &component(&text)).unwrap();
    let signature = &application.exports()[0].signature;
    assert!(signature.len() < 500 && signature.ends_with('…'), "{signature}");
    let error = application.invoke("f((1, 2))", &world.host, &AppConfig::default()).unwrap_err();
    assert!(error.to_string().contains("more than 1,000 types"), "{error}");
}

#[test]
fn non_component_error_states_the_file_format() {
    let world = world();
    let load = |bytes: &[u8]| world.applications.load_bytes("x.wasm", bytes).unwrap_err();
    for bytes in [&b""[..], b"\0as", b"\0asm", b"#!/bin/sh", b"\0asm\x0d\0\x07\0"] {
        assert!(matches!(load(bytes), LoadError::NotWasm { .. }), "{bytes:?}");
    }
    assert!(matches!(load(b"\0asm\x01\0\0\0"), LoadError::CoreModule { .. }));
    assert!(matches!(load(b"\0asm\x0d\0\x01\0\xff"), LoadError::Compile { .. }));
    let missing = world.applications.load("/no/such/file.wasm").unwrap_err();
    assert_eq!(missing.to_string(), "cannot read `/no/such/file.wasm`");
}

#[test]
fn missing_import_error_names_the_import() {
    let world = world();
    let load = |import: &str, what: &str| {
        let bytes = component(&format!("(component (import \"{import}\" (instance {what})))"));
        world.applications.load_bytes("app", &bytes)
    };
    let function = "(export \"f\" (func))";
    for import in
        ["wasi:http/types@0.2.0", "a:b/c@1.0.0", "wasi:cli/run@0.3.0", "glovebox:sandbox/sandbox@0.1.0", "odd"]
    {
        let Err(LoadError::MissingImport { import: named, .. }) = load(import, function) else { panic!("{import}") };
        assert_eq!(named, import);
    }
    // The host need not provide an import that contains only types.
    load("a:b/types@1.0.0", "(type $t u8) (export \"t\" (type (eq $t)))").unwrap();
    // The host provides this import, but with a different type.
    let Err(LoadError::Link { reason, .. }) = load("wasi:cli/exit@0.2.0", function) else {
        panic!("the type of the import differs")
    };
    assert!(reason.contains("`f`"), "{reason}");
}

#[test]
fn missing_command_error_lists_the_exports() {
    let (world, application) = probe();
    assert!(!application.is_command());
    let Err(RunError::NotACommand { exports, .. }) = application.run(&world.host, &AppConfig::default()) else {
        panic!("the component is not a command")
    };
    assert!(exports.iter().any(|export| export.signature == "add: func(a: u32, b: u32) -> u32"));
}

#[test]
fn command_result_determines_success() {
    for (returned, is_success) in [(0, true), (1, false)] {
        let world = world();
        let text = format!(
            "(component
              (core module $m (func (export \"run\") (result i32) (i32.const {returned})))
              (core instance $i (instantiate $m))
              (func $run (result (result)) (canon lift (core func $i \"run\")))
              (instance $run (export \"run\" (func $run)))
              (export \"wasi:cli/run@0.2.3\" (instance $run)))"
        );
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("app.wasm");
        fs::write(&path, component(&text)).unwrap();
        let ended = world.applications.load(&path).unwrap().run(&world.host, &AppConfig::default()).unwrap();
        assert_eq!((ended.outcome.is_success(), ended.value), (is_success, None));
    }
}

const OBJECT: &str = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;

/// Returns the provider in `fixtures/tools.wat`, with `listed` tools and this schema.
fn provider(listed: usize, schema: &str) -> Vec<u8> {
    let mut length = String::new();
    for byte in u32::try_from(schema.len()).unwrap().to_le_bytes() {
        write!(length, "\\{byte:02x}").unwrap();
    }
    let text = include_str!("../fixtures/tools.wat").replace("LISTED", &listed.to_string());
    component(&text.replace("SCHEMA_LENGTH", &length).replace("SCHEMA", &schema.replace('"', "\\\"")))
}

fn limits() -> AppConfig {
    config(|config| config.limits = AppLimits::for_tools())
}

/// Runs a script with the provider's tools. Returns its output and the outcomes of its calls.
fn run(script: &str, config: AppConfig) -> (String, Vec<ToolOutcome>) {
    try_run(script, config).unwrap()
}

/// Like `run`, but fails if the provider cannot be loaded within the limits.
fn try_run(script: &str, config: AppConfig) -> Result<(String, Vec<ToolOutcome>), LoadError> {
    let engine = prepared();
    let applications = Applications::new(&engine).unwrap();
    let tools = ToolsComponent::load_bytes(&applications, "tools", &provider(7, OBJECT), config)?;
    let mut limits = Limits::default();
    (limits.timeout_ms, limits.tool_timeout_ms) = (120_000, 60_000);
    let mut builder = Sandbox::builder(&engine).limits(limits);
    for tool in tools.tools() {
        builder = builder.tool(tool);
    }
    let execution = builder.build().unwrap().execute(script).unwrap();
    assert!(execution.is_success(), "{}", execution.stderr.text());
    let outcomes = execution.tool_calls.into_iter().map(|call| call.outcome).collect();
    Ok((execution.stdout.text(), outcomes))
}

#[test]
fn scripts_call_tools_and_see_each_result() {
    let script = "
def ask(name, **arguments):
    try:
        print(name, getattr(tools, name)(**arguments))
    except Exception as error:
        print(name, type(error).__name__, error)
ask('echo', n=1)
ask('echo', n='x')
ask('fail')
ask('crash')
ask('junk')
ask('want')
ask('count')
ask('count')
ask('echo', n=2)
";
    let (stdout, outcomes) = run(script, config(|config| config.limits.memory_bytes = 1 << 20));
    let lines: Vec<_> = stdout.lines().collect();
    assert_eq!(lines[0], "echo {'n': 1}");
    assert!(lines[1].starts_with("echo InvalidArguments "), "{}", lines[1]);
    let expected = [
        "fail ToolTimeout no such city",
        "crash ToolError the tool trapped",
        "junk ToolError the result is not JSON: expected value at line 1 column 1",
        "want ToolLimit the tool ran out of memory",
        "count 1",
        "count 1",
        "echo {'n': 2}",
    ];
    assert_eq!(lines[2..], expected, "each call has a new instance");
    assert_eq!(outcomes.len(), 9);
}

#[test]
fn long_tool_call_ends_at_its_fuel_and_time_limits() {
    let script = "
for call in [tools.spin, tools.count]:
    try:
        print(call())
    except Exception as error:
        print(type(error).__name__, error)
";
    let (stdout, _) = run(script, config(|config| config.limits.fuel = 100_000));
    assert_eq!(stdout, "ToolLimit the tool ran out of fuel\n1\n");
    // On a slow machine, a short limit also ends calls that should succeed.
    let timed_out = [50, 1_000, 20_000].into_iter().any(|timeout_ms| {
        let limited = config(|config| (config.limits.timeout_ms, config.limits.fuel) = (timeout_ms, 1 << 50));
        let ran = try_run(script, limited);
        ran.is_ok_and(|(stdout, _)| stdout == "ToolTimeout the tool ran out of time\n1\n")
    });
    assert!(timed_out);
}

#[test]
fn concurrent_calls_are_independent() {
    let script = "
import asyncio
async def main():
    answers = await asyncio.gather(*(tools.echo.aio(n=n) for n in range(12)))
    print([answer['n'] for answer in answers])
asyncio.run(main())
";
    let (stdout, _) = run(script, limits());
    assert_eq!(stdout, "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]\n");
}

#[test]
fn provider_with_invalid_tools_is_rejected() {
    let world = world();
    let load = |bytes: &[u8], config| ToolsComponent::load_bytes(&world.applications, "tools", bytes, config);
    assert!(matches!(load(&component("(component)"), limits()), Err(LoadError::NoTools { .. })));
    let sandbox =
        component("(component (import \"glovebox:sandbox/sandbox@0.2.0\" (instance (export \"info\" (func)))))");
    assert!(matches!(load(&sandbox, limits()), Err(LoadError::MissingImport { .. })));
    let words = |listed, schema, config| match load(&provider(listed, schema), config) {
        Err(LoadError::ToolList { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(load(&provider(7, "{}"), limits()).unwrap().tools().len(), 7);
    assert_eq!(load(&provider(0, "{}"), limits()).unwrap().tools().len(), 0);
    // As a parsed value, this schema takes a hundred times the memory of its text. Spaces use up the remaining limit.
    let heavy = format!(r#"{{"enum":[{}0]}}"#, r#"{"":0},"#.repeat(37_100));
    let missing = usize::try_from((32 << 20) - json_weight(heavy.as_bytes())).unwrap();
    let heavy = |spaces: usize| provider(1, &(heavy.clone() + &" ".repeat(spaces)));
    assert!(load(&heavy(missing - 1), limits()).is_ok(), "under");
    assert!(load(&heavy(missing), limits()).is_ok(), "at");
    match load(&heavy(missing + 1), limits()) {
        Err(LoadError::ToolList { reason, .. }) => {
            assert_eq!(
                reason,
                "its schemas need up to 33554433 bytes of memory when parsed; the maximum is 33554432; offer fewer tools \
                 or simpler schemas"
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(words(1, "{", limits()).contains("the schema of its tool `echo` is not JSON"));
    // Zero-filled records are tools without names. The sandbox checks names later.
    assert!(load(&provider(1024, "{}"), limits()).is_ok());
    assert_eq!(words(1025, "{}", limits()), "it lists 1025 tools; the maximum is 1024");
    assert!(words(1 << 20, "{}", limits()).contains("out of bounds"));
    assert!(words(7, "{}", config(|config| config.limits.fuel = 1)).contains("out of fuel"));
}
