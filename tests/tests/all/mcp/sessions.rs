//! Tests sessions over the protocol, on the server and in a fleet.

use glovebox::{Approve, Tool};
use glovebox_server::SessionLocation;
use serde_json::json;

use super::support::{Mcp, structured, text};
use crate::fleet_engine::FleetEngine;

#[test]
fn a_session_is_opened_used_copied_undone_and_closed() {
    let mcp = Mcp::new();
    let opened = mcp.ok("session_open", json!({ "language": "python", "session": "mine" }));
    assert!(text(&opened).starts_with("Session `mine` is open: python ("), "{opened:?}");
    assert_eq!(structured(&mcp.in_session("mine", "x = 1\nopen('a', 'w').write('1')"))["session"], "mine");
    assert_eq!(structured(&mcp.ok("session_fork", json!({ "session": "mine", "fork": "copy" })))["session"], "copy");
    mcp.in_session("mine", "x = 2\nopen('a', 'w').write('2')");
    mcp.ok("session_undo", json!({ "session": "mine" }));
    assert_eq!(text(&mcp.in_session("mine", "print(x, open('a').read())")), "1 1\n");
    mcp.in_session("copy", "x = 3");
    assert_eq!(text(&mcp.in_session("mine", "print(x)")), "1\n");
    let listed = mcp.ok("session_list", json!({}));
    let names: Vec<_> =
        structured(&listed)["sessions"].as_array().unwrap().iter().map(|session| session["session"].clone()).collect();
    assert_eq!(names, ["mine", "copy"], "most recently used first");
    assert!(text(&listed).contains("copy: python, ") && structured(&listed)["more"] == 0, "{listed:?}");
    for name in ["mine", "copy"] {
        mcp.ok("session_close", json!({ "session": name }));
    }
    assert_eq!(text(&mcp.ok("session_list", json!({}))), "There are no sessions.");
    assert!(mcp.refused("session_undo", json!({ "session": "mine" })).starts_with("not-found: "));
}

#[test]
fn other_language_and_taken_name_are_rejected() {
    let mcp = Mcp::new();
    mcp.ok("session_open", json!({ "language": "typescript", "session": "js" }));
    let refused = mcp.refused("run_code", json!({ "language": "python", "code": "1", "session": "js" }));
    assert!(refused.contains("session `js` runs javascript, not python"), "{refused}");
    let typed =
        mcp.ok("run_code", json!({ "language": "typescript", "code": "const a: string = 'b'; a", "session": "js" }));
    assert_eq!(structured(&typed)["value"], "'b'", "{typed:?}");
    assert!(mcp.refused("session_open", json!({ "language": "python", "session": "js" })).starts_with("exists: "));
}

#[test]
fn number_of_sessions_is_limited() {
    let mcp = Mcp::changed(|config| config.sessions = 2);
    for name in ["a", "b"] {
        mcp.ok("session_open", json!({ "language": "javascript", "session": name }));
    }
    let open = json!({ "language": "javascript", "session": "c" });
    let refused = mcp.refused("session_open", open.clone());
    assert!(refused.starts_with("quota-exceeded: too many sessions: the limit is 2"), "{refused}");
    mcp.ok("session_close", json!({ "session": "a" }));
    mcp.ok("session_open", open);
}

#[test]
fn unwound_script_leaves_the_session_unchanged() {
    let mcp =
        Mcp::changed(|config| (config.policy.limits.timeout_ms, config.policy.limits.timeout_reserve_ms) = (60_000, 0));
    let session = mcp.session();
    mcp.in_session(&session, "x = 1");
    let code = "x = 2\nwhile True:\n    try:\n        while True: pass\n    except BaseException: pass";
    let stopped =
        mcp.call("run_code", json!({ "language": "python", "session": session, "code": code, "timeout_ms": 2_000 }));
    assert_eq!((stopped.is_error, &structured(&stopped)["rolled_back"]), (Some(true), &json!(true)), "{stopped:?}");
    assert!(text(&stopped).contains("The session was restored to its state before this script."), "{}", text(&stopped));
    assert_eq!(text(&mcp.in_session(&session, "print(x)")), "1\n");
}

fn mcp_in_fleet(engine: &FleetEngine) -> Mcp {
    let client = engine.client();
    Mcp::changed(|config| config.location = SessionLocation::Fleet { client, scope: "mcp".parse().unwrap() })
}

#[test]
fn fleet_session_behaves_like_any_other() {
    let engine = FleetEngine::start();
    let mcp = mcp_in_fleet(&engine);
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
    let mcp = mcp_in_fleet(&engine);
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
