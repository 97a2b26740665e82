//! Tests host tools through the device, which any binary can use. `tests/cases` tests the languages' own interfaces.

use std::{
    sync::{Barrier, mpsc},
    thread,
    time::{Duration, Instant},
};

use glovebox::{CancelToken, Language, Outcome, Policy, Request, Sandbox, Tool, ToolError, ToolOutcome};
use glovebox_tests::{engine, fixed, short};
use serde_json::json;

/// Opens the device. `send` writes a message; `read` returns the text of the next reply, or nothing.
const PYTHON: &str = r#"
import os, json
device = os.open('/dev/glovebox/tools', os.O_RDWR)
def send(message): os.write(device, json.dumps(message).encode())
def read():
    head = os.read(device, 4)
    if not head: return None
    text = b''
    while len(text) < int.from_bytes(head, 'little'): text += os.read(device, 1 << 16)
    return json.loads(text)
"#;

fn sandbox(language: Language, tools: &[Tool], edit: impl FnOnce(&mut Policy)) -> Sandbox {
    let mut policy = Policy::default();
    edit(&mut policy);
    let builder = Sandbox::builder(engine()).language(language).policy(policy);
    tools.iter().cloned().fold(builder, |builder, tool| builder.tool(tool)).build().unwrap()
}

fn python(tools: &[Tool], edit: impl FnOnce(&mut Policy)) -> Sandbox {
    sandbox(Language::Python, tools, edit)
}

fn script(body: &str) -> String {
    format!("{PYTHON}{body}")
}

/// Runs a script, asserts that it completes, and returns its output.
fn output(sandbox: &Sandbox, source: &str) -> String {
    let execution = sandbox.execute(source).unwrap();
    assert!(execution.is_success(), "{:?} {}", execution.outcome, execution.stderr.text());
    execution.stdout.text()
}

fn echo() -> Tool {
    Tool::new("echo", "Gives back its arguments.").handler(|_, arguments| Ok(arguments))
}

/// Returns a tool that sleeps for `ms` milliseconds.
fn nap() -> Tool {
    Tool::new("nap", "Sleeps.").handler(|_, arguments| {
        thread::sleep(Duration::from_millis(arguments["ms"].as_u64().unwrap_or(0)));
        Ok(arguments)
    })
}

/// Returns a tool that runs for a minute unless it is cancelled, and a channel that receives the time of the
/// cancellation.
fn patient() -> (Tool, mpsc::Receiver<Instant>) {
    let (sender, receiver) = mpsc::channel();
    let tool = Tool::new("patient", "Waits.").handler(move |call, _| {
        let _ = call.cancel.wait_timeout(Duration::from_secs(60));
        sender.send(Instant::now()).ok();
        Err(ToolError::new("cancelled"))
    });
    (tool, receiver)
}

#[test]
fn python_calls_a_tool() {
    let source = script("send({'id': 1, 'name': 'echo', 'arguments': {'a': 'é'}})\nprint(read(), read())");
    let execution = python(&[echo()], |_| {}).execute(&source).unwrap();
    assert_eq!(execution.stdout.text(), "{'id': 1, 'ok': {'a': 'é'}} None\n", "{:?}", execution.outcome);
    assert_eq!(execution.tool_calls.len(), 1);
    let json = serde_json::to_value(&execution).unwrap();
    assert_eq!(json["tool_calls"][0]["name"], "echo");
    assert_eq!(json["tool_calls"][0]["arguments"], json!({"a": "é"}));
    assert_eq!(json["tool_calls"][0]["result"], json!({"a": "é"}));
    assert_eq!(json["tool_calls"][0]["error"], json!(null));
}

#[test]
fn javascript_calls_a_tool() {
    let source = r#"
        const device = os.open('/dev/glovebox/tools', os.O_RDWR);
        const text = JSON.stringify({id: 1, name: 'echo', arguments: {a: 1}});
        const bytes = Uint8Array.from(text, (c) => c.charCodeAt(0));
        os.write(device, bytes.buffer, 0, bytes.length);
        const reply = new Uint8Array(1000);
        os.read(device, reply.buffer, 0, 4);
        const length = new DataView(reply.buffer).getUint32(0, true);
        os.read(device, reply.buffer, 0, length);
        console.log(String.fromCharCode(...reply.subarray(0, length)));
    "#;
    let execution = sandbox(Language::JavaScript, &[echo()], |_| {}).execute(source).unwrap();
    assert_eq!(execution.stdout.text(), "{\"id\":1,\"ok\":{\"a\":1}}\n", "{:?}", execution.outcome);
}

#[test]
fn several_tool_calls_run_at_once() {
    // No call returns until all ten are running.
    let all = Barrier::new(10);
    let meet = Tool::new("meet", "Waits for the others.").handler(move |_, arguments| {
        all.wait();
        Ok(arguments)
    });
    let body = "
for i in range(10): send({'id': i, 'name': 'meet'})
print(sorted(read()['id'] for _ in range(10)))";
    let execution = python(&[meet], |policy| policy.limits.timeout_ms = 60_000).execute(&script(body)).unwrap();
    assert_eq!(execution.stdout.text(), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\n");
    assert_eq!(execution.tool_calls.len(), 10);
}

#[test]
fn guest_timeout_is_reported() {
    let body = "
send({'id': 1, 'name': 'nap', 'arguments': {'ms': 300}})
send({'wait': 20})
print(read(), read()['id'])";
    let execution = python(&[nap()], |_| {}).execute(&script(body)).unwrap();
    assert_eq!(execution.stdout.text(), "None 1\n");
    assert!(execution.tool_calls[0].duration >= Duration::from_millis(300), "{:?}", execution.tool_calls);
}

#[test]
fn calls_of_an_earlier_execution_are_never_answered() {
    let (patient, receiver) = patient();
    let sandbox = python(&[patient, echo()], |_| {});
    let session = sandbox.session().unwrap();
    let first = session.execute(&script("send({'id': 1, 'name': 'patient'})")).unwrap();
    assert_eq!(first.tool_calls[0].outcome, ToolOutcome::Unfinished);
    receiver.recv_timeout(Duration::from_secs(20)).expect("the handler detects the cancellation");
    let second = session.execute("send({'id': 2, 'name': 'echo'})\nprint(read(), read())").unwrap();
    assert_eq!(second.stdout.text(), "{'id': 2, 'ok': {}} None\n");
    assert_eq!(second.tool_calls.len(), 1);
}

#[test]
fn a_wait_for_a_tool_ends_at_the_deadline() {
    let (patient, receiver) = patient();
    let sandbox = python(&[patient], |policy| policy.limits.timeout_ms = 2_000);
    let begun = Instant::now();
    let execution = sandbox.execute(&script("send({'id': 1, 'name': 'patient'})\nwhile not read(): pass")).unwrap();
    assert_eq!(short(&execution.outcome), "exhausted time");
    assert!(begun.elapsed() < Duration::from_secs(30));
    receiver.recv_timeout(Duration::from_secs(20)).expect("the handler detects the cancellation");
}

#[test]
fn a_wait_for_a_tool_is_cancelled() {
    let (patient, receiver) = patient();
    let sandbox = python(&[patient], |policy| policy.limits.timeout_ms = 60_000);
    let token = CancelToken::new();
    let other = token.clone();
    let canceller = thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        let cancelled = Instant::now();
        other.cancel();
        cancelled
    });
    let source = script("send({'id': 1, 'name': 'patient', 'arguments': {}})\nwhile not read(): pass");
    let execution = sandbox.run(Request::new(&source).cancel(&token)).unwrap();
    assert_eq!(execution.outcome, Outcome::Cancelled);
    let cancelled = canceller.join().unwrap();
    assert!(receiver.recv_timeout(Duration::from_secs(20)).unwrap() >= cancelled);
    assert!(cancelled.elapsed() < Duration::from_secs(10));
}

#[test]
fn calls_cost_the_same_fuel_every_time() {
    let source = script("send({'id': 1, 'name': 'echo', 'arguments': {'a': 'x' * 1000}})\nread()");
    let sandbox = python(&[echo()], fixed);
    let mut costs: Vec<u64> = (0..5).map(|_| sandbox.execute(&source).unwrap().fuel_consumed).collect();
    costs.dedup();
    assert_eq!(costs.len(), 1, "{costs:?}");
    let without = sandbox.execute(PYTHON).unwrap().fuel_consumed;
    assert!(costs[0] > without + 300_000, "{costs:?} {without}");
}

#[test]
fn endless_calls_end_at_the_fuel_limit() {
    let body = "i = 0\nwhile True:\n    i += 1\n    send({'id': i, 'name': 'echo'})";
    let execution = python(&[echo()], |policy| policy.limits.fuel = 500_000_000).execute(&script(body)).unwrap();
    assert_eq!(short(&execution.outcome), "exhausted fuel");
    assert_eq!(execution.tool_calls.len(), 100);
}

#[test]
fn tool_bytes_count_against_the_memory_limit() {
    const MAX: u64 = 112 << 20;
    let long = Tool::new("long", "").handler(|_, _| Ok(json!("x".repeat(8 << 20))));
    let sandbox = python(&[long, echo()], |policy| {
        policy.limits.timeout_ms = 60_000;
        policy.limits.memory_bytes = MAX;
        policy.limits.tool_bytes = 9 << 20;
        policy.limits.tool_record_bytes = 0;
    });
    // Sixteen results of 8 MiB exceed the memory limit. While the results that fit are unread, the guest cannot
    // allocate 40 MiB either. The guest cannot check how many results have arrived without reading them, so it waits
    // for a fixed time. If that was too short, the test runs the script again with a longer wait.
    let body = "
for i in range(16): send({'id': i, 'name': 'long'})
import time
time.sleep(PAUSE)
try:
    bytearray(40 << 20)
except MemoryError:
    print('no memory')
kinds = set()
for _ in range(16):
    head = os.read(device, 4)
    left = int.from_bytes(head, 'little')
    kinds.add('ToolLimit' if left < 1000 else 'result')
    while left: left -= len(os.read(device, min(left, 1 << 16)))
print(sorted(kinds))
bytearray(40 << 20)
send({'id': 99, 'name': 'echo'})
print(read())";
    let expected = "no memory\n['ToolLimit', 'result']\n{'id': 99, 'ok': {}}\n";
    let mut seen = Vec::new();
    for pause in ["1", "5", "25"] {
        let execution = sandbox.execute(&script(&body.replace("PAUSE", pause))).unwrap();
        assert!(execution.memory_used_bytes <= MAX, "{}", execution.memory_used_bytes);
        seen.push((execution.stdout.text(), execution.outcome));
        if seen.last().is_some_and(|(text, _)| text == expected) {
            return;
        }
    }
    panic!("{seen:?}");
}

#[test]
fn oversized_tool_message_is_rejected_by_the_device() {
    let body = "
try:
    send({'id': 1, 'name': 'echo', 'arguments': {'a': 'x' * 10_000}})
except OSError as error:
    print(error.errno == __import__('errno').EMSGSIZE)
send({'id': 1, 'name': 'echo', 'arguments': {'a': 'x' * 2_000}})
print(read()['error']['type'])
send({'id': 1, 'name': 'echo', 'arguments': {'a': 'x' * 992}})
print('ok' in read())";
    let execution = python(&[echo()], |policy| policy.limits.tool_bytes = 1_000).execute(&script(body)).unwrap();
    assert_eq!(execution.stdout.text(), "True\nToolLimit\nTrue\n");
}

#[test]
fn a_sandbox_without_tools_has_an_empty_list() {
    let body = "send({'list': True})\nprint(read())\nsend({'id': 1, 'name': 'echo'})\nprint(read()['error']['type'])";
    let execution = python(&[], |_| {}).execute(&script(body)).unwrap();
    assert_eq!(execution.stdout.text(), "{'tools': []}\nUnknownTool\n");
}

#[test]
fn invalid_tool_fails_when_the_sandbox_is_built() {
    let error = Sandbox::builder(engine()).tool(echo()).tool(echo()).build().unwrap_err();
    assert!(error.to_string().contains("`echo`"), "{error}");
}

#[test]
fn handlers_can_run_other_sandboxes() {
    let inner = python(&[echo()], |_| {});
    let nested = Tool::new("nested", "Runs a script.").handler(move |_, arguments| {
        let source = arguments["source"].as_str().unwrap_or_default();
        let execution = inner.execute(source).map_err(ToolError::new)?;
        Ok(json!(execution.stdout.text()))
    });
    let deep = script("send({'id': 1, 'name': 'echo', 'arguments': {'deep': True}})\nprint(read()['ok'])");
    let body = format!("send({{'id': 1, 'name': 'nested', 'arguments': {{'source': {deep:?}}}}})\nprint(read()['ok'])");
    let execution = python(&[nested], |_| {}).execute(&script(&body)).unwrap();
    assert_eq!(execution.stdout.text(), "{'deep': True}\n\n");
}

#[test]
fn python_calls_tools_by_name() {
    let add = Tool::new("add", "Adds two numbers.")
        .schema(json!({"properties": {"b": {"type": "number"}, "a": {"type": "number"}}, "required": ["b", "a"]}))
        .handler(|_, arguments| {
            let number = |name: &str| arguments[name].as_i64().unwrap_or(0);
            Ok(json!(number("b") * 10 + number("a")))
        });
    let sandbox = python(&[add, echo(), Tool::llm_query(|_, prompt| Ok(prompt.to_uppercase()))], |_| {});
    let source = "
print(tools.add(1, a=2), tools.add(b=3, a=4), tools.echo(x=[1]))
print(llm_query('why'))
try:
    tools.add('x', a=1)
except tools.InvalidArguments as error:
    print(isinstance(error, tools.ToolError))
try:
    tools.missing()
except AttributeError:
    print('no such')";
    assert_eq!(output(&sandbox, source), "12 34 {'x': [1]}\nWHY\nTrue\nno such\n");
}

#[test]
fn javascript_calls_tools_by_name() {
    let tools = [echo(), nap(), Tool::llm_query(|_, prompt| Ok(prompt.to_uppercase()))];
    let source = "
console.log(JSON.stringify(await Promise.all([tools.echo({x: [1]}), tools.nap({ms: 1}), llm_query('why')])));
try {
    await tools.missing();
} catch (error) {
    console.log(error instanceof TypeError || error.name);
}
try {
    await llm_query(7);
} catch (error) {
    console.log(error.name);
}";
    let execution = sandbox(Language::JavaScript, &tools, |_| {}).execute(source).unwrap();
    let (stdout, stderr) = (execution.stdout.text(), execution.stderr.text());
    assert!(stdout.starts_with("[{\"x\":[1]},{\"ms\":1},\"WHY\"]\n"), "{stdout} {stderr}");
    assert!(stdout.ends_with("\nInvalidArguments\n"), "{stdout} {stderr}");
}

#[test]
fn policy_restricts_single_tools() {
    let edit = |policy: &mut Policy| {
        let table = "[tools.echo]\nmax_calls = 2\n[tools.echo.schema]\nmaxProperties = 1";
        policy.tools = Policy::from_toml(table).unwrap().tools;
    };
    let source = "
for arguments in [{'a': 1}, {'a': 1, 'b': 2}, {'a': 1}]:
    try:
        print(tools.echo(**arguments))
    except tools.ToolError as error:
        print(f'{type(error).__name__}: {error}')";
    let expected = "{'a': 1}
InvalidArguments: the policy restricts calls to `echo` (`tools.echo.schema`): the number of properties is 2; the maximum is 1
ToolLimit: no more calls to `echo` are allowed: the maximum `tools.echo.max_calls` is 2
";
    let sandbox = python(&[echo()], edit);
    assert_eq!(output(&sandbox, source), expected);
    let later = python(&[], edit).run(Request::new(source).tools(vec![echo()])).unwrap();
    assert_eq!(later.stdout.text(), expected, "the same for a request's own tools");
    let session = sandbox.session().unwrap();
    let fork = session.fork().unwrap();
    for session in [&session, &session, &fork] {
        assert_eq!(session.execute(source).unwrap().stdout.text(), expected, "each execution counts from zero");
    }
}
