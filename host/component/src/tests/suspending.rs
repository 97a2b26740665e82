//! Tests of executions that the component suspends and resumes.

use std::{sync::Arc, thread, time::Duration};

use glovebox::{CancelToken, Suspended};

use super::{
    stepping::{LONG_MS, answer, ask, done, needs, output, output_limits, release},
    *,
};
use crate::{
    convert,
    quotas::QuotaUse,
    sandbox::Bytes,
    started::{SessionStartRequest, StartedResource},
    suspended::{JOURNAL_MEMORY_BYTES, MAX_JOURNAL_BYTES, SuspendableRequest},
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
    let limits = |policy: &mut glovebox::Policy| output_limits(policy, [1_000, 1_000, 0]);
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
    let limits = |policy: &mut glovebox::Policy| output_limits(policy, [1_000, 1_000, 0]);
    let mut ctx = host(limits, |quotas| quotas.held_bytes = JOURNAL_MEMORY_BYTES + 40_000_000).ctx();
    let started = start(&mut ctx, Request { stdin: Some(vec![b'x'; STDIN_BYTES]), ..request(ASKS_TWICE) });
    needs(&mut ctx, &started, vec![]);
    let reserved = (STDIN_BYTES + MAX_JOURNAL_BYTES + 1_000) as u64;
    let free = JOURNAL_MEMORY_BYTES + 40_000_000 - ctx.usage().held_bytes;
    let _rest = ctx.caller.meter.take(QuotaUse::Bytes(free - reserved)).unwrap();
    let blob = HostStarted::suspend(&mut ctx, same(&started)).unwrap();
    assert!(HostBlob::size(&mut ctx, same(&blob)).unwrap() > STDIN_BYTES as u64);
}

/// A script that depends on a session, in which `x` is a list.
const PUSHES: &str = "x.push(await tools.ask({q: x.length})); print(x.join())";

/// Opens a session with the tool `ask`. In the session, `x` is a list with one number, and `y` is a string of about
/// `bytes` bytes.
fn open_asking(ctx: &mut SandboxCtx, bytes: usize) -> Resource<SessionResource> {
    let options = SessionOptions { context: None, tools: Some(vec![ask()]) };
    let session = HostSession::open(ctx, Runtime::Javascript, no_policy(), options).unwrap();
    let source = format!("var x = [7], y = Array.from({{length: {}}}, Math.random).join(); 0", bytes / 20);
    stdout_in(ctx, &session, &source);
    session
}

fn put_started(ctx: &mut SandboxCtx, started: StartedResource) -> Resource<StartedResource> {
    let handle = ctx.caller.meter.take(QuotaUse::Handle).unwrap();
    ctx.put(handle, started).unwrap()
}

/// Starts an execution in a session, as `start-suspendable` of version 0.3.0 does.
fn try_start_in(
    ctx: &mut SandboxCtx,
    session: &Resource<SessionResource>,
    source: &str,
) -> Result<Resource<StartedResource>, SandboxFailure> {
    let resource = ctx.get(session).unwrap().clone();
    let (stepping, running) = resource.step().unwrap();
    let share = ctx.caller.meter.take(QuotaUse::Started).unwrap();
    let request = request(source);
    let start = SessionStartRequest {
        request: convert::request(&request).suspendable(true),
        suspendable: Some(SuspendableRequest::new(&request)),
    };
    let until_end = (running, stepping.second());
    let mut stepped = ctx.caller.start_in_session(resource, share, start, until_end)?;
    stepped.stepping = Some(stepping);
    Ok(put_started(ctx, stepped))
}

/// Restores the session of a suspended execution and starts the execution in it, as `session.resume-suspended` of
/// version 0.3.0 does.
fn try_resume_in(
    ctx: &mut SandboxCtx,
    bytes: &[u8],
) -> Result<(Resource<SessionResource>, Resource<StartedResource>), SandboxFailure> {
    let caller = Arc::clone(&ctx.caller);
    let sandbox = caller.sandbox_for(Runtime::Javascript, no_policy())?;
    let (suspended, suspendable) = caller.decode_suspended(bytes)?;
    let session = caller.restore_suspended(&sandbox, &[ask()], &suspended, &CancelToken::new())?;
    let (stepping, running) = session.step()?;
    let share = caller.meter.take(QuotaUse::Started)?;
    let start = SessionStartRequest { request: suspended.request(), suspendable: Some(suspendable) };
    let until_end = (running, stepping.second());
    let mut stepped = caller.start_in_session(session.clone(), share, start, until_end)?;
    stepped.stepping = Some(stepping);
    let handle = caller.meter.take(QuotaUse::Handle)?;
    Ok((ctx.put(handle, session)?, put_started(ctx, stepped)))
}

#[test]
fn executions_in_sessions_resume_in_other_stores() {
    let mut first = ctx();
    let session = open_asking(&mut first, 0);
    let started = try_start_in(&mut first, &session, PUSHES).unwrap();
    assert_eq!(needs(&mut first, &started, vec![])[0].arguments, r#"{"q":1}"#);
    let bytes = suspend(&mut first, &started);
    let ended = done(&mut first, &started, vec![]);
    assert_eq!(ended.outcome, Outcome::Cancelled);
    assert!(ended.rolled_back_to.is_some());
    // The session is in its state before the execution, and accepts the next one.
    assert_eq!(stdout_in(&mut first, &session, "print(x.push(8))"), "2\n");

    for reply in ["1", "2"] {
        let mut second = ctx();
        let (session, resumed) = try_resume_in(&mut second, &bytes).unwrap();
        assert_eq!(needs(&mut second, &resumed, vec![])[0].arguments, r#"{"q":1}"#);
        // A resumed execution can be suspended again.
        let again = suspend(&mut second, &resumed);
        assert_eq!(stdout_in(&mut second, &session, "print(x.join())"), "7\n");
        let mut third = ctx();
        let (session, resumed) = try_resume_in(&mut third, &again).unwrap();
        needs(&mut third, &resumed, vec![]);
        let execution = done(&mut third, &resumed, vec![answer(0, reply)]);
        assert_eq!(output(&execution), format!("7,{reply}\n"));
        assert_eq!(stdout_in(&mut third, &session, "print(x.join())"), format!("7,{reply}\n"));
    }
}

#[test]
fn suspended_executions_resume_where_they_ran() {
    let mut ctx = ctx();
    let outside = suspended(ASKS_TWICE);
    assert!(not_resumable(try_resume_in(&mut ctx, &outside)).contains("`sandbox.resume-suspended`"));
    let session = open_asking(&mut ctx, 0);
    let started = try_start_in(&mut ctx, &session, PUSHES).unwrap();
    needs(&mut ctx, &started, vec![]);
    let inside = suspend(&mut ctx, &started);
    assert!(not_resumable(try_resume(&mut ctx, &inside, no_policy())).contains("`session.resume-suspended`"));
    for at in [0, 8, 10, 12, inside.len() / 2, inside.len() - 1] {
        let mut changed = inside.clone();
        changed[at] ^= 1;
        not_resumable(try_resume_in(&mut ctx, &changed));
    }
    not_resumable(try_resume_in(&mut ctx, &inside[..inside.len() - 1]));
    assert_eq!((ctx.usage().sessions, ctx.usage().started), (1, 0));
}

/// Checks that a state that exceeds the quota does not end the execution, and that the state is charged once.
#[test]
fn state_of_the_session_counts_as_held_bytes() {
    // Less than `checkpoint_auto_bytes`, so that there is a checkpoint before the execution.
    const STATE_BYTES: usize = 500_000;
    let limits = |policy: &mut glovebox::Policy| output_limits(policy, [1_000, 1_000, 0]);
    let quota = JOURNAL_MEMORY_BYTES + 30_000_000;
    let mut ctx = host(limits, |quotas| quotas.held_bytes = quota).ctx();
    let session = open_asking(&mut ctx, STATE_BYTES);
    let idle = ctx.usage().held_bytes;
    let started = try_start_in(&mut ctx, &session, PUSHES).unwrap();
    needs(&mut ctx, &started, vec![]);
    let before = ctx.usage().held_bytes;
    let rest = ctx.caller.meter.take(QuotaUse::Bytes(quota - before - 100_000)).unwrap();
    assert!(over_quota(HostStarted::suspend(&mut ctx, same(&started))).contains("`held-bytes`"));
    // The part of the state that was serialized is released again.
    assert_eq!(ctx.usage().held_bytes, quota - 100_000);
    drop(rest);
    let bytes = suspend(&mut ctx, &started);
    // Random digits compress to about half their size.
    assert!(bytes.len() > STATE_BYTES / 4, "{}", bytes.len());
    assert!(ctx.usage().held_bytes < idle + 100_000, "the state is released: {:?}", ctx.usage());
    assert_eq!(stdout_in(&mut ctx, &session, "print(x.join())"), "7\n");
    assert!(Suspended::from_bytes(&bytes, None).unwrap().is_in_session());
    let (resumed_session, resumed) = try_resume_in(&mut ctx, &bytes).unwrap();
    needs(&mut ctx, &resumed, vec![]);
    assert!(ctx.usage().held_bytes > 2 * bytes.len() as u64, "the decoded bytes are charged");
    release(&mut ctx, started);
    release(&mut ctx, resumed);
    for session in [session, resumed_session] {
        HostSession::drop(&mut ctx, session).unwrap();
    }
    while ctx.usage().held_bytes > 0 || ctx.usage().sessions > 0 {
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(ctx.usage().handles, 0);
}

/// Checks that an execution whose request fits in the quota, but not its journal, does not start and holds nothing.
#[test]
fn journal_of_an_execution_in_a_session_is_charged_in_advance() {
    let limits = |policy: &mut glovebox::Policy| output_limits(policy, [1_000, 1_000, 0]);
    let mut ctx = host(limits, |quotas| quotas.held_bytes = JOURNAL_MEMORY_BYTES).ctx();
    let session = open_asking(&mut ctx, 0);
    let before = ctx.usage();
    assert!(over_quota(try_start_in(&mut ctx, &session, PUSHES)).contains("`held-bytes`"));
    let usage = ctx.usage();
    assert_eq!((usage.held_bytes, usage.started), (before.held_bytes, 0));
    assert_eq!(stdout_in(&mut ctx, &session, "print(x.join())"), "7\n");
}
