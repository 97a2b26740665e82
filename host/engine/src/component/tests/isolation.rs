//! Isolation between stores, and cancelling the executions of one.

use std::thread;

use super::*;
use crate::component::wit::sandbox::HostBlob;

#[test]
fn a_handle_of_another_store_is_none_here() {
    let host = host(|_| {}, |_| {});
    let (mut one, mut other) = (host.ctx(), host.ctx());
    let session = open(&mut one);
    assert!(HostSession::id(&mut other, same(&session)).is_err());
    assert!(matches!(HostSession::execute(&mut other, same(&session), request("1")), Err(SandboxFailure::Trap(_))));
    assert!(HostSession::drop(&mut other, same(&session)).is_err());
    // A handle with the same number in another store is a different session.
    let theirs = open(&mut other);
    said_in(&mut one, &session, "globalThis.x = 'one'");
    said_in(&mut other, &theirs, "globalThis.x = 'other'");
    assert_eq!(said_in(&mut one, &session, "console.log(x)"), "one\n");
    assert_ne!(HostSession::id(&mut one, session).unwrap(), HostSession::id(&mut other, theirs).unwrap());
}

#[test]
fn a_handle_is_none_of_another_type_and_none_once_dropped() {
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
fn what_one_has_used_is_not_anothers_loss() {
    let host = host(|_| {}, |quotas| quotas.executions = 1);
    let (mut one, mut other) = (host.ctx(), host.ctx());
    said(&mut one, "1");
    over_quota(one.run(Runtime::Javascript, request("1"), no_policy()));
    said(&mut other, "1");
}

#[test]
fn a_dropped_context_frees_its_sessions() {
    // A separate engine, whose session count no other test changes.
    let cache_dir = Some(engine().cache_dir().to_path_buf());
    let lone = Engine::new(EngineConfig { cache_dir, pool: None, ..EngineConfig::default() }).unwrap();
    let mut policy = crate::Policy::default();
    policy.limits.session_count = 2;
    let host = SandboxHost::builder(&lone).policy(policy).build().unwrap();
    let mut ctx = host.ctx();
    let session = open(&mut ctx);
    HostSession::fork(&mut ctx, session).unwrap();
    let mut other = host.ctx();
    let third = HostSession::open(&mut other, Runtime::Javascript, no_policy(), no_options());
    let SandboxError::TooManySessions(text) = told(third) else { panic!("there are two") };
    assert_eq!(text, "`limits.session-count`: 3 of 2 would be in use; close a session first");
    drop(ctx);
    open(&mut other);
    open(&mut other);
}

#[test]
fn the_contexts_token_stops_what_runs_and_what_comes_later() {
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
fn a_variable_that_never_answers_is_stopped_with_the_context() {
    let mut ctx = ctx();
    let session = HostSession::open(&mut ctx, Runtime::Python, no_policy(), no_options()).unwrap();
    said_in(&mut ctx, &session, "class Endless:\n    def __repr__(self):\n        while True: pass\nx = Endless()");
    let token = ctx.cancel_token();
    let got = thread::scope(|scope| {
        let running = scope.spawn(move || HostSession::get_variable(&mut ctx, session, "x".into()));
        token.cancel();
        running.join().unwrap()
    });
    let SandboxError::Variable(text) = told(got) else { panic!("it is a variable's error") };
    assert!(text.contains("cancelled"), "{text}");
}

#[test]
fn a_deadline_cancels_one_execution_and_no_other() {
    let mut ctx = ctx();
    let late = Request { deadline_ms: Some(1), ..request("for (;;);") };
    assert_eq!(ctx.run(Runtime::Javascript, late, no_policy()).unwrap().outcome, Outcome::Cancelled);
    let never = Request { deadline_ms: Some(u64::MAX), ..request("1") };
    assert_eq!(ctx.run(Runtime::Javascript, never, no_policy()).unwrap().outcome, Outcome::Completed);
}

#[test]
fn what_was_unwound_for_its_time_is_paid_for_in_full() {
    let mut ctx = ctx();
    let policy = limited(|limits| {
        limits.fuel = Some(5_000_000_000);
        limits.timeout_ms = Some(20);
        limits.timeout_reserve_ms = Some(0);
    });
    // The loop calls no host function, so the host cannot know how much fuel it has used.
    let execution = ctx.run(Runtime::Javascript, request("for (;;);"), policy).unwrap();
    assert!(matches!(execution.outcome, Outcome::Exhausted(_)));
    assert_eq!(ctx.usage().fuel, 5_000_000_000);
}
