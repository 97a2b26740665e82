//! Tests tool calls that a person at the client approves or denies.

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    time::Duration,
};

use glovebox::{SessionKey, Tool};
use glovebox_server::{SessionLocation, TenantConfig, mcp::Approve};
use glovebox_sessions::DirectoryStore;
use rmcp::{
    model::{CallToolRequestParams, CallToolResponse, CallToolResult, InputRequiredResult, ProtocolVersion},
    service::ClientLifecycleMode,
};
use serde_json::{Value, json};

use super::support::{Mcp, Setup, UpstreamScript, runtime, start, text, until};

/// A Python function that calls the tool `pay` and prints its result or the reason for a failure.
const PAY: &str = "\
def pay(euros):
    try: print(tools.pay(euros=euros)['paid'])
    except tools.ToolError as error: print(type(error).__name__, error)
print('before')
pay(20)";

/// The number of payments.
#[derive(Clone, Default)]
struct Payments(Arc<AtomicU32>);

impl Payments {
    fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }

    /// Returns a tool that counts its calls.
    fn tool(&self) -> Tool {
        let payments = self.clone();
        let schema =
            json!({ "type": "object", "properties": { "euros": { "type": "integer" } }, "required": ["euros"] });
        Tool::new("pay", "Pays.").schema(schema).handler(move |_, arguments| {
            payments.0.fetch_add(1, Ordering::SeqCst);
            Ok(json!({ "paid": arguments["euros"] }))
        })
    }
}

fn current() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
}

fn accept() -> Value {
    json!({ "action": "accept", "content": { "approve": true } })
}

fn deny(reason: &str) -> Value {
    json!({ "action": "accept", "content": { "approve": false, "reason": reason } })
}

/// Starts a server with the tool `pay`, and a client that gives these answers.
fn paying(payments: &Payments, lifecycle: ClientLifecycleMode, answers: Option<Vec<Value>>) -> Mcp {
    changed(payments, lifecycle, answers, |_| {})
}

fn changed(
    payments: &Payments,
    lifecycle: ClientLifecycleMode,
    answers: Option<Vec<Value>>,
    change: impl FnOnce(&mut TenantConfig) + 'static,
) -> Mcp {
    let tool = payments.tool();
    let change = move |config: &mut TenantConfig| {
        config.tools = vec![tool];
        config.policy.tools.entry("pay".to_owned()).or_default().approve = glovebox::Approve::Always;
        config.policy.limits.timeout_ms = 60_000;
        config.policy.limits.tool_timeout_ms = 60_000;
        change(config);
    };
    Mcp::with(Setup { change: Some(Box::new(change)), lifecycle: Some(lifecycle), answers, ..Setup::default() })
}

/// Sends one request, without answering the server's questions.
fn once(mcp: &Mcp, arguments: &Value, state: Option<&str>, responses: Value) -> CallToolResponse {
    let mut params = CallToolRequestParams::new("run_code").with_arguments(arguments.as_object().unwrap().clone());
    if let Some(state) = state {
        let responses = serde_json::from_value(responses).unwrap();
        params = params.with_request_state(state).with_input_responses(responses);
    }
    mcp.runtime.block_on(mcp.client().call_tool_once(params)).unwrap()
}

fn required(response: CallToolResponse) -> InputRequiredResult {
    match response {
        CallToolResponse::InputRequired(required) => required,
        other => panic!("{other:?}"),
    }
}

fn complete(response: CallToolResponse) -> CallToolResult {
    match response {
        CallToolResponse::Complete(result) => result,
        other => panic!("{other:?}"),
    }
}

/// Returns the state and the keys of the questions.
fn state_and_keys(response: CallToolResponse) -> (String, Vec<String>) {
    let required = required(response);
    (required.request_state.unwrap(), required.input_requests.unwrap().into_keys().collect())
}

fn python(code: &str) -> Value {
    json!({ "language": "python", "code": code })
}

#[test]
fn approved_call_is_made_once() {
    for lifecycle in [ClientLifecycleMode::Initialize, current()] {
        let payments = Payments::default();
        let mcp = paying(&payments, lifecycle, Some(vec![accept(), accept()]));
        let result = mcp.python(&format!("{PAY}\nprint('after')\npay(30)"));
        assert_eq!(text(&result), "before\n20\nafter\n30\n", "{result:?}");
        assert_eq!(payments.count(), 2);
        let questions = mcp.listener.questions.lock().unwrap().clone();
        let expected =
            |euros| format!("A script wants to call the tool `pay` with these arguments: {{\"euros\":{euros}}}");
        assert_eq!(questions, [expected(20), expected(30)]);
        assert_eq!(mcp.running(), 0);
    }
}

#[test]
fn denied_call_raises_the_reason() {
    for lifecycle in [ClientLifecycleMode::Initialize, current()] {
        for (answer, reason) in [
            (deny("too expensive"), "too expensive"),
            (json!({ "action": "decline" }), "a person denied the call"),
            (json!({ "action": "cancel" }), "a person dismissed the question about the call"),
        ] {
            let payments = Payments::default();
            let mcp = paying(&payments, lifecycle.clone(), Some(vec![answer]));
            assert_eq!(text(&mcp.python(PAY)), format!("before\nToolDenied {reason}\n"));
            assert_eq!(payments.count(), 0);
        }
    }
}

#[test]
fn client_without_elicitation_denies() {
    for lifecycle in [ClientLifecycleMode::Initialize, current()] {
        let payments = Payments::default();
        let mcp = paying(&payments, lifecycle, None);
        let printed = text(&mcp.python(PAY));
        let reason = "`pay` needs a person's approval, but this MCP client does not support elicitation; use a \
                      client that supports it";
        let expected = format!("before\nToolDenied {reason}\n");
        assert_eq!(printed, expected);
        let session = mcp.session();
        assert_eq!(text(&mcp.in_session(&session, PAY)), expected);
        assert_eq!(payments.count(), 0);
    }
}

#[test]
fn invalid_arguments_fail_without_a_question() {
    let payments = Payments::default();
    let mcp = paying(&payments, current(), Some(vec![]));
    let printed = text(&mcp.python(&PAY.replace("pay(20)", "pay('x')")));
    assert!(printed.starts_with("before\nInvalidArguments "), "{printed}");
    let script = PAY.replace("euros=euros", "euros=1, note='x' * 20_000");
    let printed = text(&mcp.python(&script));
    assert!(printed.starts_with("before\nToolDenied ") && printed.contains("the maximum is 16384"), "{printed}");
    assert!(mcp.listener.questions.lock().unwrap().is_empty() && payments.count() == 0);
}

#[test]
fn state_is_resumed_on_another_server_with_the_same_key() {
    let payments = Payments::default();
    let with_key = |key: u8| {
        changed(&payments, current(), Some(vec![]), move |config| {
            config.key = Some(SessionKey::new(&[key; 32]).unwrap());
        })
    };
    let (one, other, foreign) = (with_key(1), with_key(1), with_key(2));
    let arguments = python(PAY);
    let (state, keys) = state_and_keys(once(&one, &arguments, None, json!({})));
    assert_eq!((&*keys, payments.count()), (&["call-0".to_owned()][..], 0));
    assert_eq!(one.running(), 0);
    let approve = || json!({ "call-0": accept() });

    // The server rejects a state that it did not create for these arguments.
    let refused = |mcp: &Mcp, arguments: &Value, state: &str| {
        let result = complete(once(mcp, arguments, Some(state), approve()));
        assert_eq!(result.is_error, Some(true), "{result:?}");
        assert!(text(&result).contains("`requestState` is not valid for this call"), "{result:?}");
    };
    refused(&foreign, &arguments, &state);
    refused(&one, &python("1"), &state);
    let end = if state.ends_with('A') { "B" } else { "A" };
    refused(&one, &arguments, &format!("{}{end}", &state[..state.len() - 1]));
    refused(&one, &arguments, &"A".repeat(9 << 20));
    refused(&one, &arguments, "");
    let malformed = complete(once(&one, &arguments, Some(&state), json!({ "call-0": 7 })));
    assert!(text(&malformed).contains("`inputResponses.call-0` is not the result"), "{malformed:?}");
    assert_eq!(payments.count(), 0);

    // If an answer is missing, the server asks the client again.
    let (again, keys) = state_and_keys(once(&other, &arguments, Some(&state), json!({ "call-1": accept() })));
    assert_eq!((&*keys, payments.count()), (&["call-0".to_owned()][..], 0));
    for (mcp, state) in [(&other, &state), (&one, &again)] {
        let result = complete(once(mcp, &arguments, Some(state), approve()));
        assert_eq!(text(&result), "before\n20\n", "{result:?}");
        let result = complete(once(mcp, &arguments, Some(state), approve()));
        assert!(text(&result).contains("were already approved"), "{result:?}");
    }
    assert_eq!(payments.count(), 2);
    assert_eq!((one.running(), other.running()), (0, 0));
}

#[test]
fn some_of_several_calls_can_be_answered() {
    let payments = Payments::default();
    let mcp = paying(&payments, current(), Some(vec![]));
    let script = "const pay = euros => tools.pay({euros}).then(a => a.paid, e => e.message);\n\
                  console.log(JSON.stringify(await Promise.all([...Array(20).keys()].map(pay))))";
    let arguments = json!({ "language": "javascript", "code": script });
    let (state, keys) = state_and_keys(once(&mcp, &arguments, None, json!({})));
    assert_eq!(keys.len(), 16, "{keys:?}");
    // The server has not asked the client about call 19 yet.
    let answers = json!({ "call-0": accept(), "call-1": deny("no"), "call-19": accept() });
    let (state, keys) = state_and_keys(once(&mcp, &arguments, Some(&state), answers));
    assert_eq!((keys.len(), payments.count()), (16, 1), "{keys:?}");
    let all: serde_json::Map<String, Value> = (2..18).map(|call| (format!("call-{call}"), accept())).collect();
    let (state, keys) = state_and_keys(once(&mcp, &arguments, Some(&state), all.into()));
    assert_eq!((&*keys, payments.count()), (&["call-18", "call-19"].map(str::to_owned)[..], 17));
    let answers = json!({ "call-18": accept(), "call-19": accept() });
    let result = complete(once(&mcp, &arguments, Some(&state), answers));
    assert_eq!(text(&result), "[0,\"no\",2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19]\n", "{result:?}");
    assert_eq!(payments.count(), 19);
}

#[test]
fn call_in_a_session_is_approved() {
    for lifecycle in [ClientLifecycleMode::Initialize, current()] {
        let payments = Payments::default();
        let mcp = paying(&payments, lifecycle, Some(vec![accept(), deny("no")]));
        let session = mcp.session();
        assert_eq!(text(&mcp.in_session(&session, PAY)), "before\n20\n");
        assert_eq!(text(&mcp.in_session(&session, "pay(30)")), "ToolDenied no\n");
        assert_eq!((payments.count(), mcp.running()), (1, 0));
    }
}

fn in_session(session: &str, code: &str) -> Value {
    json!({ "language": "python", "session": session, "code": code })
}

/// Sends a state with approvals of two calls. Asserts that the server refuses it and returns a message with `expected`.
fn refused_state(mcp: &Mcp, arguments: &Value, state: &str, expected: &str) {
    let answers = json!({ "call-0": accept(), "call-1": accept() });
    let result = complete(once(mcp, arguments, Some(state), answers));
    assert_eq!(result.is_error, Some(true), "{result:?}");
    assert!(text(&result).contains(expected), "{result:?}");
}

/// Each resumption changes the session's generation, so earlier states no longer match it.
#[test]
fn call_in_a_session_is_made_once() {
    let payments = Payments::default();
    let mcp = paying(&payments, current(), Some(vec![]));
    let arguments = in_session(&mcp.session(), &format!("{PAY}\npay(30)"));
    let (first, keys) = state_and_keys(once(&mcp, &arguments, None, json!({})));
    assert_eq!(keys, ["call-0"]);
    let (second, keys) = state_and_keys(once(&mcp, &arguments, Some(&first), json!({})));
    assert_eq!(keys, ["call-0"]);
    refused_state(&mcp, &arguments, &first, "another request has changed the session");
    let answers = json!({ "call-0": accept(), "call-1": accept() });
    let (third, keys) = state_and_keys(once(&mcp, &arguments, Some(&second), answers));
    assert_eq!((&*keys, payments.count()), (&["call-1".to_owned()][..], 1), "the client was not asked about call 1");
    refused_state(&mcp, &arguments, &second, "another request has changed the session");
    let result = complete(once(&mcp, &arguments, Some(&third), json!({ "call-1": deny("no") })));
    assert_eq!(text(&result), "before\n20\nToolDenied no\n", "{result:?}");
    refused_state(&mcp, &arguments, &third, "another request has changed the session");
    assert_eq!((payments.count(), mcp.running()), (1, 0));
}

/// An execution in memory accepts earlier states, but an approval sent with an earlier state does not apply to a later
/// call.
#[test]
fn script_in_a_session_waits_in_memory_if_it_is_too_large() {
    let large_session = ("import random\nbig = random.randbytes(8 << 20)", "");
    let large_record = ("1", "import os\nbig = os.urandom(2 << 20)\n");
    for (before, begin) in [large_session, large_record] {
        let payments = Payments::default();
        let mcp = paying(&payments, current(), Some(vec![]));
        let session = mcp.session();
        mcp.ok("run_code", in_session(&session, before));
        let arguments = in_session(&session, &format!("{begin}{PAY}\npay(30)"));
        let (first, keys) = state_and_keys(once(&mcp, &arguments, None, json!({})));
        assert_eq!(keys, ["call-0"]);
        let (second, keys) = state_and_keys(once(&mcp, &arguments, Some(&first), json!({})));
        assert_eq!(keys, ["call-0"]);
        let (third, keys) = state_and_keys(once(&mcp, &arguments, Some(&first), json!({ "call-0": accept() })));
        assert_eq!((&*keys, payments.count()), (&["call-1".to_owned()][..], 1));
        // The states from before the second call approve only the first call.
        for state in [&first, &second] {
            let answers = json!({ "call-0": accept(), "call-1": accept() });
            let (_, keys) = state_and_keys(once(&mcp, &arguments, Some(state), answers));
            assert_eq!((&*keys, payments.count()), (&["call-1".to_owned()][..], 1));
        }
        let result = complete(once(&mcp, &arguments, Some(&third), json!({ "call-1": deny("no") })));
        assert_eq!(text(&result), "before\n20\nToolDenied no\n", "{result:?}");
        assert_eq!((payments.count(), mcp.running()), (1, 0));
    }
}

/// Starts a server with the tool `pay`, a key, and sessions in the directory `dir`.
fn sharing(payments: &Payments, dir: &Path) -> Mcp {
    let tool = payments.tool();
    sharing_with(dir, move |config| config.approved_tools = vec![tool])
}

fn sharing_with(dir: &Path, change: impl FnOnce(&mut TenantConfig) + 'static) -> Mcp {
    let store = DirectoryStore::open(dir.join("sessions")).unwrap();
    changed(&Payments::default(), current(), Some(vec![]), move |config| {
        config.key = Some(SessionKey::new(&[1; 32]).unwrap());
        config.location = SessionLocation::Store(Arc::new(store));
        change(config);
    })
}

#[test]
fn state_of_a_session_is_resumed_on_another_server_with_the_same_store() {
    let (payments, dir) = (Payments::default(), tempfile::tempdir().unwrap());
    let (one, other) = (sharing(&payments, dir.path()), sharing(&payments, dir.path()));
    let session = one.session();
    one.ok("run_code", in_session(&session, "x = 1"));
    let mut arguments = in_session(&session, &format!("x += 1\n{PAY}\nprint(open('a').read(), x)"));
    arguments["files"] = json!([{ "path": "a", "text": "file" }]);
    let (state, keys) = state_and_keys(once(&one, &arguments, None, json!({})));
    assert_eq!((&*keys, payments.count(), one.running()), (&["call-0".to_owned()][..], 0, 0));
    let mut elsewhere = arguments.clone();
    elsewhere["session"] = one.session().into();
    refused_state(&one, &elsewhere, &state, "`requestState` is not valid for this call");

    let result = complete(once(&other, &arguments, Some(&state), json!({ "call-0": accept() })));
    assert_eq!(text(&result), "before\n20\nfile 2\n", "{result:?}");
    for mcp in [&one, &other] {
        refused_state(mcp, &arguments, &state, "another request has changed the session");
    }
    assert_eq!(text(&other.in_session(&session, "print(x)")), "2\n");
    assert_eq!((payments.count(), one.running(), other.running()), (1, 0, 0));
}

/// If a server is killed during a call, other servers must not repeat the call.
#[test]
fn state_of_a_session_is_used_up_before_its_call_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let (calls, called) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let tool = Tool::new("pay", "Pays.").handler(move |_, arguments| {
        calls.send(()).unwrap();
        released.lock().unwrap().recv().unwrap();
        Ok(json!({ "paid": arguments["euros"] }))
    });
    let change = move |config: &mut TenantConfig| config.approved_tools = vec![tool];
    let (one, other) = (sharing_with(dir.path(), change), sharing(&Payments::default(), dir.path()));
    let arguments = in_session(&one.session(), PAY);
    let (state, _) = state_and_keys(once(&one, &arguments, None, json!({})));
    let answers = serde_json::from_value(json!({ "call-0": accept() })).unwrap();
    let params = CallToolRequestParams::new("run_code")
        .with_arguments(arguments.as_object().unwrap().clone())
        .with_request_state(&*state)
        .with_input_responses(answers);
    let handle = one.begin_call(params);
    called.recv().unwrap();
    refused_state(&other, &arguments, &state, "another request has changed the session");
    release.send(()).unwrap();
    assert_eq!(text(&one.end(handle)), "before\n20\n");
    assert!(called.try_recv().is_err(), "the call was made twice");
}

#[test]
fn session_that_has_changed_is_not_replaced() {
    let payments = Payments::default();
    let mcp = paying(&payments, current(), Some(vec![]));
    let session = mcp.session();
    mcp.ok("run_code", in_session(&session, "x = 'before'"));
    let arguments = in_session(&session, &format!("x = 'script'\n{PAY}"));
    let (state, _) = state_and_keys(once(&mcp, &arguments, None, json!({})));
    let changed = mcp.in_session(&session, "print(x)\nx = 'changed'");
    assert_eq!(text(&changed), "before\n", "the session is in the state before the script");
    refused_state(&mcp, &arguments, &state, "another request has changed the session");
    assert_eq!(text(&mcp.in_session(&session, "print(x)")), "changed\n");
    assert_eq!((payments.count(), mcp.running()), (0, 0));
}

#[test]
fn script_continues_after_its_session_was_read() {
    let payments = Payments::default();
    let mcp = paying(&payments, current(), Some(vec![]));
    let session = mcp.session();
    let arguments = in_session(&session, PAY);
    let (state, _) = state_and_keys(once(&mcp, &arguments, None, json!({})));
    mcp.ok("files_list", json!({ "session": session }));
    let result = complete(once(&mcp, &arguments, Some(&state), json!({ "call-0": accept() })));
    assert_eq!((text(&result), payments.count()), ("before\n20\n".to_owned(), 1), "{result:?}");
}

#[test]
fn call_in_a_session_does_not_time_out_while_the_client_decides() {
    let payments = Payments::default();
    let mcp = changed(&payments, current(), Some(vec![]), |config| config.policy.limits.tool_timeout_ms = 2_000);
    let arguments = in_session(&mcp.session(), PAY);
    let (state, _) = state_and_keys(once(&mcp, &arguments, None, json!({})));
    std::thread::sleep(Duration::from_millis(2_500));
    let result = complete(once(&mcp, &arguments, Some(&state), json!({ "call-0": accept() })));
    assert_eq!(text(&result), "before\n20\n", "{result:?}");
}

#[test]
fn cancelling_a_question_ends_its_script() {
    let payments = Payments::default();
    let mcp = paying(&payments, ClientLifecycleMode::Initialize, Some(vec![]));
    let session = mcp.session();
    for (count, session) in [(1, None), (2, Some(&session))] {
        let handle = mcp.begin("run_code", json!({ "language": "python", "code": PAY, "session": session }));
        until("the client is asked", || mcp.listener.questions.lock().unwrap().len() == count);
        mcp.runtime.block_on(handle.cancel(None)).unwrap();
    }
    // The session is free again.
    assert_eq!(text(&mcp.in_session(&session, "print(6 * 7)")), "42\n");
    assert_eq!((payments.count(), mcp.running()), (0, 0));
}

#[test]
fn script_that_is_too_large_to_suspend_receives_an_error() {
    let payments = Payments::default();
    let mcp = changed(&payments, current(), Some(vec![]), |config| config.policy.limits.source_bytes = 8 << 20);
    // 2 MiB of the limit of 6 MiB are reserved for the data that the script receives.
    let code = |bytes: usize| format!("{PAY}\n#{}", "x".repeat(bytes));
    let (_, keys) = state_and_keys(once(&mcp, &python(&code((4 << 20) - 10_000)), None, json!({})));
    assert_eq!(keys, ["call-0"]);
    let printed = text(&mcp.python(&code(4 << 20)));
    assert!(printed.starts_with("before\nToolLimit the script and the data it received are too large"), "{printed}");
    assert!(mcp.listener.questions.lock().unwrap().is_empty() && payments.count() == 0);
    // The script is not counted a second time when it is suspended again.
    let arguments = python(&format!("{}\npay(30)", code(3 << 20)));
    let (state, _) = state_and_keys(once(&mcp, &arguments, None, json!({})));
    let (_, keys) = state_and_keys(once(&mcp, &arguments, Some(&state), json!({ "call-0": accept() })));
    assert_eq!((&*keys, payments.count()), (&["call-1".to_owned()][..], 1));
}

#[test]
fn upstream_tools_are_approved() {
    let tools = json!([
        { "name": "look", "inputSchema": { "type": "object" } },
        { "name": "buy", "inputSchema": { "type": "object" } },
    ]);
    let inner = UpstreamScript::new(&tools, "text(name)");
    let runtime = runtime();
    let mut config = inner.config("shop");
    config.approve = Approve::Tools(vec!["buy".into()]);
    let upstreams = start(&runtime, vec![config], 1 << 20).unwrap();
    let (free, approved, listing) = (upstreams.tools(), upstreams.approved_tools(), upstreams.listing().text());
    assert_eq!((free.len(), approved.len()), (1, 1));
    assert!(listing.contains("tools.shop_look()") && listing.contains("tools.shop_buy()"), "{listing}");
    let change = move |config: &mut TenantConfig| (config.tools, config.approved_tools) = (free, approved);
    let mcp = Mcp::with(Setup {
        change: Some(Box::new(change)),
        lifecycle: Some(current()),
        answers: Some(vec![accept(), deny("not now")]),
        listing,
        ..Setup::default()
    });
    let script = "print(tools.shop_look(), tools.shop_buy())\n\
                  try: tools.shop_buy()\n\
                  except tools.ToolError as error: print(type(error).__name__, error)";
    assert_eq!(text(&mcp.python(script)), "look buy\nToolDenied not now\n");
    assert_eq!(mcp.listener.questions.lock().unwrap().len(), 2);
    runtime.block_on(upstreams.close());
}
