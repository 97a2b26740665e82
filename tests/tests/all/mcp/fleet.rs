//! Tests a model's sessions in a fleet.

use glovebox::{Approve, Tool};
use glovebox_server::SessionLocation;
use serde_json::json;

use super::support::Mcp;
use crate::fleet_engine::FleetEngine;

fn mcp(engine: &FleetEngine) -> Mcp {
    let client = engine.client();
    Mcp::changed(|config| config.location = SessionLocation::Fleet { client, scope: "mcp".parse().unwrap() })
}

#[test]
fn fleet_session_behaves_like_any_other() {
    let engine = FleetEngine::start();
    let mcp = mcp(&engine);
    mcp.ok("session_open", json!({"language": "python", "session": "s"}));
    let run = |code: &str| mcp.ok("run_code", json!({"language": "python", "session": "s", "code": code}));
    run("x = 41; print('hello')");
    let answer = run("x + 1").structured_content.unwrap();
    assert_eq!((&answer["value"], &answer["session"]), (&json!("42"), &json!("s")), "{answer}");
    let rolled_back = run("'rolled back'").structured_content.unwrap();
    assert_eq!(rolled_back["rolled_back"], true);
    let failed = mcp.call("run_code", json!({"language": "python", "session": "s", "code": "print('a')\n1 / 0"}));
    let answer = failed.structured_content.unwrap();
    assert_eq!((&answer["outcome"], &answer["line"], &answer["stdout"]), (&json!("raised"), &json!(2), &json!("a\n")));
    let listed = mcp.ok("session_list", json!({})).structured_content.unwrap();
    assert_eq!((&listed["sessions"][0]["session"], &listed["more"]), (&json!("s"), &json!(0)));
    mcp.ok("session_undo", json!({"session": "s"}));
    assert!(mcp.refused("session_undo", json!({"session": "s"})).contains("no-checkpoint"));
    mcp.ok("session_close", json!({"session": "s"}));
    assert!(mcp.refused("session_close", json!({"session": "s"})).contains("not-found"));
}

#[test]
fn tools_that_the_policy_marks_need_an_approval_in_a_fleet() {
    let engine = FleetEngine::start();
    let client = engine.client();
    let mcp = Mcp::changed(move |config| {
        config.location = SessionLocation::Fleet { client, scope: "mcp".parse().unwrap() };
        config.tools = vec![Tool::new("pay", "Pays.").handler(|_, arguments| Ok(arguments))];
        config.policy.tools.entry("pay".to_owned()).or_default().approve = Approve::Always;
    });
    mcp.ok("session_open", json!({"language": "python", "session": "s"}));
    let code = "try:\n    tools.pay()\nexcept tools.ToolError as error:\n    print(type(error).__name__)";
    let answer = mcp.ok("run_code", json!({"language": "python", "session": "s", "code": code}));
    assert_eq!(answer.structured_content.unwrap()["stdout"], "ToolDenied\n", "the client cannot ask a person");
}

#[test]
fn tools_unsupported_by_a_fleet_are_not_offered() {
    let engine = FleetEngine::start();
    let mcp = mcp(&engine);
    let tools = mcp.runtime.block_on(mcp.client().list_all_tools()).unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["run_code", "session_open", "session_list", "session_undo", "session_close"]);
    let run_code = tools[0].description.as_deref().unwrap();
    assert!(!run_code.contains("files_write"), "{run_code}");
    mcp.ok("session_open", json!({"language": "python", "session": "s"}));
    let files = json!([{"path": "a", "text": "b"}]);
    for (name, arguments) in [
        ("session_fork", json!({"session": "s"})),
        ("files_list", json!({"session": "s"})),
        ("files_read", json!({"session": "s", "path": "a"})),
        ("files_write", json!({"session": "s", "path": "a", "text": "b"})),
        ("run_code", json!({"language": "python", "session": "s", "code": "1", "files": files})),
    ] {
        let message = mcp.refused(name, arguments);
        assert!(message.starts_with("not-in-a-fleet: a fleet does not support"), "{name}: {message}");
    }
    let code = json!({"language": "python", "code": "print(open('a').read())", "files": files});
    mcp.ok("run_code", code);
}
