//! Tests type checks of scripts before `run_code` runs them.

use std::sync::Arc;

use glovebox::Tool;
use glovebox_server::TenantConfig;
use serde_json::{Value, json};

use super::support::{Mcp, Setup, structured, text};
use crate::server::type_checks::MarkChecker;

fn checked(code: &str) -> Value {
    json!({ "language": "python", "code": code, "check_types": true })
}

/// Returns `true` if the description of `run_code` has the `check_types` argument.
fn is_offered(mcp: &Mcp) -> bool {
    let tools = mcp.runtime.block_on(mcp.client().list_all_tools()).unwrap();
    let run = tools.iter().find(|tool| tool.name == "run_code").unwrap();
    json!(*run.input_schema)["properties"].get("check_types").is_some()
}

#[test]
fn code_with_type_errors_does_not_run() {
    let checker = Arc::<MarkChecker>::default();
    let pay = Tool::new("pay", "Pays.").handler(|_, _| Ok(json!(1)));
    let mcp = Mcp::with(Setup {
        service: checker.service(),
        change: Some(Box::new(|config: &mut TenantConfig| config.approved_tools = vec![pay])),
        ..Setup::default()
    });
    assert!(is_offered(&mcp));
    assert_eq!(text(&mcp.ok("run_code", checked("print(1)"))), "1\n");
    let session = mcp.session();
    mcp.ok("run_code", json!({ "language": "python", "code": "x = 1", "session": session, "check_types": true }));
    let wrong = json!({ "language": "python", "code": "x = 2\nx # wrong", "session": session, "check_types": true });
    let result = mcp.call("run_code", wrong);
    assert_eq!(result.is_error, Some(true), "{result:?}");
    assert!(text(&result).ends_with("\nline 2, column 1: x # wrong"), "{result:?}");
    let answer = structured(&result);
    assert_eq!(answer["outcome"], "type-errors");
    assert_eq!(answer["type_errors"], json!([{ "line": 2, "column": 1, "message": "x # wrong" }]));
    assert_eq!(text(&mcp.in_session(&session, "print(x)")), "1\n");
    // Tools that need an approval are also declared.
    let checked = |variables: &[&str]| {
        (vec!["pay".to_owned()], Some(variables.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()))
    };
    assert_eq!(*checker.checked.lock().unwrap(), [checked(&[]), checked(&[]), checked(&["x"])]);
}

#[test]
fn server_without_a_checker_names_the_flag() {
    let mcp = Mcp::new();
    assert!(!is_offered(&mcp));
    let refused = mcp.refused("run_code", checked("1"));
    assert!(refused.starts_with("unsupported: ") && refused.contains("mcp --types`"), "{refused}");
    let with = Mcp::with(Setup { service: Arc::<MarkChecker>::default().service(), ..Setup::default() });
    let refused = with.refused("run_code", json!({ "language": "ts", "code": "1", "check_types": true }));
    assert!(refused.contains("`check_types` supports only Python"), "{refused}");
}
