//! Quotas of started executions.

use std::sync::mpsc;

use super::*;
use crate::component::wit::sandbox::OutputStream;

/// Sets the limits of standard output, standard error and displays, which are counted together.
fn output_limits(policy: &mut crate::Policy, bytes: [u64; 3]) {
    let limits = &mut policy.limits;
    [limits.stdout_bytes, limits.stderr_bytes, limits.display_bytes] = bytes;
}

#[test]
fn files_over_the_quota_are_not_held() {
    // The maximum output, 2,000 bytes, is counted in advance; tools are counted, too.
    let limits = |policy: &mut crate::Policy| output_limits(policy, [1_000, 1_000, 0]);
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
fn so_many_are_started_at_once() {
    let mut ctx = with_quotas(|quotas| quotas.started = 2);
    let first = start(&mut ctx, ASKS);
    assert_eq!(ctx.usage().started, 1, "under");
    let second = start(&mut ctx, ASKS);
    let text = over_quota(try_start(&mut ctx, ASKS));
    assert!(text.contains("`started`"), "over: {text}");
    assert_eq!(ctx.usage().executions, 2, "what is refused is no execution");
    needs(&mut ctx, &first, vec![]);
    done(&mut ctx, &first, vec![answer(0, "1")]);
    // An ended execution no longer counts, although its handle exists.
    let third = start(&mut ctx, ASKS);
    assert!(try_start(&mut ctx, ASKS).is_err());
    for started in [first, second, third] {
        release(&mut ctx, started);
    }
}

#[test]
fn one_that_was_dropped_counts_until_it_has_ended() {
    let (begun, has_begun) = mpsc::channel();
    let (open, gate) = mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let slow = crate::Tool::new("slow", "").handler(move |_, _| {
        begun.send(()).unwrap();
        gate.lock().unwrap().recv().ok();
        Ok(serde_json::Value::Null)
    });
    let quotas = Quotas { started: 1, ..Quotas::default() };
    let host = SandboxHost::builder(engine()).tool(slow).quotas(quotas).build().unwrap();
    let mut ctx = host.ctx();
    let meter = std::sync::Arc::clone(&ctx.meter);
    let started = start(&mut ctx, "await tools.slow()");
    has_begun.recv().unwrap();
    release(&mut ctx, started);
    // No call waits for the handler; the execution must still end and return its shares.
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
fn what_it_holds_is_counted_and_given_back() {
    let mut ctx = ctx();
    let before = ctx.usage();
    let started = start(&mut ctx, ASKS);
    let while_it_runs = ctx.usage();
    let limits = crate::Limits::default();
    assert!(
        while_it_runs.held_bytes > limits.stdout_bytes + limits.stderr_bytes + limits.display_bytes,
        "its tools as well"
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
fn output_is_counted_before_it_comes() {
    let most = 10_000;
    for (held_bytes, fits) in [(most + 1, true), (most, true), (most - 1, false)] {
        let limits = |policy: &mut crate::Policy| output_limits(policy, [8_000, 1_000, 1_000]);
        let mut ctx = host(limits, |quotas| quotas.held_bytes = held_bytes).ctx();
        let started = Host::start(&mut ctx, Runtime::Javascript, request(""), no_policy(), vec![]);
        assert_eq!(started.is_ok(), fits, "{held_bytes}");
        assert_eq!(ctx.usage().executions, u64::from(fits));
    }
}

#[test]
fn fuel_is_not_overdrawn() {
    let mut ctx = with_quotas(|quotas| quotas.fuel = 500_000_000);
    let started = start(&mut ctx, "for (;;) {}");
    let text = over_quota(try_start(&mut ctx, ""));
    assert!(text.contains("`fuel`"), "the first may use all: {text}");
    assert!(matches!(done(&mut ctx, &started, vec![]).outcome, Outcome::Exhausted(_)));
    // The execution may have ended at its soft limit, with some fuel left.
    assert!(ctx.usage().fuel <= 500_000_000);
}

#[test]
fn dropping_the_sandbox_ends_what_was_started() {
    let mut ctx = ctx();
    let meter = std::sync::Arc::clone(&ctx.meter);
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
fn a_result_over_the_quota_is_not_held() {
    let limits = |policy: &mut crate::Policy| output_limits(policy, [1_000, 1_000, 0]);
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
