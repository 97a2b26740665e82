//! Tests type checks of scripts before they run, with a checker that reports marked lines.

use std::{
    error::Error,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use glovebox::{CancelToken, Diagnostic, Tool};
use glovebox_server::{CheckTypes, ServiceConfig, TenantConfig, TypedScript};
use serde_json::{Value, json};

use super::support::{Answer, LINES, Server, Setup, metric, until};

/// The names of a checked script's tools and of its session's variables. `None` if the variables are unknown.
pub(crate) type CheckedNames = (Vec<String>, Option<Vec<String>>);

/// A checker that reports each line that ends with `# wrong`. A script with `# slow` is checked until it is cancelled,
/// and the check of a script with `# fail` fails.
#[derive(Debug, Default)]
pub(crate) struct MarkChecker {
    pub(crate) checked: Mutex<Vec<CheckedNames>>,
    running: AtomicUsize,
    max_running: AtomicUsize,
}

impl MarkChecker {
    /// Returns the configuration of a service with this checker.
    pub(crate) fn service(self: &Arc<Self>) -> ServiceConfig {
        ServiceConfig { type_checker: Some(Arc::clone(self) as Arc<dyn CheckTypes>), ..ServiceConfig::default() }
    }

    fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }
}

impl CheckTypes for MarkChecker {
    fn check(
        &self,
        script: &TypedScript<'_>,
        cancel: &CancelToken,
    ) -> Result<Vec<Diagnostic>, Box<dyn Error + Send + Sync>> {
        assert!(script.version.unwrap().starts_with("3."), "{script:?}");
        let tools = script.tools.unwrap().iter().map(|tool| tool.name().to_owned()).collect();
        let variables = script.variables.map(|all| all.iter().map(|variable| variable.name.clone()).collect());
        self.checked.lock().unwrap().push((tools, variables));
        if script.source.contains("# fail") {
            return Err("cannot write /secret".into());
        }
        if script.source.contains("# slow") {
            self.max_running.fetch_max(self.running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let _ = cancel.wait_timeout(Duration::from_secs(60));
            self.running.fetch_sub(1, Ordering::SeqCst);
        }
        let lines = (1..).zip(script.source.lines()).filter(|(_, line)| line.ends_with("# wrong"));
        Ok(lines.map(|(line, text)| Diagnostic { line, column: 1, message: text.to_owned() }).collect())
    }
}

fn server(checker: &Arc<MarkChecker>) -> Server {
    let change =
        |tenant: &mut TenantConfig| tenant.tools = vec![Tool::new("add", "Adds.").handler(|_, _| Ok(json!(3)))];
    Server::start(Setup { service: checker.service(), tenant: Some(Box::new(change)), ..Setup::default() })
}

fn checked(source: &str) -> Value {
    json!({ "language": "python", "source": source, "check_types": true })
}

fn wrong(line: u32, message: &str) -> Value {
    json!([{ "line": line, "column": 1, "message": message }])
}

#[test]
fn script_with_type_errors_does_not_run() {
    let checker = Arc::<MarkChecker>::default();
    let server = server(&checker);
    assert_eq!(server.post("/v1/execute", &checked("print(tools.add())")).ok()["stdout"], "3\n");
    let answer = server.post("/v1/execute", &checked("tools.add()\nx # wrong"));
    assert_eq!(answer.problem(), (422, "type-errors".into()));
    assert_eq!(answer.json()["diagnostics"], wrong(2, "x # wrong"));
    // Without the option, the script runs.
    let unchecked = json!({ "language": "python", "source": "print(1)\n2 # wrong" });
    assert_eq!(server.post("/v1/execute", &unchecked).ok()["stdout"], "1\n");
    // A streamed response ends with the problem.
    let (mut pieces, _) = server.stream("/v1/execute", &checked("print(1)\nx # wrong"));
    let last = pieces.next().unwrap();
    assert_eq!((&last["type"], &last["problem"]["diagnostics"]), (&json!("error"), &wrong(2, "x # wrong")), "{last}");
    // A script with syntax errors raises them; its types are not checked.
    let before = checker.checked.lock().unwrap().len();
    let answer = server.post("/v1/execute", &checked("x = (\ny # wrong")).ok();
    assert_eq!((&answer["outcome"]["kind"], &answer["outcome"]["type"]), (&json!("raised"), &json!("SyntaxError")));
    assert_eq!(checker.checked.lock().unwrap().len(), before);
    // The audit log contains no entries for the rejected scripts, because they were not executed.
    assert_eq!(server.audited().len(), 3, "{:?}", server.audited());
}

#[test]
fn validation_reports_type_errors_only_on_request() {
    let checker = Arc::<MarkChecker>::default();
    let server = server(&checker);
    let validate = |body: &Value| server.post("/v1/validate", body).ok()["diagnostics"].clone();
    assert_eq!(validate(&json!({ "language": "python", "source": "x # wrong" })), json!([]));
    let mut body = checked("x # wrong");
    body["tools"] = json!([{ "name": "ask" }]);
    assert_eq!(validate(&body), wrong(1, "x # wrong"));
    let found = validate(&checked("x # wrong\n("));
    assert!(found[0]["message"].as_str().unwrap().starts_with("SyntaxError") && found[1].is_null(), "{found}");
    assert_eq!(*checker.checked.lock().unwrap(), [(vec!["add".to_owned(), "ask".to_owned()], Some(Vec::new()))]);
    let many = "x # wrong\n".repeat(100);
    assert_eq!(validate(&checked(&many)).as_array().unwrap().len(), 20);
}

#[test]
fn scripts_in_sessions_and_with_tools_of_the_client_are_checked() {
    let checker = Arc::<MarkChecker>::default();
    let server = server(&checker);
    server.post("/v1/sessions", &json!({ "id": "s", "language": "python" })).ok();
    let run = |source: &str| {
        let body = json!({ "source": source, "check_types": true, "tools": [{ "name": "ask" }] });
        server.post("/v1/sessions/s/execute", &body)
    };
    assert_eq!(run("x = 1").ok()["outcome"]["kind"], "completed");
    let answer = run("x = 2\nx # wrong");
    assert_eq!(answer.problem(), (422, "type-errors".into()));
    assert_eq!(server.get("/v1/sessions/s/variables/x").ok()["repr"], "1");
    assert_eq!(server.get("/v1/sessions/s").ok()["executions"], 1);
    assert_eq!(run("tools.ask()").status, 202);
    let expected = |variables: &[&str]| {
        let variables: Vec<String> = variables.iter().map(|name| (*name).to_owned()).collect();
        (vec!["add".to_owned(), "ask".to_owned()], Some(variables))
    };
    assert_eq!(*checker.checked.lock().unwrap(), [expected(&[]), expected(&["x"]), expected(&["x"])]);
}

#[test]
fn checks_in_a_session_do_not_change_it() {
    let checker = Arc::<MarkChecker>::default();
    let server = server(&checker);
    server.post("/v1/sessions", &json!({ "id": "s", "language": "python", "context": [1] })).ok();
    let run = |source: &str, check_types: bool| {
        server.post("/v1/sessions/s/execute", &json!({ "source": source, "check_types": check_types }))
    };
    run("import random\nrandom.seed(1)\nnumbers = [random.random()]", false).ok();
    let before = server.get("/v1/sessions/s").ok();
    assert_eq!(run("numbers.clear() # wrong", true).problem(), (422, "type-errors".into()));
    let validate = |session: &str, body: &Value| server.post(&format!("/v1/sessions/{session}/validate"), body);
    let unchecked = json!({ "source": "numbers # wrong" });
    assert_eq!(validate("s", &unchecked).ok()["diagnostics"], json!([]));
    let typed = json!({ "source": "numbers # wrong", "check_types": true });
    assert_eq!(validate("s", &typed).ok()["diagnostics"], wrong(1, "numbers # wrong"));
    assert_eq!(validate("none", &typed).problem(), (404, "not-found".into()));
    assert_eq!(validate("s", &checked("1")).problem(), (400, "invalid-argument".into()));
    let after = server.get("/v1/sessions/s").ok();
    for key in ["executions", "generation"] {
        assert_eq!(before[key], after[key], "{key}");
    }
    assert_eq!(run("print(len(numbers))", true).ok()["stdout"], "1\n");
    // A session whose variables cannot be determined can use any name.
    run("for number in range(2_000):\n    globals()[f'x{number}'] = number", false).ok();
    assert_eq!(run("print(x7)", true).ok()["stdout"], "7\n");
    let names = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    let known = names(&["context", "numbers", "random"]);
    let checked: Vec<_> = checker.checked.lock().unwrap().iter().map(|(_, variables)| variables.clone()).collect();
    assert_eq!(checked, [known.clone(), known.clone(), known, None]);
}

#[test]
fn checks_that_are_impossible_are_refused() {
    let checker = Arc::<MarkChecker>::default();
    let with = server(&checker);
    let without = Server::start(Setup::default());
    let long = "#".repeat((256 << 10) + 1);
    let javascript = json!({ "language": "javascript", "source": "1", "check_types": true });
    for (server, body, status, kind, part) in [
        (&without, checked("1"), 422, "unsupported", "serve --types`"),
        (&with, javascript, 400, "invalid-argument", "only Python"),
        (&with, checked(&long), 413, "too-large", "262145 bytes"),
        (&with, checked("1 # fail"), 503, "unavailable", "its type check failed"),
    ] {
        for path in ["/v1/execute", "/v1/validate"] {
            let answer = server.post(path, &body);
            assert_eq!(answer.problem(), (status, kind.into()), "{path}");
            let detail = answer.json()["detail"].as_str().unwrap().to_owned();
            assert!(detail.contains(part) && !detail.contains("/secret"), "{path}: {detail}");
        }
    }
    assert_eq!(with.post("/v1/execute", &checked(&long[1..])).ok()["outcome"]["kind"], "completed");
}

#[test]
fn checks_are_cancelled_and_limited_in_number() {
    let checker = Arc::<MarkChecker>::default();
    let server = server(&checker);
    let slow = checked("1 # slow");
    let max = thread::available_parallelism().map_or(1, usize::from).min(4);
    let (mut pieces, execution) = server.stream("/v1/execute", &slow);
    until("the check runs", || checker.running() == 1);
    assert_eq!(server.ask("DELETE", &format!("/v1/executions/{execution}"), &[], b"").status, 204);
    assert_eq!(pieces.next().unwrap()["problem"]["type"], "cancelled");
    until("the check is cancelled", || checker.running() == 0);
    // Clients that disconnect cancel their checks.
    let begin = |path| server.begin("POST", path, &[LINES], slow.to_string().as_bytes());
    let streams: Vec<_> = ["/v1/execute", "/v1/validate"].into_iter().cycle().take(2 * max + 2).map(begin).collect();
    until("checks run", || checker.running() == max);
    thread::sleep(Duration::from_millis(300));
    drop(streams);
    until("the checks are cancelled", || checker.running() == 0 && metric(&server, "glovebox_running") == 0);
    assert_eq!(checker.max_running.load(Ordering::SeqCst), max);
}

#[test]
fn variables_are_read_after_the_check_is_admitted() {
    let checker = Arc::<MarkChecker>::default();
    let server = server(&checker);
    server.post("/v1/sessions", &json!({ "id": "s", "language": "python" })).ok();
    server.post("/v1/sessions/s/execute", &json!({ "source": "x = 1" })).ok();
    let max = thread::available_parallelism().map_or(1, usize::from).min(4);
    let slow = checked("1 # slow").to_string();
    let streams: Vec<_> = (0..max).map(|_| server.begin("POST", "/v1/validate", &[], slow.as_bytes())).collect();
    until("checks run", || checker.running() == max);
    let typed = json!({ "source": "y", "check_types": true }).to_string();
    let waiting = server.begin("POST", "/v1/sessions/s/validate", &[], typed.as_bytes());
    thread::sleep(Duration::from_millis(500));
    // The check waits and keeps other requests from the session, so the test uses the session without a request.
    let id = "s".parse().unwrap();
    server.tenant.sessions().open(&id).unwrap().execute("y = 2").unwrap();
    drop(streams);
    assert_eq!(Answer::read(waiting).ok()["diagnostics"], json!([]));
    let names = checker.checked.lock().unwrap().last().unwrap().1.clone();
    assert_eq!(names, Some(vec!["x".to_owned(), "y".to_owned()]));
}
