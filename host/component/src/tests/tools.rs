//! Tests of the `tools` interface, for components that execute scripts themselves.

use glovebox::{Tool, ToolError as Failed};
use serde_json::json;

use super::*;
use crate::wit::{tools::Host as Tools, types::ToolError};

fn with_tools(edit: impl FnOnce(&mut glovebox::Policy)) -> SandboxCtx {
    let mut policy = glovebox::Policy::default();
    edit(&mut policy);
    let add = Tool::new("add", "Adds two numbers.")
        .schema(json!({
            "type": "object",
            "properties": { "a": { "type": "integer" }, "b": { "type": "integer" } },
            "required": ["a", "b"],
        }))
        .handler(|_, arguments| Ok(json!(arguments["a"].as_i64().unwrap_or(0) + arguments["b"].as_i64().unwrap_or(0))));
    let hang = Tool::new("hang", "Waits to be error_of.").handler(|call, _| {
        let error_of = call.cancel.wait_timeout(std::time::Duration::from_secs(3600));
        Err(Failed::new(format!("error_of: {error_of}")))
    });
    let echo = Tool::new("echo", "Says what it is error_of.").handler(|_, arguments| Ok(arguments));
    let say = Tool::new("who", "Says who asks.").handler(|call, _| Ok(json!(call.session_id)));
    let host = SandboxHost::builder(engine()).policy(policy).tool(add).tool(hang).tool(echo).tool(say);
    host.build().unwrap().ctx()
}

fn call(ctx: &mut SandboxCtx, name: &str, arguments: &str) -> Result<String, (ToolError, String)> {
    Tools::call(ctx, name.into(), arguments.into()).unwrap().map_err(|failure| (failure.kind, failure.message))
}

#[test]
fn host_tools_are_listed_and_answer() {
    let mut ctx = with_tools(|_| {});
    let list = ctx.list_tools().unwrap();
    assert_eq!(list.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["add", "hang", "echo", "who"]);
    assert!(list[0].arguments_schema.as_ref().unwrap().contains("\"required\":[\"a\",\"b\"]"));
    assert_eq!(call(&mut ctx, "add", r#"{"a": 1, "b": 2}"#).unwrap(), "3");
    assert_eq!(call(&mut ctx, "echo", r#"{"x": [null, "é"]}"#).unwrap(), r#"{"x":[null,"é"]}"#);
    assert_eq!(ctx.usage().executions, 2);
}

#[test]
fn invalid_call_fails_as_from_a_script() {
    let mut ctx = with_tools(|policy| policy.limits.tool_bytes = 100);
    let kind = |answer: Result<String, (ToolError, String)>| answer.unwrap_err().0;
    assert_eq!(kind(call(&mut ctx, "sub", "{}")), ToolError::Unknown);
    assert_eq!(kind(call(&mut ctx, &"x".repeat(1 << 20), "{}")), ToolError::Unknown);
    for arguments in ["", "{", "[1]", "3", r#"{"a": "1", "b": 2}"#, r#"{"a": 1}"#, "{}}", r#"{}, "id": 1, "x": {}"#] {
        assert_eq!(kind(call(&mut ctx, "add", arguments)), ToolError::InvalidArguments, "{arguments}");
    }
    for arguments in [r#"{"a":1e999}"#, r#"{"a":"\ud800"}"#] {
        assert_eq!(kind(call(&mut ctx, "echo", arguments)), ToolError::InvalidArguments, "{arguments}");
    }
    let mut roomy = with_tools(|_| {});
    for (levels, fits) in [(124, true), (125, true), (126, false), (127, false)] {
        let arguments = format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
        let answer = call(&mut roomy, "echo", &arguments);
        assert_eq!(answer.is_ok(), fits, "{levels}: {answer:?}");
        assert!(fits || kind(answer) == ToolError::InvalidArguments, "{levels}");
    }
    for (length, fits) in [(99, true), (100, true), (101, false)] {
        let arguments = format!("{{\"x\":\"{}\"}}", "y".repeat(length - 8));
        assert_eq!(arguments.len(), length);
        let answer = call(&mut ctx, "echo", &arguments);
        assert_eq!(answer.is_ok(), fits, "{length}: {answer:?}");
        assert!(fits || kind(answer) == ToolError::Limit);
    }
}

#[test]
fn slow_tool_call_times_out() {
    let mut ctx = with_tools(|policy| policy.limits.tool_timeout_ms = 1);
    assert_eq!(call(&mut ctx, "hang", "{}").unwrap_err().0, ToolError::Timeout);
    let mut ctx = with_tools(|_| {});
    let token = ctx.cancel_token();
    let failure = std::thread::scope(|scope| {
        let hanging = scope.spawn(|| call(&mut ctx, "hang", "{}").unwrap_err());
        token.cancel();
        hanging.join().unwrap()
    });
    assert_eq!(failure.0, ToolError::Failed);
}

#[test]
fn tools_receive_the_callers_identity() {
    let mut ctx = with_tools(|_| {});
    let id = ctx.id().to_owned();
    assert_eq!(call(&mut ctx, "who", "{}").unwrap(), format!("\"{id}\""));
    let source = "console.log(await tools.who())";
    let execution = ctx.run(Runtime::Javascript, request(source), no_policy()).unwrap();
    assert_eq!(String::from_utf8(execution.stdout.bytes).unwrap(), format!("{id}\n"));
    assert_eq!(execution.session_id, None, "the execution has no session");
}

#[test]
fn policy_restricts_tools_for_scripts_and_for_the_component() {
    let mut ctx = with_tools(|policy| {
        let table = "[tools.hang]\nmax_calls = 0\n[tools.echo]\nmax_calls = 1\nschema = { maxProperties = 1 }";
        policy.tools = glovebox::Policy::from_toml(table).unwrap().tools;
    });
    assert_eq!(call(&mut ctx, "hang", "{}").unwrap_err().0, ToolError::Limit);
    assert_eq!(call(&mut ctx, "echo", r#"{"a":1,"b":2}"#).unwrap_err().0, ToolError::InvalidArguments);
    for _ in 0..2 {
        // The component can execute any number of scripts, so each of its own calls counts as an execution.
        assert_eq!(call(&mut ctx, "echo", "{}").unwrap(), "{}");
    }
    let source = "for (const name of ['hang', 'echo', 'echo'])
    await tools[name]({}).then(() => console.log('ok'), error => console.log(error.name))";
    let execution = ctx.run(Runtime::Javascript, request(source), no_policy()).unwrap();
    assert_eq!(String::from_utf8(execution.stdout.bytes).unwrap(), "ToolLimit\nok\nToolLimit\n");
}
