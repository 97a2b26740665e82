//! Tests scripts that call tools of upstream servers. Some of the servers are hostile.

use std::time::{Duration, Instant};

use glovebox_server::mcp::{Approve, ProcessConfig, UpstreamConfig, UpstreamTransport, Upstreams};
use serde_json::{Value, json};

use super::support::{Mcp, Setup, UpstreamScript, runtime, start, structured, text, until};

/// Starts a server whose scripts can call the tools of upstream servers.
pub(super) fn with(upstreams: &Upstreams, change: impl FnOnce(&mut glovebox_server::TenantConfig) + 'static) -> Mcp {
    let (tools, listing) = (upstreams.tools(), upstreams.listing().text());
    let change = move |config: &mut glovebox_server::TenantConfig| {
        config.tools = tools;
        change(config);
    };
    Mcp::with(Setup { change: Some(Box::new(change)), listing, ..Setup::default() })
}

pub(super) fn tool(name: &str, properties: Value) -> Value {
    json!({ "name": name, "description": format!("Does {name}."), "inputSchema": { "type": "object", "properties": properties } })
}

#[test]
fn scripts_call_the_tools_of_other_servers() {
    let tools = json!([
        { "name": "add", "inputSchema": { "type": "object", "properties": { "a": { "type": "number" }, "b": { "type": "number" } },
          "required": ["a", "b"] }, "outputSchema": { "type": "object", "properties": { "sum": { "type": "number" } } } },
        tool("say-it", json!({})), tool("fail", json!({})), tool("env", json!({})), tool("left.out", json!({})),
    ]);
    let call = "if name == 'add': say({'content': [], 'structuredContent': {'sum': arguments['a'] + arguments['b']}})\n\
                elif name == 'say-it': say({'content': [{'type': 'text', 'text': 'one'}, {'type': 'text', 'text': 'two'}]})\n\
                elif name == 'env': text(json.dumps(sorted(os.environ)))\n\
                else: say({'content': [{'type': 'text', 'text': 'because'}], 'isError': True})";
    let inner = UpstreamScript::new(&tools, call);
    let runtime = runtime();
    let mut config = inner.config("calc-1");
    let UpstreamTransport::Process(process) = &mut config.transport else { panic!("{config:?}") };
    process.env.insert("KEY".into(), "secret".into());
    config.tools = Some(["add", "say-it", "fail", "env"].map(str::to_owned).into());
    let upstreams = start(&runtime, vec![config], 1 << 20).unwrap();
    let stub = glovebox::tool_stubs(&upstreams.tools(), glovebox::Language::Python).unwrap();
    assert!(stub.contains("    def __call__(self, a: float, b: float) -> _calc_1_add_result: ...\n"), "{stub}");
    let mcp = with(&upstreams, |_| {});
    let run = mcp.runtime.block_on(mcp.client().list_all_tools()).unwrap().remove(0);
    let description = run.description.unwrap();
    assert!(description.contains("\ntools.calc_1_add(a: float, b: float) -> {sum: float}\n"), "{description}");
    assert!(
        description.contains("\ntools.calc_1_say_it()  # Does say-it.\n") && !description.contains("left_out"),
        "{description}"
    );
    assert_eq!(run.annotations.unwrap().open_world_hint, Some(true));
    let result = mcp.python(
        "print(tools.calc_1_add(a=1, b=2)['sum'], repr(tools.calc_1_say_it()))\n\
         for call in (lambda: tools.calc_1_fail(), lambda: tools.calc_1_add(a='x')):\n\
         \x20   try: call()\n\x20   except tools.ToolError as error: print(type(error).__name__, error)\n\
         print(tools.calc_1_env())",
    );
    let printed = text(&result);
    assert!(printed.starts_with("3 'one\\ntwo'\nToolError because\nInvalidArguments "), "{result:?}");
    let environment = printed.lines().last().unwrap();
    let environment: Vec<String> = serde_json::from_str(environment).unwrap();
    // Variables that shells, Python in the C locale (PEP 538), or a pyenv wrapper set themselves.
    let own = |name: &str| ["LC_CTYPE", "PWD", "SHLVL", "_"].contains(&name) || name.contains("PYENV");
    assert_eq!(environment.into_iter().filter(|name| !own(name)).collect::<Vec<_>>(), ["HOME", "KEY", "PATH"]);
    assert!(!printed.contains("secret"));
    let script = "const all = await Promise.all([1, 2, 3].map(a => tools.calc_1_add({a, b: 1}))); console.log(JSON.stringify(all))";
    let result = mcp.call("run_code", json!({ "language": "javascript", "code": script }));
    assert_eq!(text(&result), "[{\"sum\":2},{\"sum\":3},{\"sum\":4}]\n");
    runtime.block_on(upstreams.close());
    assert!(text(&mcp.python("tools.calc_1_say_it()")).contains("MCP server `calc-1` is closed"));
}

#[test]
fn crashed_upstream_server_is_restarted_a_few_times() {
    let inner = UpstreamScript::new(
        &json!([tool("die", json!({})), tool("live", json!({}))]),
        "if name == 'live': text('alive')\nelse: print('why\\x1b[2J', file=sys.stderr, flush=True); os._exit(3)",
    );
    let runtime = runtime();
    let upstreams = start(&runtime, vec![inner.config("s")], 1 << 20).unwrap();
    let mcp = with(&upstreams, |_| {});
    let result = mcp.python(
        "for _ in range(7):\n\x20   try: tools.s_die()\n\x20   except tools.ToolError as error: print(error)\nprint(tools.s_live())",
    );
    let printed = text(&result);
    let lines: Vec<&str> = printed.lines().collect();
    for line in &lines[..6] {
        assert_eq!(*line, "MCP server `s` has ended; its standard error ends with: why\\u{1b}[2J", "{printed}");
    }
    assert!(lines[6].contains("was already restarted 5 times within 10 minutes"), "{printed}");
    assert_eq!(result.is_error, Some(true));
    runtime.block_on(upstreams.close());
}

#[test]
fn upstream_call_ends_with_its_timeout_and_script() {
    let inner = UpstreamScript::new(
        &json!([tool("wait", json!({})), tool("now", json!({}))]),
        "if name == 'wait':\n    open(os.path.join(os.path.dirname(__file__), 'called'), 'w').close()\n    time.sleep(60)\n\
         text(name)",
    );
    let runtime = runtime();
    let upstreams = start(&runtime, vec![inner.config("slow")], 1 << 20).unwrap();
    let (called, cancelled) = (inner.dir.path().join("called"), inner.dir.path().join("cancelled"));
    let mcp = with(&upstreams, |config| {
        config.policy.limits.timeout_ms = 60_000;
        config.policy.limits.tool_timeout_ms = 3_000;
    });
    let begun = Instant::now();
    let result = mcp.python(
        "try: tools.slow_wait()\nexcept tools.ToolError as error: print(type(error).__name__)\nprint(tools.slow_now())",
    );
    assert_eq!(text(&result), "ToolTimeout\nnow\n");
    assert!(begun.elapsed() < Duration::from_secs(60));
    until("the server is told", || cancelled.exists());
    std::fs::remove_file(&cancelled).unwrap();
    std::fs::remove_file(&called).unwrap();
    let mcp = with(&upstreams, |config| {
        config.policy.limits.timeout_ms = 60_000;
        config.policy.limits.tool_timeout_ms = 60_000;
    });
    let handle = mcp.begin("run_code", json!({ "language": "python", "code": "tools.slow_wait()" }));
    until("the server is called", || called.exists());
    mcp.runtime.block_on(handle.cancel(None)).unwrap();
    until("it has ended", || mcp.running() == 0);
    until("the server is told", || cancelled.exists());
    assert_eq!(text(&mcp.python("print(tools.slow_now())")), "now\n", "the server is still usable");
    runtime.block_on(upstreams.close());
}

#[test]
fn upstream_result_over_the_limit_is_rejected() {
    let inner =
        UpstreamScript::new(&json!([tool("x", json!({ "n": { "type": "integer" } }))]), "text('x' * arguments['n'])");
    let runtime = runtime();
    let upstreams = start(&runtime, vec![inner.config("s")], 1_000).unwrap();
    let mcp = with(&upstreams, |config| config.policy.limits.tool_bytes = 1_000);
    // The maximum message size is four times the maximum result size plus 4 MiB. A larger message ends the connection
    // to the server.
    let result = mcp.python(
        "for n in (997, 998, 999, 5_000_000, 1):\n\x20   try: print(len(tools.s_x(n=n)))\n\x20   except tools.ToolError as error: print(type(error).__name__, error)",
    );
    let printed = text(&result);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(&lines[..2], ["997", "998"], "{printed}");
    assert_eq!(
        lines[2],
        "ToolLimit the result is 1001 bytes; the maximum `limits.tool_bytes` is 1000; return less or raise the limit"
    );
    assert!(lines[3].starts_with("ToolError MCP server `s` has ended: a message was too long"), "{printed}");
    assert_eq!(lines[4], "1", "the server is restarted");
    runtime.block_on(upstreams.close());
}

#[test]
fn clashing_and_unusable_tool_names_are_rejected() {
    let runtime = runtime();
    let refused = |inner: &[(&UpstreamScript, &str)]| {
        let configs = inner.iter().map(|(inner, name)| inner.config(name)).collect();
        start(&runtime, configs, 1 << 20).unwrap_err()
    };
    let (dashed, plain) = (
        UpstreamScript::new(&json!([tool("a-b", json!({}))]), "pass"),
        UpstreamScript::new(&json!([tool("b", json!({}))]), "pass"),
    );
    let clash = refused(&[(&dashed, "s"), (&plain, "s.a")]);
    assert_eq!(
        clash,
        "tool `b` of MCP server `s.a` cannot be offered as `tools.s_a_b`: `a-b` of `s` has the same name; rename a server, or list only one of the tools"
    );
    for (name, server) in [("x".repeat(63), "s"), ("x".into(), "1"), ("x".into(), "-"), ("\u{202e}\n".repeat(50), "s")]
    {
        let inner = UpstreamScript::new(&json!([tool(&name, json!({}))]), "pass");
        let error = refused(&[(&inner, server)]);
        assert!(
            error.contains("does not begin with a letter")
                && !error.contains(['\n', '\u{202e}'])
                && error.len() < 2_000,
            "{error}"
        );
    }
    let at = UpstreamScript::new(&json!([tool(&"x".repeat(62), json!({}))]), "pass");
    let upstreams = start(&runtime, vec![at.config("s")], 1 << 20).unwrap();
    assert_eq!(upstreams.tools().len(), 1);
    runtime.block_on(upstreams.close());
    let mut missing = plain.config("s");
    missing.tools = Some(vec!["c".into()]);
    let error = start(&runtime, vec![missing], 1 << 20).unwrap_err();
    assert!(error.contains("MCP server `s` has no tool `c`; remove it from its `tools`"), "{error}");
    let mut missing = plain.config("s");
    missing.approve = Approve::Tools(vec!["b".into(), "c".into()]);
    let error = start(&runtime, vec![missing], 1 << 20).unwrap_err();
    assert!(error.contains("MCP server `s` has no tool `c`; remove it from its `approve`"), "{error}");
}

#[test]
fn hostile_tool_list_is_bounded() {
    let runtime = runtime();
    let refused = |list: &str| {
        let inner = UpstreamScript::answering(list, "pass");
        start(&runtime, vec![inner.config("evil")], 1_000).unwrap_err()
    };
    for (list, expected) in [
        (
            "say({'tools': [{'name': f't{i}', 'inputSchema': {'type': 'object'}} for i in range(257)]})",
            "has more than 256 tools",
        ),
        ("say({'tools': [], 'nextCursor': 'again'})", "lists its tools on more than 64 pages"),
        (
            "put({'jsonrpc': '2.0', 'id': m['id'], 'error': {'code': 1, 'message': 'no\\nline'}})",
            "failed to list its tools: ",
        ),
        (
            "say({'tools': [{'name': 'x', 'description': 'd' * 6_000_000, 'inputSchema': {}}]})",
            "a message was too long",
        ),
        ("print('I go', file=sys.stderr, flush=True); os._exit(1)", "its standard error ends with: I go"),
    ] {
        let error = refused(list);
        assert!(
            error.starts_with("MCP server `evil` ") && error.contains(expected) && !error.contains('\n'),
            "{error}"
        );
    }
    // Unusable schemas are replaced with a schema that accepts any object. The upstream server validates the arguments
    // itself.
    let schemas = json!([
        { "name": "look", "inputSchema": { "type": "object", "properties": { "a": { "pattern": "(?=x)y" } } } },
        { "name": "wide", "inputSchema": { "type": "object", "properties": (0..5_000).map(|i| (format!("p{i}"), json!({}))).collect::<serde_json::Map<_, _>>() } },
        { "name": "away", "inputSchema": { "type": "object", "properties": { "a": { "$ref": "http://x" } } } },
        { "name": "list", "inputSchema": { "type": "array" } },
    ]);
    let inner = UpstreamScript::new(&schemas, "text(name)");
    let upstreams = start(&runtime, vec![inner.config("odd")], 1 << 20).unwrap();
    let mcp = with(&upstreams, |_| {});
    let result =
        mcp.python("print(tools.odd_look(a='q'), tools.odd_wide(p1=1), tools.odd_away(a=1), tools.odd_list())");
    assert_eq!(text(&result), "look wide away list\n", "{result:?}");
    assert!(structured(&result)["stdout"] == "look wide away list\n");
    runtime.block_on(upstreams.close());
}

#[test]
fn size_of_a_tool_list_is_limited_over_all_pages() {
    let runtime = runtime();
    // The maximum result size is 0, so a message is limited to 4 MiB.
    let max = 4 << 20;
    let described = |index: usize, length: usize| json!({ "name": format!("t{index}"), "description": "x".repeat(length), "inputSchema": { "type": "object" } });
    let bytes = |tool: &Value| {
        let tool: rmcp::model::Tool = serde_json::from_value(tool.clone()).unwrap();
        serde_json::to_vec(&tool).unwrap().len()
    };
    let list = "tools = json.load(open(os.path.join(os.path.dirname(__file__), 'tools.json')))\n\
                page = int(m.get('params', {}).get('cursor') or 0)\n\
                next = {'nextCursor': str(page + 1)} if page + 1 < len(tools) else {}\n\
                say({'tools': [tools[page]], **next})";
    let inner = UpstreamScript::answering(list, "pass");
    for (total, is_refused) in [(max - 1, false), (max, false), (max + 1, true)] {
        let mut tools = vec![described(0, max / 3), described(1, max / 3), described(2, 0)];
        let length = total - tools.iter().map(bytes).sum::<usize>();
        tools[2] = described(2, length);
        std::fs::write(inner.dir.path().join("tools.json"), json!(tools).to_string()).unwrap();
        let started = start(&runtime, vec![inner.config("s")], 0);
        match started {
            Ok(upstreams) => {
                assert!(!is_refused && upstreams.tools().len() == 3, "{total}");
                runtime.block_on(upstreams.close());
            }
            Err(error) => {
                let message =
                    format!("MCP server `s` describes its tools in more than {max} bytes or with too many values");
                assert!(is_refused && error.starts_with(&message), "{total}: {error}");
            }
        }
    }
    // Only the tools in `tools` and `approve` count towards the limit.
    let mut config = inner.config("s");
    config.tools = Some(vec!["t0".into()]);
    config.approve = Approve::Tools(vec!["t1".into()]);
    let upstreams = start(&runtime, vec![config], 0).unwrap();
    assert_eq!(upstreams.tools().len(), 1);
    runtime.block_on(upstreams.close());
}

#[test]
fn number_of_values_in_a_tool_list_is_limited_over_all_pages() {
    let runtime = runtime();
    // Each page has 100,000 values, and a message can have at most 262,144.
    let list = "page = int(m.get('params', {}).get('cursor') or 0)\n\
                tool = {'name': f't{page}', 'inputSchema': {'type': 'object', 'x': [0] * 100_000}}\n\
                say({'tools': [tool], **({'nextCursor': str(page + 1)} if page < int(open(os.path.join(os.path.dirname(__file__), 'last')).read()) else {})})";
    let inner = UpstreamScript::answering(list, "pass");
    for (last, is_refused) in [(1, false), (2, true)] {
        std::fs::write(inner.dir.path().join("last"), last.to_string()).unwrap();
        match start(&runtime, vec![inner.config("s")], 0) {
            Ok(upstreams) => {
                assert!(!is_refused, "{last}");
                runtime.block_on(upstreams.close());
            }
            Err(error) => assert!(is_refused && error.contains("with too many values; list the tools"), "{error}"),
        }
    }
}

#[test]
fn command_that_is_not_a_server_is_named() {
    let runtime = runtime();
    let config = |command: &str, args: &[&str]| {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let process = ProcessConfig { command: command.into(), args, ..ProcessConfig::default() };
        UpstreamConfig {
            name: "x".into(),
            transport: UpstreamTransport::Process(process),
            tools: None,
            approve: Approve::Never,
        }
    };
    for (config, expected) in [
        (config("/no/such/program", &[]), "MCP server `x` cannot be started: "),
        (config("sh", &["-c", "echo nonsense; echo why >&2"]), "did not respond as an MCP server: "),
        // The endless output ends after one second, so that the test does not wait 60 s for the start to time out.
        (config("sh", &["-c", "timeout 1 yes"]), "did not respond as an MCP server: "),
        (config("sh", &["-c", "head -c 9000000 /dev/zero; echo"]), "did not respond as an MCP server: "),
    ] {
        // A server that sends no valid message is abandoned when it exits or times out.
        let error = start(&runtime, vec![config], 1 << 20).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
