use std::{cell::RefCell, future::ready, time::Duration};

use super::{fake::FakeClocks, *};
use crate::{
    HostCall, HostCallFuture, ToolHost,
    bindings::types::{CallFailure, Outcome, Tool, ToolError, ToolFailure, ToolOutcome},
    platform::check_tools,
};

/// A host with tools that return their arguments, fail, return invalid or long text, or take time.
#[derive(Default)]
struct Host {
    calls: RefCell<Vec<String>>,
    clocks: Option<Rc<FakeClocks>>,
}

fn tool(name: &str, schema: Option<&str>) -> Tool {
    Tool { name: name.into(), description: format!("{name}."), arguments_schema: schema.map(str::to_owned) }
}

impl ToolHost for Host {
    fn list(&self) -> Vec<Tool> {
        let number = r#"{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}"#;
        let names = ["fail", "nonsense", "large", "slow"].map(|name| tool(name, None));
        names.into_iter().chain([tool("echo", Some(number))]).collect()
    }

    fn call(&self, HostCall { name, arguments, .. }: HostCall) -> HostCallFuture {
        self.calls.borrow_mut().push(format!("{name} {arguments}"));
        Box::pin(ready(match name.as_str() {
            "echo" => Ok(arguments),
            "large" => Ok(format!("\"{}\"", "x".repeat(98))),
            "nonsense" => Ok("1]".into()),
            "slow" => {
                use crate::Clocks;
                if let Some(clocks) = &self.clocks {
                    clocks.wait(Duration::from_millis(50), &|| false);
                }
                Ok("1".into())
            }
            _ => Err(CallFailure { kind: ToolError::Limit, message: "no".into() }),
        }))
    }
}

fn sandbox(policy: types::Policy) -> (Rc<Host>, Sandbox) {
    let (_, world) = closed_world();
    let host = Rc::new(Host::default());
    let tools: Rc<dyn ToolHost> = host.clone();
    (host, sandbox_in(&World { tools: Some(tools), ..world }, policy).unwrap())
}

fn call(id: u64, name: &str, arguments: &str) -> String {
    format!("send {{\"id\":{id},\"name\":\"{name}\",\"arguments\":{arguments}}}\n")
}

#[test]
fn tool_call_is_answered_and_recorded() {
    let (host, sandbox) = sandbox(no_policy());
    let execution = execute(&sandbox, &(call(7, "echo", r#"{"x":1}"#) + "reply\nreply"));
    assert_eq!(printed(&execution), "{\"id\":7,\"ok\":{\"x\":1}}\nnone\n");
    assert_eq!(*host.calls.borrow(), ["echo {\"x\":1}"]);
    let [record] = &execution.tool_calls[..] else { panic!("{:?}", execution.tool_calls) };
    assert_eq!((record.name.as_str(), record.arguments.as_deref()), ("echo", Some(r#"{"x":1}"#)));
    assert_eq!(record.outcome, ToolOutcome::Returned(Some(r#"{"x":1}"#.into())));
    assert_eq!((record.started_ns, record.duration_ns), (0, 0), "without a clock");
}

#[test]
fn each_tool_failure_has_its_kind() {
    let (host, sandbox) = sandbox(limits(|limits| limits.tool_bytes = Some(99)));
    let large = format!("{{\"x\":\"{}\"}}", "y".repeat(92));
    for (name, arguments, kind, called) in [
        ("echo", r#"{"x":"a"}"#, ToolError::InvalidArguments, false),
        ("echo", "[1]", ToolError::InvalidArguments, false),
        ("nobody", "{}", ToolError::Unknown, false),
        ("fail", "{}", ToolError::Limit, true),
        ("fail", &large, ToolError::Limit, false),
        ("large", "{}", ToolError::Limit, true),
        ("nonsense", "{}", ToolError::Failed, true),
    ] {
        let execution = execute(&sandbox, &(call(1, name, arguments) + "reply"));
        let [record] = &execution.tool_calls[..] else { panic!("{:?}", execution.tool_calls) };
        assert!(
            matches!(&record.outcome, ToolOutcome::Failed(ToolFailure { kind: got, .. }) if *got == kind),
            "{record:?}"
        );
        assert_eq!(!host.calls.take().is_empty(), called, "{name} {arguments}");
        assert!(printed(&execution).contains("\"error\""), "{}", printed(&execution));
    }
}

#[test]
fn tool_result_size_is_limited() {
    for (max, fits) in [(99, false), (100, true), (101, true)] {
        let (_, sandbox) = sandbox(limits(|limits| limits.tool_bytes = Some(max)));
        let execution = execute(&sandbox, &(call(1, "large", "{}") + "reply"));
        assert_eq!(printed(&execution).contains("\"ok\""), fits, "{max}");
    }
}

#[test]
fn number_of_tool_calls_is_limited() {
    for (max, answered) in [(2, 2), (3, 3), (4, 3)] {
        let (host, sandbox) = sandbox(limits(|limits| limits.tool_calls = Some(max)));
        let execution = execute(&sandbox, &(call(1, "echo", r#"{"x":1}"#) + "reply\n").repeat(3));
        assert_eq!((host.calls.borrow().len(), execution.tool_calls.len()), (answered, answered), "{max}");
    }
}

#[test]
fn calls_wait_until_replies_are_read() {
    let (host, sandbox) = sandbox(limits(|limits| limits.tool_calls_at_once = Some(2)));
    let calls: String = (1..=4).map(|id| call(id, "echo", &format!("{{\"x\":{id}}}"))).collect();
    let execution = execute(&sandbox, &calls);
    assert_eq!(host.calls.take().len(), 2);
    let unfinished = |execution: &types::Execution| {
        execution.tool_calls.iter().filter(|record| record.outcome == ToolOutcome::Unfinished).count()
    };
    assert_eq!((execution.tool_calls.len(), unfinished(&execution)), (4, 2));
    let execution = execute(&sandbox, &format!("{calls}reply\nreply\nreply\nreply\nreply"));
    assert_eq!((host.calls.take().len(), unfinished(&execution)), (4, 0), "reading a reply frees a call");
    let ids: Vec<_> = printed(&execution).lines().map(|line| line.get(..7).unwrap_or(line).to_owned()).collect();
    assert_eq!(ids, ["{\"id\":1", "{\"id\":2", "{\"id\":3", "{\"id\":4", "none"]);
    let twice = calls.clone() + &call(4, "echo", "{}") + &"reply\n".repeat(5);
    assert!(printed(&execute(&sandbox, &twice)).contains("has not been answered yet"));
}

#[test]
fn catalogue_lists_the_tools() {
    let (_, sandbox) = sandbox(no_policy());
    let execution = execute(&sandbox, "send {\"list\":true}\nreply\nsend {\"wait\":5}\nreply\nsend what\nreply");
    let lines: Vec<_> = printed(&execution).lines().collect();
    for name in ["echo", "fail", "large", "nonsense", "slow"] {
        assert!(lines[0].contains(&format!("\"name\":\"{name}\"")), "{}", lines[0]);
    }
    assert_eq!(lines[1], "none");
    assert!(lines[2].contains("invalid message"), "{}", lines[2]);
}

#[test]
fn messages_cost_fuel_even_without_tools() {
    let (_, with_tools) = sandbox(no_policy());
    let (_, without) = closed_sandbox(no_policy());
    let script = call(1, "echo", r#"{"x":1}"#) + "send {\"wait\":null}";
    let bytes =
        (call(1, "echo", r#"{"x":1}"#).trim_end().len() + "send {\"wait\":null}".len() - 2 * "send ".len()) as u64;
    for sandbox in [with_tools, without] {
        assert_eq!(execute(&sandbox, &script).fuel_consumed, 2 * 5_000 + bytes * 64 + 300_000);
    }
}

#[test]
fn tool_call_over_its_timeout_fails() {
    for (timeout_ms, in_time) in [(49, false), (50, true), (51, true)] {
        let clocks = FakeClocks::new(Duration::ZERO);
        let (_, world) = closed_world();
        let host: Rc<dyn ToolHost> = Rc::new(Host { clocks: Some(Rc::clone(&clocks)), ..Host::default() });
        let world = World { clocks: Some(clocks), tools: Some(host), ..world };
        let sandbox = sandbox_in(&world, limits(|limits| limits.tool_timeout_ms = Some(timeout_ms))).unwrap();
        let execution = execute(&sandbox, &(call(1, "slow", "{}") + "reply"));
        let [record] = &execution.tool_calls[..] else { panic!("{:?}", execution.tool_calls) };
        assert_eq!(matches!(record.outcome, ToolOutcome::Returned(_)), in_time, "{timeout_ms}: {record:?}");
        assert_eq!(record.duration_ns, 50_000_000);
        // The call's duration also counts against the execution's own timeout.
        let sandbox = sandbox_in(&world, limits(|limits| limits.timeout_ms = Some(timeout_ms))).unwrap();
        let execution = execute(&sandbox, &(call(1, "slow", "{}") + "print on"));
        assert_eq!(execution.outcome == Outcome::Completed, timeout_ms > 50, "{timeout_ms}: {:?}", execution.outcome);
    }
}

#[test]
fn pending_calls_count_against_the_memory_limit() {
    let (_, sandbox) = sandbox(limits(|limits| limits.memory_bytes = Some(1 << 20)));
    let large = format!("{{\"x\":[{}0]}}", "{},".repeat(1_500));
    let execution = execute(&sandbox, &(call(1, "fail", &large) + "reply\nprint on"));
    assert!(printed(&execution).contains("memory_bytes"), "{}", printed(&execution));
    assert!(printed(&execution).ends_with("on\n"));
    assert!(execution.tool_calls.is_empty(), "the call was refused");
}

#[test]
fn invalid_tools_are_reported() {
    let many: Vec<_> = (0..=1024).map(|index| tool(&format!("t{index}"), None)).collect();
    assert!(check_tools(&many[..1024]).is_ok());
    assert!(check_tools(&many).unwrap_err().contains("1025"));
    for (tools, expected) in [
        (vec![tool("a", None), tool("a", None)], "twice"),
        (vec![tool("a b", None)], "invalid name"),
        (vec![tool("a", Some("{"))], "is not JSON"),
        (vec![tool("a", Some("[]"))], "invalid schema"),
        (vec![tool("a", Some(&format!("[{}0]", "{},".repeat(50_000))))], "schemas need up to"),
        (vec![Tool { description: "x".repeat(1 << 20), ..tool("a", None) }], "in total"),
    ] {
        let reason = check_tools(&tools).unwrap_err();
        assert!(reason.contains(expected), "{reason}");
    }
}
