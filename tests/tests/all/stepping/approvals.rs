//! Tests calls for which the policy requires an approval.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use glovebox::{
    Approve, Language, PendingToolCalls, Policy, Request, Sandbox, Started, Suspended, Tool, ToolAnswer, ToolError,
    ToolErrorKind, ToolPolicy, ToolRequest,
};
use serde_json::json;

use super::{BOTH, LONG, answer, done, needs, of, stepped, text};

const PAY: (&str, &str) = (
    "
try: print(tools.pay(euros=20))
except tools.ToolError as error: print(type(error).__name__, error)",
    "print(await tools.pay({euros: 20}).catch(error => `${error.name} ${error.message}`))",
);

const DENIED: &str = "ToolDenied calls to `pay` need an approval (`tools.pay.approve`), and this execution has no \
     approver; use `glovebox run` for a single script, use `glovebox mcp`, or start it with `Request::approvals`\n";

/// Requires an approval for calls to these tools.
fn approving(policy: &mut Policy, tools: &[&str]) {
    for tool in tools {
        let mut approving = ToolPolicy::default();
        approving.approve = Approve::Always;
        policy.tools.insert((*tool).to_owned(), approving);
    }
}

/// Builds a sandbox with the tools `pay`, whose calls need an approval, and `look`. Both count their calls.
fn paying(language: Language) -> (Sandbox, Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let counted = |name: &str| {
        let calls = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&calls);
        let tool = Tool::new(name, "Counts its calls.").handler(move |_, _| {
            counter.fetch_add(1, Ordering::SeqCst);
            Ok(json!("done"))
        });
        (tool, calls)
    };
    let ((pay, paid), (look, looked)) = (counted("pay"), counted("look"));
    (stepped(language, &[pay, look], |policy| approving(policy, &["pay"])), paid, looked)
}

fn deny(call: &ToolRequest, reason: &str) -> ToolAnswer {
    ToolAnswer::error(call.id, ToolError::of(ToolErrorKind::Denied, reason))
}

fn through_bytes(started: &Started) -> Suspended {
    Suspended::from_bytes(&started.suspend().unwrap().to_bytes(None), None).unwrap()
}

#[test]
fn call_without_an_approver_is_denied() {
    for language in BOTH {
        let (sandbox, paid, _) = paying(language);
        let source = of(language, PAY.0, PAY.1);
        assert_eq!(text(&sandbox.execute(source).unwrap()), DENIED);
        assert_eq!(text(&sandbox.run(Request::new(source).approvals(true)).unwrap()), DENIED, "nobody reads the calls");
        assert_eq!(text(&sandbox.session().unwrap().execute(source).unwrap()), DENIED);
        let started = sandbox.start(Request::new(source)).unwrap();
        assert_eq!(text(&done(&started, Vec::new())), DENIED, "a caller that ignores `approve` approves nothing");
        let calls = PendingToolCalls::default();
        assert_eq!(text(&sandbox.run(Request::new(source).pending_calls(&calls)).unwrap()), DENIED);
        assert_eq!(paid.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn approver_decides_about_each_call() {
    for language in BOTH {
        let (sandbox, paid, looked) = paying(language);
        let source = of(
            language,
            "
print(tools.look())
for euros in (20, 900):
    try: print(tools.pay(euros=euros))
    except tools.ToolDenied as error: print('denied:', error)
print(tools.ask(q=1))",
            "
print(await tools.look());
for (const euros of [20, 900]) print(await tools.pay({euros}).catch(error => `denied: ${error.message}`));
print(await tools.ask({q: 1}))",
        );
        let started = sandbox.start(Request::new(source).approvals(true)).unwrap();
        let first = needs(&started, Vec::new());
        assert_eq!((&*first[0].name, &first[0].values(), first[0].approve), ("pay", &json!({ "euros": 20 }), true));
        let second = needs(&started, vec![answer(&first[0], "paid")]);
        assert_eq!((&second[0].values(), second[0].approve), (&json!({ "euros": 900 }), true));
        let third = needs(&started, vec![deny(&second[0], "too expensive")]);
        assert_eq!((&*third[0].name, third[0].approve), ("ask", false), "other tools of the caller need none");
        let execution = done(&started, vec![answer(&third[0], 7)]);
        assert_eq!(text(&execution), "done\npaid\ndenied: too expensive\n7\n");
        assert_eq!((paid.load(Ordering::SeqCst), looked.load(Ordering::SeqCst)), (0, 1), "the caller answers `pay`");
    }
}

#[test]
fn caller_can_approve_calls_to_its_own_tools() {
    let sandbox = stepped(Language::Python, &[], |policy| approving(policy, &["ask"]));
    let denied = sandbox.start(Request::new("tools.ask(q=1)")).unwrap();
    let denied = done(&denied, Vec::new());
    assert_eq!(denied.outcome.raised().unwrap().type_name, "ToolDenied");
    let started = sandbox.start(Request::new("print(tools.ask(q=1))").approvals(true)).unwrap();
    let calls = needs(&started, Vec::new());
    assert!(calls[0].approve);
    assert_eq!(text(&done(&started, vec![answer(&calls[0], 7)])), "7\n");
}

#[test]
fn waiting_approval_is_suspended_and_resumed() {
    for language in BOTH {
        let (sandbox, paid, _) = paying(language);
        let source = of(language, PAY.0, PAY.1);
        let started = sandbox.start(Request::new(source).suspendable(true).approvals(true)).unwrap();
        let calls = needs(&started, Vec::new());
        let suspended = through_bytes(&started);
        assert_eq!(suspended.tool_requests()[0].id, calls[0].id);
        for (reply, output) in
            [(answer(&calls[0], "paid"), "paid\n"), (deny(&calls[0], "too expensive"), "ToolDenied too expensive\n")]
        {
            let resumed = sandbox.start(suspended.request().approvals(true)).unwrap();
            assert_eq!(needs(&resumed, Vec::new()), calls, "the mark comes from the policy");
            assert_eq!(text(&done(&resumed, vec![reply])), output);
        }
        let resumed = sandbox.start(suspended.request()).unwrap();
        let error = resumed.advance(Vec::new(), Some(LONG)).unwrap_err().to_string();
        assert!(error.contains("needs an approval (`tools.pay.approve`); set `Request::approvals`"), "{error}");
        assert_eq!(paid.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn several_approvals_are_given_in_any_order() {
    let (sandbox, paid, _) = paying(Language::Python);
    let source = "
import asyncio
async def pay(euros):
    try: return await tools.pay.aio(euros=euros)
    except tools.ToolDenied as error: return str(error)
async def main(): print(await asyncio.gather(*[pay(euros) for euros in (1, 2, 3)]))
asyncio.run(main())";
    let started = sandbox.start(Request::new(source).suspendable(true).approvals(true)).unwrap();
    let calls = needs(&started, Vec::new());
    assert!(calls.len() == 3 && calls.iter().all(|call| call.approve), "{calls:?}");
    let left = needs(&started, vec![answer(&calls[2], "third")]);
    assert_eq!(left, calls[..2]);
    let resumed = sandbox.start(through_bytes(&started).request().approvals(true)).unwrap();
    let left = needs(&resumed, Vec::new());
    assert_eq!(left, calls[..2]);
    let left = needs(&resumed, vec![deny(&left[1], "no")]);
    assert_eq!(text(&done(&resumed, vec![answer(&left[0], "first")])), "['first', 'no', 'third']\n");
    assert_eq!(paid.load(Ordering::SeqCst), 0);
}
