//! Tests of requested policies and the granted defaults.

use std::thread;

use glovebox::{Clock, Entropy, Mount};

use super::*;
use crate::{
    HostError,
    wit::{
        sandbox::HostBlob,
        types::{self, Checkpoints, OnUnwind},
    },
};

#[test]
fn requested_limits_apply() {
    let mut ctx = ctx();
    let policy = limited(|limits| limits.fuel = Some(1_000_000));
    let execution = ctx.run(Runtime::Javascript, request("for (;;);"), policy).unwrap();
    let Outcome::Exhausted(types::Exhausted { limit: 1_000_000, .. }) = execution.outcome else {
        panic!("{:?}", execution.outcome);
    };
    let policy = Policy { args: Some(vec!["a".into()]), ..no_policy() };
    let execution = ctx.run(Runtime::Javascript, request("console.log(scriptArgs[1])"), policy).unwrap();
    assert_eq!(execution.stdout.bytes, b"a\n");
    let policy = Policy { env: Some(vec![("TZ".into(), "UTC".into())]), ..no_policy() };
    let execution = ctx.run(Runtime::Javascript, request("console.log(std.getenv('TZ'))"), policy).unwrap();
    assert_eq!(execution.stdout.bytes, b"UTC\n");
    let policy = Policy { clock: Some(types::Clock::Fixed(1_700_000_000_000_000_000)), ..no_policy() };
    let execution = ctx.run(Runtime::Javascript, request("console.log(Date.now())"), policy).unwrap();
    assert_eq!(execution.stdout.bytes, b"1700000000000\n");
    let policy = Policy { entropy: Some(types::Entropy::Seeded(7)), ..no_policy() };
    let random = |ctx: &mut SandboxCtx| {
        let execution = ctx.run(Runtime::Javascript, request("console.log(Math.random())"), policy.clone());
        execution.unwrap().stdout.bytes
    };
    assert_eq!(random(&mut ctx), random(&mut ctx));
}

#[test]
fn invalid_policy_values_name_the_valid_ones() {
    let mut ctx = ctx();
    let mut refused = |policy| bad_policy(ctx.run(Runtime::Javascript, request("1"), policy));
    let zero = refused(limited(|limits| limits.timeout_ms = Some(0)));
    assert!(zero.contains("`limits.timeout-ms` is 0") && zero.contains("between 1 and"), "{zero}");
    let small = refused(limited(|limits| limits.memory_bytes = Some(1 << 20)));
    assert!(small.contains("`limits.memory-bytes` is 1048576") && small.contains("alone needs"), "{small}");
    let env = |entries: &[(&str, &str)]| {
        let entries = entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Policy { env: Some(entries.collect()), ..no_policy() }
    };
    assert_eq!(refused(env(&[("A", "1"), ("A", "2")])), "`env`: `A` is set twice");
    assert!(refused(env(&[("A=B", "1")])).starts_with("`env`: `A=B`: "));
    assert!(refused(env(&[(&"x".repeat(200_000), "1")])).len() < 5_000, "a long name is truncated in the message");
    let args = |arg: &str| Policy { args: Some(vec![arg.into()]), ..no_policy() };
    assert!(refused(args("a\0")).contains("`args[0]`"));
    let max = glovebox::Policy::MAX_ARGS_AND_ENV_BYTES;
    assert!(refused(args(&"x".repeat(max))).contains("the maximum is"));
    assert_eq!(refused(with_session(|session| session.checkpoints = Some(Checkpoints::Every(0)))), {
        "`session.checkpoints.every` must be at least 1"
    });
    assert_eq!(refused(with_session(|session| session.checkpoints_retained = Some(0))), {
        "`session.checkpoints-retained` must be at least 1"
    });
    let over = refused(with_session(|session| session.checkpoints_retained = Some(9)));
    assert_eq!(over, "`session.checkpoints-retained`: 9 is requested, but the maximum is 8");
    let over = refused(with_session(|session| session.checkpoint_auto_bytes = Some((4 << 20) + 1)));
    assert!(over.starts_with("`session.checkpoint-auto-bytes`: 4194305 is requested"), "{over}");
}

#[test]
fn host_clock_and_entropy_need_the_grant() {
    let fixed = host(
        |policy| {
            policy.clock = Clock::Fixed(5_000_000);
            policy.entropy = Entropy::Seeded(1);
        },
        |_| {},
    );
    let mut ctx = fixed.ctx();
    assert_eq!(stdout_of(&mut ctx, "console.log(Date.now())"), "5\n");
    let clock = Policy { clock: Some(types::Clock::Host), ..no_policy() };
    assert!(bad_policy(ctx.run(Runtime::Javascript, request("1"), clock)).starts_with("`clock`: "));
    let entropy = Policy { entropy: Some(types::Entropy::Host), ..no_policy() };
    assert!(bad_policy(ctx.run(Runtime::Javascript, request("1"), entropy)).starts_with("`entropy`: "));
    let other =
        Policy { clock: Some(types::Clock::Fixed(7_000_000)), entropy: Some(types::Entropy::Seeded(2)), ..no_policy() };
    let execution = ctx.run(Runtime::Javascript, request("console.log(Date.now())"), other).unwrap();
    assert_eq!(execution.stdout.bytes, b"7\n");
}

#[test]
fn default_policy_equals_the_granted_policy() {
    let mut ctx = host(|policy| policy.limits.fuel = 77_000_000, |_| {}).ctx();
    let policy = ctx.default_policy().unwrap();
    let limits = policy.limits.as_ref().unwrap();
    assert_eq!((limits.fuel, limits.stdin_bytes), (Some(77_000_000), Some(16 << 20)));
    assert_eq!(policy.session.as_ref().unwrap().on_unwind, Some(OnUnwind::RollBack));
    assert!(policy.args.is_some() && policy.env.is_some() && policy.clock.is_some() && policy.entropy.is_some());
    assert_eq!(ctx.caller.host.0.grant.policy(policy).unwrap(), ctx.caller.host.0.grant.0);
}

#[test]
fn host_directories_are_rejected_for_components() {
    let built = |edit: fn(&mut glovebox::Policy)| {
        let mut policy = glovebox::Policy::default();
        edit(&mut policy);
        SandboxHost::builder(engine()).policy(policy).build().map(drop).unwrap_err()
    };
    let workspace = built(|policy| policy.workspace = Some("/tmp".into()));
    assert!(matches!(workspace, HostError::HostDirectory { key: "workspace" }));
    let mount = built(|policy| {
        policy.mounts = vec![Mount { host: "/tmp".into(), guest: "/data".into(), read_only: true }];
    });
    assert!(matches!(mount, HostError::HostDirectory { key: "mounts" }));
    assert!(matches!(built(|policy| policy.limits.fuel = 0), HostError::Policy(_)));
}

#[test]
fn info_lists_the_available_runtimes() {
    let mut ctx = ctx();
    let info = ctx.provider();
    let names: Vec<_> = info.runtimes.iter().map(|runtime| runtime.name.as_str()).collect();
    assert_eq!(names, ["python-3.12", "javascript", "javascript-0.11"], "the default runtimes come first");
    let mut run = |name: &str| ctx.run(Runtime::Named(name.into()), request("1"), no_policy());
    assert_eq!(run("javascript").unwrap().metadata.runtime, types::Language::Javascript);
    // `python-3.15` takes minutes to fetch and compile, and was not added.
    for name in ["", "ruby", "../python", "/bin/sh", "javascript\0", "python-3.15"] {
        assert!(matches!(error_of(run(name)), SandboxError::UnknownRuntime(_)), "{name}");
    }
}

#[test]
fn handle_of_another_store_is_invalid() {
    let host = host(|_| {}, |_| {});
    let (mut one, mut other) = (host.ctx(), host.ctx());
    let session = open(&mut one);
    assert!(HostSession::id(&mut other, same(&session)).is_err());
    assert!(matches!(HostSession::execute(&mut other, same(&session), request("1")), Err(SandboxFailure::Trap(_))));
    assert!(HostSession::drop(&mut other, same(&session)).is_err());
    // A handle number refers to a different session in each store.
    let theirs = open(&mut other);
    stdout_in(&mut one, &session, "globalThis.x = 'one'");
    stdout_in(&mut other, &theirs, "globalThis.x = 'other'");
    assert_eq!(stdout_in(&mut one, &session, "console.log(x)"), "one\n");
    assert_ne!(HostSession::id(&mut one, session).unwrap(), HostSession::id(&mut other, theirs).unwrap());
}

#[test]
fn mistyped_and_dropped_handles_are_invalid() {
    let mut ctx = ctx();
    let blob = HostBlob::new(&mut ctx).unwrap();
    let forged = Resource::<SessionResource>::new_own(blob.rep());
    assert!(HostSession::id(&mut ctx, forged).is_err());
    HostBlob::drop(&mut ctx, same(&blob)).unwrap();
    assert!(HostBlob::size(&mut ctx, same(&blob)).is_err());
    assert!(HostBlob::drop(&mut ctx, blob).is_err());
    assert!(HostBlob::size(&mut ctx, Resource::new_own(u32::MAX)).is_err());
    assert_eq!(ctx.usage().handles, 0);
}

#[test]
fn a_dropped_context_frees_its_sessions() {
    // Use a separate engine, because other tests change the session count of the shared engine.
    let mut config = EngineConfig::default();
    (config.cache_dir, config.pool) = (Some(engine().cache_dir().to_path_buf()), None);
    let lone = Engine::new(config).unwrap();
    let mut policy = glovebox::Policy::default();
    policy.limits.session_count = 2;
    let host = SandboxHost::builder(&lone).policy(policy).build().unwrap();
    let mut ctx = host.ctx();
    let session = open(&mut ctx);
    HostSession::fork(&mut ctx, session).unwrap();
    let mut other = host.ctx();
    let third = HostSession::open(&mut other, Runtime::Javascript, no_policy(), no_options());
    let SandboxError::TooManySessions(text) = error_of(third) else { panic!("the third session was not rejected") };
    assert_eq!(
        text,
        "`limits.session-count` would be exceeded: all sessions together need 3; the maximum is 2; close a session first"
    );
    drop(ctx);
    open(&mut other);
    open(&mut other);
}

#[test]
fn context_token_stops_current_and_later_executions() {
    let mut ctx = ctx();
    let token = ctx.cancel_token();
    let session = open(&mut ctx);
    let (outcome, mut ctx) = thread::scope(|scope| {
        let running = scope.spawn(move || {
            let outcome = ctx.run(Runtime::Javascript, request("for (;;);"), no_policy()).unwrap().outcome;
            (outcome, ctx)
        });
        token.cancel();
        running.join().unwrap()
    });
    assert_eq!(outcome, Outcome::Cancelled);
    let later = ctx.run(Runtime::Javascript, request("1"), no_policy()).unwrap();
    assert_eq!((later.outcome, later.fuel_consumed), (Outcome::Cancelled, 0));
    let in_session = HostSession::execute(&mut ctx, session, request("1")).unwrap();
    assert_eq!(in_session.outcome, Outcome::Cancelled);
}

#[test]
fn endless_variable_read_stops_with_the_context() {
    let mut ctx = ctx();
    let session = HostSession::open(&mut ctx, Runtime::Python, no_policy(), no_options()).unwrap();
    stdout_in(&mut ctx, &session, "class Endless:\n    def __repr__(self):\n        while True: pass\nx = Endless()");
    let token = ctx.cancel_token();
    let got = thread::scope(|scope| {
        let running = scope.spawn(move || HostSession::get_variable(&mut ctx, session, "x".into()));
        token.cancel();
        running.join().unwrap()
    });
    let SandboxError::Variable(text) = error_of(got) else { panic!("the error is not `Variable`") };
    assert!(text.contains("cancelled"), "{text}");
}

#[test]
fn deadline_cancels_only_its_execution() {
    let mut ctx = ctx();
    let late = Request { deadline_ms: Some(1), ..request("for (;;);") };
    assert_eq!(ctx.run(Runtime::Javascript, late, no_policy()).unwrap().outcome, Outcome::Cancelled);
    let never = Request { deadline_ms: Some(u64::MAX), ..request("1") };
    assert_eq!(ctx.run(Runtime::Javascript, never, no_policy()).unwrap().outcome, Outcome::Completed);
}

#[test]
fn timed_out_execution_is_charged_in_full() {
    let mut ctx = ctx();
    let policy = limited(|limits| {
        limits.fuel = Some(5_000_000_000);
        limits.timeout_ms = Some(20);
        limits.timeout_reserve_ms = Some(0);
    });
    // The time limit stops the loop, so its exact fuel use is unknown and the whole limit is charged.
    let execution = ctx.run(Runtime::Javascript, request("for (;;);"), policy).unwrap();
    assert!(matches!(execution.outcome, Outcome::Exhausted(_)));
    assert_eq!(ctx.usage().fuel, 5_000_000_000);
}
