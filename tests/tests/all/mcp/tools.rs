//! Tests the tools' descriptions for clients.

use rmcp::{
    model::{CallToolRequestParams, ProtocolVersion, Tool},
    service::ClientLifecycleMode,
};
use serde_json::{Value, json};

use super::support::{Mcp, Setup, text};

const NAMES: [&str; 9] = [
    "run_code",
    "session_open",
    "session_list",
    "session_fork",
    "session_undo",
    "session_close",
    "files_list",
    "files_read",
    "files_write",
];

fn tools(mcp: &Mcp) -> Vec<Tool> {
    mcp.runtime.block_on(mcp.client().list_all_tools()).unwrap()
}

#[test]
fn tool_list_is_ordered_and_described() {
    let mcp = Mcp::new();
    let listed = tools(&mcp);
    assert_eq!(listed.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), NAMES);
    assert_eq!(listed, tools(&Mcp::new()), "every client sees the same tools");
    for tool in &listed {
        let (input, output) = (json!(*tool.input_schema), json!(**tool.output_schema.as_ref().unwrap()));
        assert_eq!((&input["type"], &output["type"]), (&json!("object"), &json!("object")), "{}", tool.name);
        assert_eq!(input["additionalProperties"], false, "{}", tool.name);
        assert!(tool.title.is_some() && tool.description.as_ref().is_some_and(|text| text.len() > 20), "{}", tool.name);
        // The schemas avoid references and integer formats, which some clients do not support.
        for word in ["$ref", "$defs", "\"format\"", "\"default\":null"] {
            assert!(!input.to_string().contains(word), "{}: {input}", tool.name);
        }
    }
    let hints: Vec<_> = listed
        .iter()
        .map(|tool| {
            let hints = tool.annotations.clone().unwrap();
            [hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint]
                .map(Option::unwrap)
        })
        .collect();
    let (looks, adds) = ([true, false, true, false], [false, false, false, false]);
    let (changes, ends) = ([false, true, false, false], [false, true, true, false]);
    assert_eq!(hints, [changes, adds, looks, adds, changes, ends, looks, looks, ends]);
}

#[test]
fn tool_description_lists_runtimes_and_packages() {
    let mcp = Mcp::changed(|config| config.policy.limits.timeout_ms = 2_500);
    let run = tools(&mcp).remove(0);
    let description = run.description.unwrap();
    for fact in ["CPython 3.", "QuickJS 0.", "no network", "2.5 s", "128 MiB of memory", "Only sessions have state"] {
        assert!(description.contains(fact), "{fact}: {description}");
    }
    let reaching = Mcp::changed(|config| config.policy.network.allow = vec!["https://api.example.com/v1/*".into()]);
    let reaching = tools(&reaching).remove(0);
    assert_eq!(reaching.annotations.unwrap().open_world_hint, Some(true));
    let description = reaching.description.unwrap();
    assert!(description.contains("can reach only https://api.example.com/v1/*."), "{description}");
    assert!(!description.contains("There is no network"), "{description}");
    let input = json!(*run.input_schema);
    assert_eq!(input["properties"]["timeout_ms"]["maximum"], 2_500);
    assert_eq!(input["properties"]["language"]["enum"], json!(["python", "javascript", "typescript"]));
    assert_eq!(input["required"], json!(["language", "code"]));
    // The descriptions only mention the configured runtimes.
    let service = glovebox_server::ServiceConfig { runtimes: vec!["javascript".into()], ..Default::default() };
    let mcp = Mcp::with(Setup { service, listing: "And this.".into(), ..Setup::default() });
    let run = tools(&mcp).remove(0);
    assert!(!run.description.as_ref().unwrap().contains("CPython") && run.description.unwrap().ends_with("And this."));
    assert_eq!(json!(*run.input_schema)["properties"]["language"]["enum"], json!(["javascript", "typescript"]));
    let refused = mcp.refused("run_code", json!({ "language": "python", "code": "1" }));
    assert!(refused.contains("unknown-runtime: this server does not offer the runtime `python`"), "{refused}");
}

#[test]
fn wrong_arguments_are_named_and_the_next_call_works() {
    let mcp = Mcp::new();
    for (name, arguments, expected) in [
        ("run_code", json!({ "language": "python", "code": "1", "timeout": 1 }), "unknown field `timeout`"),
        ("run_code", json!({ "code": "1" }), "missing field `language`"),
        ("run_code", json!({ "language": "cobol", "code": "1" }), "unknown variant `cobol`"),
        ("run_code", json!({ "language": "python", "code": "1", "session": "../x" }), "is not a valid session ID"),
        ("run_code", json!({ "language": "python", "code": "1", "session": "none" }), "not-found: "),
        ("session_list", json!({ "all": true }), "unknown field `all`"),
        ("session_close", json!({ "session": "none" }), "not-found: "),
        ("session_fork", json!({ "session": "none", "fork": "a b" }), "is not a valid session ID"),
        (
            "files_read",
            json!({ "session": "none", "path": "x", "length": 0 }),
            "`length` is 0; it must be between 1 and 65536",
        ),
        ("files_write", json!({ "session": "none", "path": "x" }), "send either `text` or `base64`"),
    ] {
        let refused = mcp.refused(name, arguments.clone());
        assert!(refused.contains(expected), "{name} {arguments}: {refused}");
    }
    let unknown =
        mcp.runtime.block_on(mcp.client().call_tool(CallToolRequestParams::new("rm\n"))).unwrap_err().to_string();
    assert!(unknown.contains("unknown tool `rm\\n`; use one of run_code, session_open"), "{unknown}");
    assert_eq!(text(&mcp.python("print(1)")), "1\n");
}

#[test]
fn requested_timeout_applies_within_the_grant() {
    let mcp = Mcp::changed(|config| config.policy.limits.timeout_ms = 2_000);
    let run = |timeout_ms: u64| {
        mcp.call("run_code", json!({ "language": "javascript", "code": "while (true) {}", "timeout_ms": timeout_ms }))
    };
    for (timeout_ms, expected) in [(1, "longer than 1 ms"), (300, "longer than 300 ms"), (2_000, "longer than 2000 ms")]
    {
        let result = run(timeout_ms);
        assert!(result.is_error == Some(true) && text(&result).contains(expected), "{result:?}");
        assert_eq!(result.structured_content.unwrap()["outcome"], "exhausted");
    }
    for timeout_ms in [0, 2_001, u64::MAX] {
        let refused = text(&run(timeout_ms));
        assert!(refused.contains(&format!("`timeout_ms` is {timeout_ms}; it must be between 1 and 2000")), "{refused}");
    }
    // The timeout also applies in a session, which continues afterwards.
    let session = mcp.session();
    mcp.ok("run_code", json!({ "language": "python", "session": session, "code": "x = 1" }));
    let code = json!({ "language": "python", "session": session, "code": "while True: pass", "timeout_ms": 300 });
    let result = mcp.call("run_code", code);
    assert!(text(&result).contains("longer than 300 ms (`timeout_ms`)"), "{result:?}");
    assert_eq!(
        mcp.ok("run_code", json!({ "language": "python", "session": session, "code": "x" }))
            .structured_content
            .unwrap()["value"],
        "1"
    );
}

#[test]
fn every_protocol_version_is_supported() {
    let discover = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    let auto =
        ClientLifecycleMode::Auto { preferred_versions: vec![ProtocolVersion::V_2026_07_28], legacy_version: None };
    for lifecycle in [ClientLifecycleMode::Initialize, discover, auto] {
        let mcp = Mcp::with(Setup { lifecycle: Some(lifecycle), ..Setup::default() });
        assert_eq!(tools(&mcp).len(), NAMES.len());
        let answer =
            mcp.ok("run_code", json!({ "language": "typescript", "code": "const x: number = 6; console.log(x * 7)" }));
        assert_eq!(
            (text(&answer), &answer.structured_content.unwrap()["stdout"]),
            ("42\n".into(), &Value::from("42\n"))
        );
    }
}
