//! Tests of executions that the component suspends and resumes.

use std::{thread, time::Duration};

use super::{
    stepping::{LONG_MS, answer, ask, done, needs, output, output_limits, release},
    *,
};
use crate::component::{
    quotas::QuotaUse,
    sandbox::Bytes,
    started::{JOURNAL_MEMORY_BYTES, MAX_JOURNAL_BYTES, StartedResource},
    wit::{
        sandbox::{HostBlob, HostStarted, Step},
        types::InputFile,
    },
};

const ASKS_TWICE: &str = "print('before'); print(await tools.ask({q: 1})); print(await tools.ask({q: 2}))";

fn start(ctx: &mut SandboxCtx, request: Request) -> Resource<StartedResource> {
    Host::start_suspendable(ctx, Runtime::Javascript, request, no_policy(), vec![ask()]).unwrap()
}

/// Suspends an execution and returns the bytes.
fn suspend(ctx: &mut SandboxCtx, started: &Resource<StartedResource>) -> Vec<u8> {
    let blob = HostStarted::suspend(ctx, same(started)).unwrap();
    let bytes = HostBlob::read(ctx, same(&blob), 0, u64::MAX).unwrap();
    HostBlob::drop(ctx, blob).unwrap();
    bytes
}

/// Starts a script in a new store and suspends it at its first call.
fn suspended(source: &str) -> Vec<u8> {
    let mut ctx = ctx();
    let started = start(&mut ctx, request(source));
    needs(&mut ctx, &started, vec![]);
    suspend(&mut ctx, &started)
}

fn blob(ctx: &mut SandboxCtx, bytes: &[u8]) -> Resource<Bytes> {
    let blob = HostBlob::new(ctx).unwrap();
    HostBlob::append(ctx, same(&blob), bytes.to_vec()).unwrap();
    blob
}

fn try_resume(ctx: &mut SandboxCtx, bytes: &[u8], policy: Policy) -> Result<Resource<StartedResource>, SandboxFailure> {
    let blob = blob(ctx, bytes);
    let resumed = Host::resume_suspended(ctx, Runtime::Javascript, same(&blob), vec![], policy, vec![ask()]);
    HostBlob::drop(ctx, blob).unwrap();
    resumed
}

fn resume(ctx: &mut SandboxCtx, bytes: &[u8]) -> Resource<StartedResource> {
    try_resume(ctx, bytes, no_policy()).unwrap()
}

fn not_resumable<T: std::fmt::Debug>(result: Result<T, SandboxFailure>) -> String {
    match error_of(result) {
        SandboxError::NotResumable(text) => text,
        other => panic!("{other:?}"),
    }
}

fn unsupported<T: std::fmt::Debug>(result: Result<T, SandboxFailure>) -> String {
    match error_of(result) {
        SandboxError::Unsupported(text) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn suspended_executions_resume_in_other_stores() {
    let mut first = ctx();
    let started = start(&mut first, request(ASKS_TWICE));
    assert_eq!(needs(&mut first, &started, vec![])[0].id, 0);
    let bytes = suspend(&mut first, &started);
    assert_eq!(done(&mut first, &started, vec![]).outcome, Outcome::Cancelled);
    assert!(unsupported(HostStarted::suspend(&mut first, same(&started))).contains("ended"));
    release(&mut first, started);

    let mut second = ctx();
    let resumed = resume(&mut second, &bytes);
    let calls = needs(&mut second, &resumed, vec![]);
    assert_eq!((calls[0].id, &*calls[0].name, &*calls[0].arguments), (0, "ask", r#"{"q":1}"#));
    assert_eq!(needs(&mut second, &resumed, vec![answer(0, "\"a\"")])[0].id, 1);
    let bytes = suspend(&mut second, &resumed);

    // A suspended execution can be resumed several times, with different answers.
    for (reply, expected) in [("\"b\"", "before\na\nb\n"), ("\"c\"", "before\na\nc\n")] {
        let mut third = ctx();
        let resumed = resume(&mut third, &bytes);
        assert_eq!(needs(&mut third, &resumed, vec![])[0].id, 1);
        let execution = done(&mut third, &resumed, vec![answer(1, reply)]);
        assert_eq!(output(&execution), expected);
        assert_eq!(execution.tool_calls.len(), 2);
    }
}

#[test]
fn executions_that_cannot_be_suspended_continue() {
    let mut ctx = ctx();
    let plain = stepping::start(&mut ctx, ASKS_TWICE);
    needs(&mut ctx, &plain, vec![]);
    assert!(unsupported(HostStarted::suspend(&mut ctx, same(&plain))).contains("`start-suspendable`"));
    needs(&mut ctx, &plain, vec![answer(0, "1")]);
    assert_eq!(output(&done(&mut ctx, &plain, vec![answer(1, "2")])), "before\n1\n2\n");

    let endless = start(&mut ctx, request("for (;;) {}"));
    let busy = error_of(HostStarted::suspend(&mut ctx, same(&endless)));
    assert!(matches!(busy, SandboxError::SessionBusy(_)), "{busy:?}");
    release(&mut ctx, endless);

    let options = SessionOptions { context: None, tools: Some(vec![ask()]) };
    let session = HostSession::open(&mut ctx, Runtime::Javascript, no_policy(), options).unwrap();
    let stepped = HostSession::start(&mut ctx, same(&session), request(ASKS_TWICE)).unwrap();
    needs(&mut ctx, &stepped, vec![]);
    unsupported(HostStarted::suspend(&mut ctx, same(&stepped)));
    needs(&mut ctx, &stepped, vec![answer(0, "1")]);
    assert_eq!(output(&done(&mut ctx, &stepped, vec![answer(1, "2")])), "before\n1\n2\n");
}

#[test]
fn other_bytes_and_other_runtimes_are_rejected() {
    let bytes = suspended(ASKS_TWICE);
    let mut ctx = ctx();
    not_resumable(try_resume(&mut ctx, b"", no_policy()));
    not_resumable(try_resume(&mut ctx, &bytes[..bytes.len() - 1], no_policy()));
    for at in [0, 8, 10, 12, bytes.len() / 2, bytes.len() - 1] {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        not_resumable(try_resume(&mut ctx, &changed, no_policy()));
    }
    let blob = blob(&mut ctx, &bytes);
    not_resumable(Host::resume_suspended(&mut ctx, Runtime::Python, same(&blob), vec![], no_policy(), vec![ask()]));
    // The execution needs a tool that the new caller does not have.
    let without_tools = Host::resume_suspended(&mut ctx, Runtime::Javascript, blob, vec![], no_policy(), vec![]);
    match without_tools {
        Ok(resumed) => drop(not_resumable(ctx.continue_(resumed, vec![], Some(LONG_MS)))),
        rejected => drop(not_resumable(rejected)),
    }
    assert_eq!(ctx.usage().sessions, 0);
    needs_first_call(&mut ctx, &bytes);
}

/// Resumes an execution and checks that it waits for its first call.
fn needs_first_call(ctx: &mut SandboxCtx, bytes: &[u8]) {
    let resumed = resume(ctx, bytes);
    assert_eq!(needs(ctx, &resumed, vec![])[0].id, 0);
    release(ctx, resumed);
}

#[test]
fn different_files_are_reported() {
    let source = "print(std.loadFile('a')); print(await tools.ask({q: 1}))";
    let files = |text: &str| vec![InputFile { path: "a".into(), bytes: text.into() }];
    let mut ctx = ctx();
    let started = start(&mut ctx, Request { files: Some(files("old")), ..request(source) });
    needs(&mut ctx, &started, vec![]);
    let bytes = suspend(&mut ctx, &started);
    let mut resume_with = |text: &str| {
        let blob = blob(&mut ctx, &bytes);
        let policy = no_policy();
        let resumed =
            Host::resume_suspended(&mut ctx, Runtime::Javascript, blob, files(text), policy, vec![ask()]).unwrap();
        ctx.continue_(same(&resumed), vec![], Some(LONG_MS))
    };
    assert!(not_resumable(resume_with("newer")).contains("bytes to standard output"));
    assert!(matches!(resume_with("old"), Ok(Step::NeedsTools(_))));
}

#[test]
fn policy_of_the_resumption_applies() {
    let bytes = suspended(ASKS_TWICE);
    let mut ctx = ctx();
    let source_bytes = ASKS_TWICE.len() as u64;
    let at_limit = try_resume(&mut ctx, &bytes, limited(|limits| limits.source_bytes = Some(source_bytes)));
    release(&mut ctx, at_limit.unwrap());
    let over = try_resume(&mut ctx, &bytes, limited(|limits| limits.source_bytes = Some(source_bytes - 1)));
    assert!(matches!(error_of(over), SandboxError::SourceTooLarge(_)));
}

#[test]
fn suspended_executions_count_as_held_bytes() {
    let limits = |policy: &mut crate::Policy| output_limits(policy, [1_000, 1_000, 0]);
    let mut none = host(limits, |quotas| quotas.held_bytes = JOURNAL_MEMORY_BYTES).ctx();
    let refused = Host::start_suspendable(&mut none, Runtime::Javascript, request("1"), no_policy(), vec![]);
    assert!(over_quota(refused).contains("`held-bytes`"), "the journal is charged in advance");
    assert_eq!((none.usage().held_bytes, none.usage().started), (0, 0));

    // Suspending reserves 2 MiB for the journal.
    let mut small = host(limits, |quotas| quotas.held_bytes = JOURNAL_MEMORY_BYTES + 1_000_000).ctx();
    let started = start(&mut small, request(ASKS_TWICE));
    needs(&mut small, &started, vec![]);
    assert!(over_quota(HostStarted::suspend(&mut small, same(&started))).contains("`held-bytes`"));
    needs(&mut small, &started, vec![answer(0, "1")]);
    assert_eq!(output(&done(&mut small, &started, vec![answer(1, "2")])), "before\n1\n2\n", "it continues");

    let mut large = host(limits, |quotas| quotas.held_bytes = JOURNAL_MEMORY_BYTES + 4_000_000).ctx();
    let started = start(&mut large, request(ASKS_TWICE));
    needs(&mut large, &started, vec![]);
    let blob = HostStarted::suspend(&mut large, same(&started)).unwrap();
    assert!(large.usage().held_bytes < 1_000_000, "the rest of the reservation is returned");
    let resumed =
        Host::resume_suspended(&mut large, Runtime::Javascript, same(&blob), vec![], no_policy(), vec![ask()]).unwrap();
    needs(&mut large, &resumed, vec![]);
    HostBlob::drop(&mut large, blob).unwrap();
    release(&mut large, started);
    release(&mut large, resumed);
    // The cancelled execution returns its shares when it has ended.
    while large.usage().held_bytes > 0 {
        thread::sleep(Duration::from_millis(10));
    }
}

/// Checks that a handle keeps its request after the execution has ended.
#[test]
fn requests_of_suspendable_executions_count_as_held_bytes() {
    let mut ctx = ctx();
    let started = start(&mut ctx, Request { stdin: Some(vec![b'x'; 1_000_000]), ..request("1") });
    done(&mut ctx, &started, vec![]);
    assert!((1_000_000..2_000_000).contains(&ctx.usage().held_bytes), "{:?}", ctx.usage());
    release(&mut ctx, started);
    while ctx.usage().held_bytes > 0 {
        thread::sleep(Duration::from_millis(10));
    }
}

/// Suspending ends the execution, so the execution would be lost if its bytes exceeded the quota afterwards.
#[test]
fn reservation_is_enough_for_a_suspended_execution() {
    const STDIN_BYTES: usize = 16_000_000;
    let limits = |policy: &mut crate::Policy| output_limits(policy, [1_000, 1_000, 0]);
    let mut ctx = host(limits, |quotas| quotas.held_bytes = JOURNAL_MEMORY_BYTES + 40_000_000).ctx();
    let started = start(&mut ctx, Request { stdin: Some(vec![b'x'; STDIN_BYTES]), ..request(ASKS_TWICE) });
    needs(&mut ctx, &started, vec![]);
    let reserved = (STDIN_BYTES + MAX_JOURNAL_BYTES + 1_000) as u64;
    let free = JOURNAL_MEMORY_BYTES + 40_000_000 - ctx.usage().held_bytes;
    let _rest = ctx.caller.meter.take(QuotaUse::Bytes(free - reserved)).unwrap();
    let blob = HostStarted::suspend(&mut ctx, same(&started)).unwrap();
    assert!(HostBlob::size(&mut ctx, same(&blob)).unwrap() > STDIN_BYTES as u64);
}
