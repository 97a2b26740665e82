//! Tests of executions that the component steps through.

use std::sync::mpsc;

use glovebox::{ToolError, internal::Budget};

use super::*;
use crate::{
    started::StartedResource,
    wit::{
        sandbox::{HostFiles, HostStarted, OutputStream, Step, ToolAnswer, ToolRequest},
        types::{CallFailure, Tool, ToolOutcome},
    },
};

/// A timeout that is longer than any execution in these tests, but shorter than the test runner's timeout.
pub(super) const LONG_MS: u64 = 300_000;

const ASKS: &str = "print(await tools.ask({q: 1}))";

fn tool(name: &str, schema: Option<&str>) -> Tool {
    Tool { name: name.into(), description: "Asks.".into(), arguments_schema: schema.map(str::to_owned) }
}

pub(super) fn ask() -> Tool {
    tool("ask", Some(r#"{"properties": {"q": {"type": "number"}}, "required": ["q"]}"#))
}

fn asking() -> SessionOptions {
    SessionOptions { context: None, tools: Some(vec![ask()]) }
}

pub(super) fn start(ctx: &mut SandboxCtx, source: &str) -> Resource<StartedResource> {
    try_start(ctx, source).unwrap()
}

fn try_start(ctx: &mut SandboxCtx, source: &str) -> Result<Resource<StartedResource>, SandboxFailure> {
    Host::start(ctx, Runtime::Javascript, request(source), no_policy(), vec![ask()])
}

fn step(
    ctx: &mut SandboxCtx,
    started: &Resource<StartedResource>,
    answers: Vec<ToolAnswer>,
) -> Result<Step, SandboxFailure> {
    ctx.continue_(same(started), answers, Some(LONG_MS))
}

pub(super) fn needs(
    ctx: &mut SandboxCtx,
    started: &Resource<StartedResource>,
    answers: Vec<ToolAnswer>,
) -> Vec<ToolRequest> {
    match step(ctx, started, answers) {
        Ok(Step::NeedsTools(requests)) => requests,
        other => panic!("{other:?}"),
    }
}

pub(super) fn done(ctx: &mut SandboxCtx, started: &Resource<StartedResource>, answers: Vec<ToolAnswer>) -> Execution {
    match step(ctx, started, answers) {
        Ok(Step::Done(execution)) => execution,
        other => panic!("{other:?}"),
    }
}

pub(super) fn answer(id: u64, text: &str) -> ToolAnswer {
    ToolAnswer { id, answer: Ok(text.into()) }
}

pub(super) fn output(execution: &Execution) -> &str {
    assert_eq!(execution.outcome, Outcome::Completed, "{:?}", String::from_utf8_lossy(&execution.stderr.bytes));
    std::str::from_utf8(&execution.stdout.bytes).unwrap()
}

pub(super) fn release(ctx: &mut SandboxCtx, started: Resource<StartedResource>) {
    HostStarted::drop(ctx, started).unwrap();
}

/// Sets the limits on standard output, standard error and displays, whose sum is charged.
pub(super) fn output_limits(policy: &mut glovebox::Policy, bytes: [u64; 3]) {
    let limits = &mut policy.limits;
    [limits.stdout_bytes, limits.stderr_bytes, limits.display_bytes] = bytes;
}

#[test]
fn files_over_the_quota_are_rejected() {
    // The maximum output of 2,000 bytes is charged in advance.
    let limits = |policy: &mut glovebox::Policy| output_limits(policy, [1_000, 1_000, 0]);
    let mut ctx = host(limits, |quotas| quotas.held_bytes = 100_000).ctx();
    let source =
        |bytes: usize| format!("const file = std.open('a', 'w'); file.puts('x'.repeat({bytes})); file.close()");
    let run = |ctx: &mut SandboxCtx, bytes| {
        let started = Host::start(ctx, Runtime::Javascript, request(&source(bytes)), no_policy(), vec![]).unwrap();
        done(ctx, &started, vec![]);
        started
    };
    let large = run(&mut ctx, 200_000);
    assert!(over_quota(HostStarted::files(&mut ctx, same(&large))).contains("`held-bytes`"));
    let small = run(&mut ctx, 10);
    release(&mut ctx, large);
    assert!(HostStarted::files(&mut ctx, same(&small)).is_ok(), "usable after");
}

#[test]
fn dropped_execution_counts_until_it_ends() {
    let (begun, has_begun) = mpsc::channel();
    let (open, gate) = mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let slow = glovebox::Tool::new("slow", "").handler(move |_, _| {
        begun.send(()).unwrap();
        gate.lock().unwrap().recv().ok();
        Ok(serde_json::Value::Null)
    });
    let quotas = Quotas { started: 1, ..Quotas::default() };
    let host = SandboxHost::builder(engine()).tool(slow).quotas(quotas).build().unwrap();
    let mut ctx = host.ctx();
    let meter = std::sync::Arc::clone(&ctx.caller.meter);
    let started = start(&mut ctx, "await tools.slow()");
    has_begun.recv().unwrap();
    release(&mut ctx, started);
    // No call waits for the handler, but the execution must still end and return its quota shares.
    let is_nothing_left = || {
        let usage = meter.usage();
        (usage.started, usage.handles, usage.held_bytes) == (0, 0, 0)
    };
    while !is_nothing_left() {
        std::thread::yield_now();
    }
    drop(open);
}

#[test]
fn started_execution_bytes_are_counted_and_released() {
    let mut ctx = ctx();
    let before = ctx.usage();
    let started = start(&mut ctx, ASKS);
    let while_it_runs = ctx.usage();
    let limits = glovebox::Limits::default();
    assert!(
        while_it_runs.held_bytes > limits.stdout_bytes + limits.stderr_bytes + limits.display_bytes,
        "the tools are charged too"
    );
    assert!(while_it_runs.fuel >= limits.fuel);
    needs(&mut ctx, &started, vec![]);
    let execution = done(&mut ctx, &started, vec![answer(0, "1")]);
    let after = ctx.usage();
    assert!(after.held_bytes < 100_000, "{after:?}");
    assert_eq!((after.fuel, after.started, after.handles), (execution.fuel_consumed, 0, 1));
    release(&mut ctx, started);
    assert_eq!((ctx.usage().held_bytes, ctx.usage().handles), (before.held_bytes, 0));
}

#[test]
fn output_is_reserved_before_it_arrives() {
    let max = 10_000;
    for (held_bytes, fits) in [(max + 1, true), (max, true), (max - 1, false)] {
        let limits = |policy: &mut glovebox::Policy| output_limits(policy, [8_000, 1_000, 1_000]);
        let mut ctx = host(limits, |quotas| quotas.held_bytes = held_bytes).ctx();
        let started = Host::start(&mut ctx, Runtime::Javascript, request(""), no_policy(), vec![]);
        assert_eq!(started.is_ok(), fits, "{held_bytes}");
        assert_eq!(ctx.usage().executions, u64::from(fits));
    }
}

#[test]
fn started_executions_cannot_overdraw_fuel() {
    let mut ctx = with_quotas(|quotas| quotas.fuel = 500_000_000);
    let started = start(&mut ctx, "for (;;) {}");
    let text = over_quota(try_start(&mut ctx, ""));
    assert!(text.contains("`fuel`"), "the first execution has reserved all fuel: {text}");
    assert!(matches!(done(&mut ctx, &started, vec![]).outcome, Outcome::Exhausted(_)));
    // The execution may have ended at its soft limit, with unused fuel.
    assert!(ctx.usage().fuel <= 500_000_000);
}

#[test]
fn dropping_the_sandbox_ends_started_executions() {
    let mut ctx = ctx();
    let meter = std::sync::Arc::clone(&ctx.caller.meter);
    start(&mut ctx, "for (;;) {}");
    start(&mut ctx, ASKS);
    let session = HostSession::open(&mut ctx, Runtime::Javascript, no_policy(), asking()).unwrap();
    HostSession::start(&mut ctx, session, request("for (;;) {}")).unwrap();
    drop(ctx);
    let is_nothing_left = || {
        let usage = meter.usage();
        (usage.started, usage.sessions, usage.handles, usage.held_bytes) == (0, 0, 0, 0)
    };
    while !is_nothing_left() {
        std::thread::yield_now();
    }
}

#[test]
fn result_over_the_quota_is_dropped() {
    let limits = |policy: &mut glovebox::Policy| output_limits(policy, [1_000, 1_000, 0]);
    let mut ctx = host(limits, |quotas| quotas.held_bytes = 100_000).ctx();
    let source = |files: usize| {
        format!("console.log(1); for (let i = 0; i < {files}; i++) std.open('x'.repeat(200) + i, 'w').close()")
    };
    let large = Host::start(&mut ctx, Runtime::Javascript, request(&source(1_000)), no_policy(), vec![]).unwrap();
    for _ in 0..2 {
        assert!(over_quota(step(&mut ctx, &large, vec![])).contains("`held-bytes`"));
    }
    assert!(ctx.usage().held_bytes <= 2_000, "{:?}", ctx.usage());
    assert_eq!(HostStarted::read_output(&mut ctx, same(&large), OutputStream::Stdout, 0, 10).unwrap(), b"1\n");
    let small = Host::start(&mut ctx, Runtime::Javascript, request(&source(10)), no_policy(), vec![]).unwrap();
    assert_eq!(done(&mut ctx, &small, vec![]).files_created.len(), 10);
}

#[test]
fn session_is_busy_until_the_end_is_delivered() {
    let mut ctx = ctx();
    let session = HostSession::open(&mut ctx, Runtime::Javascript, no_policy(), asking()).unwrap();
    let started = HostSession::start(&mut ctx, same(&session), request("var x = await tools.ask({q: 1})")).unwrap();
    let busy = |ctx: &mut SandboxCtx| {
        for refused in [
            error_of(HostSession::execute(ctx, same(&session), request(""))),
            error_of(HostSession::start(ctx, same(&session), request(""))),
            error_of(HostSession::get_variable(ctx, same(&session), "x".into())),
            error_of(HostSession::fork(ctx, same(&session))),
            error_of(HostSession::files(ctx, same(&session))),
            error_of(HostSession::checkpoint(ctx, same(&session))),
            error_of(HostSession::hibernate(ctx, same(&session))),
            error_of(HostSession::close(ctx, same(&session))),
        ] {
            assert!(matches!(refused, SandboxError::SessionBusy(_)), "{refused:?}");
        }
        HostSession::id(ctx, same(&session)).unwrap();
        HostSession::info(ctx, same(&session)).unwrap();
    };
    busy(&mut ctx);
    needs(&mut ctx, &started, vec![]);
    busy(&mut ctx);
    // A rejected answer does not end the execution.
    step(&mut ctx, &started, vec![answer(7, "1")]).unwrap_err();
    busy(&mut ctx);
    let execution = done(&mut ctx, &started, vec![answer(0, "5")]);
    assert_eq!(execution.session_id, Some(HostSession::id(&mut ctx, same(&session)).unwrap()));
    assert_eq!(stdout_in(&mut ctx, &session, "console.log(x)"), "5\n");
    assert!(matches!(error_of(HostStarted::files(&mut ctx, same(&started))), SandboxError::Unsupported(_)));
    let fork = HostSession::fork(&mut ctx, same(&session)).unwrap();
    let again = HostSession::start(&mut ctx, same(&fork), request("x + await tools.ask({q: 2})")).unwrap();
    needs(&mut ctx, &again, vec![]);
    assert_eq!(done(&mut ctx, &again, vec![answer(0, "6")]).value.unwrap().repr, "11", "a fork has the same tools");
}

#[test]
fn a_session_whose_execution_was_dropped_can_be_used() {
    let mut ctx = ctx();
    let policy = limited(|limits| limits.timeout_reserve_ms = Some(0));
    let session = HostSession::open(&mut ctx, Runtime::Javascript, policy, asking()).unwrap();
    stdout_in(&mut ctx, &session, "var x = 1");
    for source in ["x = 2; await tools.ask({q: 1})", "x = 2; for (;;) {}"] {
        let started = HostSession::start(&mut ctx, same(&session), request(source)).unwrap();
        release(&mut ctx, started);
        assert_eq!(
            stdout_in(&mut ctx, &session, "console.log(x)"),
            "1\n",
            "the call waits until the execution is unwound"
        );
    }
    assert_eq!(ctx.usage().started, 0);
}

#[test]
fn a_started_execution_outlives_its_sessions_handle() {
    let mut ctx = ctx();
    let session = HostSession::open(&mut ctx, Runtime::Javascript, no_policy(), asking()).unwrap();
    let started = HostSession::start(&mut ctx, same(&session), request("await tools.ask({q: 1}) + 1")).unwrap();
    HostSession::drop(&mut ctx, session).unwrap();
    assert_eq!(ctx.usage().sessions, 1, "the session exists until its execution ends");
    needs(&mut ctx, &started, vec![]);
    assert_eq!(done(&mut ctx, &started, vec![answer(0, "1")]).value.unwrap().repr, "2");
    assert_eq!(ctx.usage().sessions, 0);
}

#[test]
fn caller_tool_fails_in_a_plain_execution() {
    let mut ctx = ctx();
    let session = HostSession::open(&mut ctx, Runtime::Javascript, no_policy(), asking()).unwrap();
    let source = "try { await tools.ask({q: 1}) } catch (error) { console.log(error.name) }";
    assert_eq!(stdout_in(&mut ctx, &session, source), "ToolError\n");
}

#[test]
fn a_component_answers_its_own_tools() {
    let mut ctx = ctx();
    let started = start(&mut ctx, "print(await Promise.all([1, 2].map(q => tools.ask({q}))))");
    let requests = needs(&mut ctx, &started, vec![]);
    let calls: Vec<_> = requests.iter().map(|request| (request.id, &*request.name, &*request.arguments)).collect();
    assert_eq!(calls, [(0, "ask", r#"{"q":1}"#), (1, "ask", r#"{"q":2}"#)]);
    let left = needs(&mut ctx, &started, vec![answer(1, "\"b\"")]);
    assert_eq!(left.iter().map(|request| request.id).collect::<Vec<_>>(), [0]);
    let execution = done(&mut ctx, &started, vec![answer(0, "\"a\"")]);
    assert_eq!(output(&execution), "[ 'a', 'b' ]\n");
    assert_eq!(execution.session_id, None);
    assert_eq!(execution.tool_calls.len(), 2);
    assert_eq!(done(&mut ctx, &started, vec![]), execution, "the same result is returned again");
}

#[test]
fn component_tool_failure_reaches_the_script() {
    let mut ctx = ctx();
    let source = "try { await tools.ask({q: 1}) } catch (error) { print(error.name, error.message) }";
    let started = start(&mut ctx, source);
    needs(&mut ctx, &started, vec![]);
    let failure = CallFailure { kind: crate::wit::types::ToolError::Timeout, message: "too slow".into() };
    let execution = done(&mut ctx, &started, vec![ToolAnswer { id: 0, answer: Err(failure) }]);
    assert_eq!(output(&execution), "ToolTimeout too slow\n");
    let ToolOutcome::Failed(failure) = &execution.tool_calls[0].outcome else { panic!() };
    assert_eq!(failure.message.as_deref(), Some("too slow"));
}

#[test]
fn host_and_component_tools_coexist() {
    let host = glovebox::Tool::new("host", "").handler(|_, _| Err(ToolError::from("the host's words")));
    let host = SandboxHost::builder(engine()).tool(host).build().unwrap();
    let mut ctx = host.ctx();
    let source = "
try { await tools.host() } catch (error) { print(error.message) }
print(await tools.ask({q: 1}))";
    let started = start(&mut ctx, source);
    assert_eq!(needs(&mut ctx, &started, vec![])[0].id, 1);
    assert_eq!(output(&done(&mut ctx, &started, vec![answer(1, "2")])), "the host's words\n2\n");
    let twice = Host::start(&mut ctx, Runtime::Javascript, request(""), no_policy(), vec![tool("host", None)]);
    let SandboxError::InvalidArgument(text) = error_of(twice) else { panic!() };
    assert!(text.contains("`host`"), "{text}");
}

#[test]
fn output_is_readable_while_running() {
    let mut ctx = ctx();
    let started = start(&mut ctx, "console.log('one'); await tools.ask({q: 1}); console.error('two')");
    needs(&mut ctx, &started, vec![]);
    let read =
        |ctx: &mut SandboxCtx, stream, offset, len| ctx.read_output(same(&started), stream, offset, len).unwrap();
    assert_eq!(read(&mut ctx, OutputStream::Stdout, 1, 2), b"ne");
    assert_eq!(read(&mut ctx, OutputStream::Stderr, 0, u64::MAX), b"");
    done(&mut ctx, &started, vec![answer(0, "1")]);
    assert_eq!(read(&mut ctx, OutputStream::Stdout, 0, u64::MAX), b"one\n");
    assert_eq!(read(&mut ctx, OutputStream::Stderr, 0, u64::MAX), b"two\n");
}

#[test]
fn all_of_a_large_output_can_be_read() {
    let mut ctx = host(|policy| policy.limits.stdout_bytes = 40 << 20, |_| {}).ctx();
    let started = start(&mut ctx, "for (let i = 0; i < 20; i++) std.out.puts('x'.repeat(1 << 20))");
    let execution = done(&mut ctx, &started, vec![]);
    assert_eq!((execution.stdout.bytes.len(), execution.stdout.retained_bytes), (4 << 20, 20 << 20));
    let read = |ctx: &mut SandboxCtx, offset| {
        ctx.read_output(same(&started), OutputStream::Stdout, offset, u64::MAX).unwrap().len()
    };
    assert_eq!((read(&mut ctx, 0), read(&mut ctx, 16 << 20), read(&mut ctx, 20 << 20)), (16 << 20, 4 << 20, 0));
}

#[test]
fn files_are_available_after_the_end() {
    let mut ctx = ctx();
    let source = "const file = std.open('a', 'w'); file.puts(await tools.ask({q: 1})); file.close()";
    let started = start(&mut ctx, source);
    needs(&mut ctx, &started, vec![]);
    assert!(matches!(error_of(HostStarted::files(&mut ctx, same(&started))), SandboxError::SessionBusy(_)));
    done(&mut ctx, &started, vec![answer(0, "\"text\"")]);
    let files = HostStarted::files(&mut ctx, same(&started)).unwrap();
    release(&mut ctx, started);
    assert_eq!(HostFiles::read(&mut ctx, files, "a".into(), 0, 10).unwrap(), b"text");
}

#[test]
fn started_execution_can_be_cancelled() {
    let mut ctx = ctx();
    let started = start(&mut ctx, "console.log(1); for (;;) {}");
    HostStarted::cancel(&mut ctx, same(&started)).unwrap();
    HostStarted::cancel(&mut ctx, same(&started)).unwrap();
    assert_eq!(done(&mut ctx, &started, vec![]).outcome, Outcome::Cancelled);
    HostStarted::cancel(&mut ctx, same(&started)).unwrap();
    assert_eq!(stdout_of(&mut ctx, "console.log(2)"), "2\n", "other executions are not cancelled");
}

#[test]
fn component_token_cancels_a_started_execution() {
    let mut ctx = ctx();
    let token = ctx.cancel_token();
    let started = start(&mut ctx, ASKS);
    needs(&mut ctx, &started, vec![]);
    token.cancel();
    loop {
        match step(&mut ctx, &started, vec![]).unwrap() {
            Step::Done(execution) => break assert_eq!(execution.outcome, Outcome::Cancelled),
            Step::NeedsTools(_) => {}
            Step::Running => panic!("the execution still runs after the cancellation"),
        }
    }
}

#[test]
fn components_cannot_use_foreign_handles() {
    let (mut one, mut two) = (ctx(), ctx());
    let started = start(&mut one, ASKS);
    assert!(matches!(two.continue_(same(&started), vec![], None), Err(SandboxFailure::Trap(_))));
    assert!(HostStarted::cancel(&mut two, same(&started)).is_err());
    assert!(two.read_output(same(&started), OutputStream::Stdout, 0, 1).is_err());
    needs(&mut one, &started, vec![]);
}

/// The request has a fuel budget, as under a component's quota.
#[test]
fn suspension_charges_only_the_used_fuel() {
    const GRANTED: u64 = 1_000_000_000_000;
    let tool = glovebox::Tool::new("ask", "").stepped();
    let builder = glovebox::Sandbox::builder(engine()).language(glovebox::Language::JavaScript).tool(tool);
    let (sandbox, budget) = (builder.build().unwrap(), Budget::empty());
    budget.renew(GRANTED);
    let request = glovebox::Request::new("await tools.ask()").suspendable(true).budget(&budget);
    let started = sandbox.start(request).unwrap();
    assert!(matches!(started.advance(Vec::new(), None).unwrap(), glovebox::Step::NeedsTools(_)));
    started.suspend().unwrap();
    let glovebox::Step::Done(execution) = started.advance(Vec::new(), None).unwrap() else { panic!() };
    assert!(execution.fuel_consumed > 0);
    assert_eq!(GRANTED - budget.take(), execution.fuel_consumed);
}
