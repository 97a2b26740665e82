//! Tools that a component provides.

use std::fmt::Write as _;

use glovebox::{Sandbox, ToolOutcome, json_weight};
use glovebox_component_runner::{AppConfig, AppLimits, Applications, LoadError, ToolsComponent};

use crate::support::{component, config, prepared, world};

const OBJECT: &str = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;

/// Returns the provider in `fixtures/tools.wat`.
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
    let engine = prepared();
    let applications = Applications::new(&engine).unwrap();
    let tools = ToolsComponent::load_bytes(&applications, "tools", &provider(7, OBJECT), config).unwrap();
    let mut builder = Sandbox::builder(&engine);
    for tool in tools.tools() {
        builder = builder.tool(tool);
    }
    let execution = builder.build().unwrap().execute(script).unwrap();
    assert!(execution.is_success(), "{}", execution.stderr.text());
    let outcomes = execution.tool_calls.into_iter().map(|call| call.outcome).collect();
    (execution.stdout.text(), outcomes)
}

#[test]
fn a_script_calls_them_and_sees_how_each_call_went() {
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
    let (said, outcomes) = run(script, config(|config| config.limits.memory_bytes = 1 << 20));
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines[0], "echo {'n': 1}");
    assert!(lines[1].starts_with("echo InvalidArguments "), "{}", lines[1]);
    let expected = [
        "fail ToolTimeout no such city",
        "crash ToolError the tool broke",
        "junk ToolError the result is no JSON: expected value at line 1 column 1",
        "want ToolLimit the tool ran out of memory",
        "count 1",
        "count 1",
        "echo {'n': 2}",
    ];
    assert_eq!(lines[2..], expected, "each call is a new instance");
    assert_eq!(outcomes.len(), 9);
}

#[test]
fn a_call_that_goes_on_is_stopped_by_its_own_limits_and_by_the_scripts() {
    let script = "
try:
    tools.spin()
except Exception as error:
    print(type(error).__name__, error)
print(tools.count())
";
    let (said, _) = run(script, config(|config| config.limits.fuel = 100_000));
    assert_eq!(said, "ToolLimit the tool ran out of fuel\n1\n");
    let (said, _) = run(script, config(|config| config.limits.timeout_ms = 50));
    assert_eq!(said, "ToolTimeout the tool ran out of time\n1\n");
}

#[test]
fn calls_at_once_do_not_disturb_each_other() {
    let script = "
import asyncio
async def main():
    answers = await asyncio.gather(*(tools.echo.aio(n=n) for n in range(12)))
    print([answer['n'] for answer in answers])
asyncio.run(main())
";
    let (said, _) = run(script, limits());
    assert_eq!(said, "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]\n");
}

#[test]
fn what_lists_no_tools_that_can_be_is_refused() {
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
    // A schema that takes a hundred times the memory of its text. Spaces fill up the rest of the limit.
    let heavy = format!(r#"{{"enum":[{}0]}}"#, r#"{"":0},"#.repeat(37_100));
    let missing = usize::try_from((32 << 20) - json_weight(heavy.as_bytes())).unwrap();
    let heavy = |spaces: usize| provider(1, &(heavy.clone() + &" ".repeat(spaces)));
    assert!(load(&heavy(missing - 1), limits()).is_ok(), "under");
    assert!(load(&heavy(missing), limits()).is_ok(), "at");
    match load(&heavy(missing + 1), limits()) {
        Err(LoadError::ToolList { reason, .. }) => {
            assert_eq!(reason, "its schemas take 33554433 bytes; the maximum is 33554432");
        }
        other => panic!("{other:?}"),
    }
    assert!(words(1, "{", limits()).contains("the schema of its tool `echo` is not JSON"));
    // Records of zeros are tools without a name. The sandbox checks names.
    assert!(load(&provider(1024, "{}"), limits()).is_ok());
    assert_eq!(words(1025, "{}", limits()), "it lists 1025 tools; the maximum is 1024");
    assert!(words(1 << 20, "{}", limits()).contains("out of bounds"));
    assert!(words(7, "{}", config(|config| config.limits.fuel = 1)).contains("out of fuel"));
}
