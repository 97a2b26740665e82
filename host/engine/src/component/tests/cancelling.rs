//! Cancelling a component's executions.

use std::thread;

use super::*;

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
