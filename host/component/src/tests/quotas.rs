//! Tests of the quotas on a component's total usage.

use super::*;
use crate::{
    Usage,
    quotas::QuotaUse,
    wit::{sandbox::HostFiles, types},
};

#[test]
fn rejected_requests_are_not_counted() {
    let mut ctx = ctx();
    let over = limited(|limits| limits.fuel = Some(u64::MAX));
    bad_policy(ctx.run(Runtime::Javascript, request("1"), over));
    error_of(ctx.run(Runtime::Named("ruby".into()), request("1"), no_policy()));
    assert_eq!(ctx.usage(), Usage::default());
    // The engine rejects this request, which was counted but used no fuel.
    let long = "1;".repeat(1 << 20);
    assert!(matches!(
        error_of(ctx.run(Runtime::Javascript, request(&long), no_policy())),
        SandboxError::SourceTooLarge(types::TooLarge { bytes: 2_097_152, limit: 1_048_576 })
    ));
    assert_eq!(ctx.usage(), Usage { executions: 1, ..Usage::default() });
}

#[test]
fn total_fuel_cannot_be_overdrawn() {
    let max = 40_000_000;
    let mut ctx = with_quotas(|quotas| quotas.fuel = max);
    let policy = limited(|limits| limits.fuel = Some(30_000_000));
    let run = |ctx: &mut SandboxCtx, source: &str| ctx.run(Runtime::Javascript, request(source), policy.clone());
    let first = run(&mut ctx, "for (let i = 0; i < 1000; i++);").unwrap();
    assert_eq!(first.outcome, Outcome::Completed);
    assert_eq!(ctx.usage().fuel, first.fuel_consumed, "unused fuel is returned to the quota");
    let second = run(&mut ctx, "for (;;);").unwrap();
    assert!(matches!(second.outcome, Outcome::Exhausted(types::Exhausted { limit: 30_000_000, .. })));
    let used = first.fuel_consumed + 30_000_000;
    assert!(ctx.usage().fuel <= used && ctx.usage().fuel > 27_000_000, "{:?}", ctx.usage());
    let left = max - ctx.usage().fuel;
    let third = run(&mut ctx, "for (;;);").unwrap();
    let Outcome::Exhausted(types::Exhausted { limit, .. }) = third.outcome else { panic!("{:?}", third.outcome) };
    assert_eq!(limit, left, "the execution gets the remaining fuel");
    while ctx.usage().fuel < max {
        run(&mut ctx, "for (;;);").unwrap();
    }
    assert_eq!(
        over_quota(run(&mut ctx, "1")),
        format!("`fuel` would be exceeded: the maximum is {max}; raise the quota in the host")
    );
    assert_eq!(over_quota(ctx.validate(Runtime::Javascript, request("1"), no_policy())), {
        format!("`fuel` would be exceeded: the maximum is {max}; raise the quota in the host")
    });
    assert_eq!(ctx.usage().fuel, max);
}

#[test]
fn every_session_operation_is_charged() {
    let mut ctx = ctx();
    let session = HostSession::open(&mut ctx, Runtime::Python, no_policy(), no_options()).unwrap();
    let mut last = ctx.usage().fuel;
    let mut grew = |ctx: &SandboxCtx| ctx.usage().fuel > std::mem::replace(&mut last, ctx.usage().fuel);
    HostSession::set_variable(&mut ctx, same(&session), "x".into(), "[1, 2]".into()).unwrap();
    assert!(grew(&ctx));
    HostSession::get_variable(&mut ctx, same(&session), "x".into()).unwrap();
    assert!(grew(&ctx));
    ctx.validate(Runtime::Javascript, request("f(1)"), no_policy()).unwrap();
    assert!(grew(&ctx));
    let before = ctx.usage().fuel;
    let execution = HostSession::execute(&mut ctx, same(&session), request("len(x)")).unwrap();
    assert_eq!(ctx.usage().fuel - before, execution.fuel_consumed);
    grew(&ctx);
    let state = HostSession::hibernate(&mut ctx, same(&session)).unwrap();
    assert!(!grew(&ctx), "saving a session uses no fuel");
    let options = SessionOptions { context: Some("1".into()), ..no_options() };
    HostSession::resume(&mut ctx, Runtime::Python, state, no_policy(), options).unwrap();
    assert!(grew(&ctx));
    HostSession::close(&mut ctx, session).unwrap();
    assert!(grew(&ctx), "exit handlers use fuel");
}

#[test]
fn snapshots_and_hibernated_sessions_count_as_held_bytes() {
    let mut ctx = with_quotas(|quotas| quotas.held_bytes = 3_000_000);
    let session = open(&mut ctx);
    HostSession::write_file(&mut ctx, same(&session), "a".into(), vec![1; 2_000_000], types::IfExists::Fail).unwrap();
    let files = HostSession::files(&mut ctx, same(&session)).unwrap();
    assert!(ctx.usage().held_bytes >= 2_000_000);
    assert!(over_quota(HostSession::files(&mut ctx, same(&session))).starts_with("`held-bytes` would be exceeded"));
    HostFiles::drop(&mut ctx, files).unwrap();
    assert_eq!(ctx.usage().held_bytes, 0);
    // Random data does not compress, so the hibernated session exceeds the quota.
    stdout_in(&mut ctx, &session, "globalThis.a = Array.from({length: 1 << 20}, () => Math.random()); 0");
    assert!(over_quota(HostSession::hibernate(&mut ctx, same(&session))).starts_with("`held-bytes` would be exceeded"));
    assert_eq!(ctx.usage().held_bytes, 0, "a failed hibernation holds no bytes");
    stdout_in(&mut ctx, &session, "a.length");
}

#[test]
fn arguments_and_environment_count_as_held_bytes() {
    let mut ctx = ctx();
    let with_args = |count: usize| Policy { args: Some(vec![String::new(); count]), ..no_policy() };
    let few = HostSession::open(&mut ctx, Runtime::Javascript, with_args(10), no_options()).unwrap();
    let held = ctx.usage().held_bytes;
    assert!(held >= 10 * 24, "{held}");
    HostSession::drop(&mut ctx, few).unwrap();
    assert_eq!(ctx.usage().held_bytes, held, "a sandbox with few arguments stays cached");
    let many = HostSession::open(&mut ctx, Runtime::Javascript, with_args(100_000), no_options()).unwrap();
    assert!(ctx.usage().held_bytes >= 3 * 100_000 * 24, "{:?}", ctx.usage());
    let fork = HostSession::fork(&mut ctx, same(&many)).unwrap();
    HostSession::drop(&mut ctx, many).unwrap();
    assert!(ctx.usage().held_bytes >= 3 * 100_000 * 24, "the fork has the same policy");
    HostSession::drop(&mut ctx, fork).unwrap();
    assert_eq!(ctx.usage().held_bytes, held);
    std::sync::Arc::get_mut(&mut ctx.caller).unwrap().meter =
        crate::quotas::Meter::new(Quotas { held_bytes: 1_000_000, ..Quotas::default() });
    assert!(
        over_quota(ctx.run(Runtime::Javascript, request("1"), with_args(100_000)))
            .starts_with("`held-bytes` would be exceeded")
    );
}

#[test]
fn sandboxes_are_cached_for_recent_policies() {
    let mut ctx = ctx();
    let fuel = |fuel: u64| limited(|limits| limits.fuel = Some(fuel));
    let made = |ctx: &mut SandboxCtx, of: u64| ctx.caller.sandbox_for(Runtime::Javascript, fuel(of)).unwrap();
    let first = made(&mut ctx, 1_000_000);
    // Clones of a sandbox share its policy.
    let is_first = |sandbox: &glovebox::Sandbox| std::ptr::eq(sandbox.policy(), first.policy());
    for of in 1_000_001..1_000_008 {
        made(&mut ctx, of);
        assert!(is_first(&made(&mut ctx, 1_000_000)), "a recently used sandbox stays cached");
    }
    for of in 2_000_000..2_000_008 {
        made(&mut ctx, of);
    }
    assert!(!is_first(&made(&mut ctx, 1_000_000)), "the least recently used sandbox is evicted");
}

#[test]
fn shares_of_any_size_do_not_overflow() {
    let ctx = ctx();
    let mut share = ctx.caller.meter.take(QuotaUse::Bytes(1)).unwrap();
    assert!(ctx.caller.meter.take(QuotaUse::Bytes(u64::MAX)).is_err());
    assert!(share.resize(u64::MAX).is_err());
    assert_eq!(ctx.usage().held_bytes, 1);
}
