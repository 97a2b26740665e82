//! Started executions in sessions.

use super::*;

#[test]
fn a_session_is_busy_until_the_component_was_told_of_the_end() {
    let mut ctx = ctx();
    let session = HostSession::open(&mut ctx, Runtime::Javascript, no_policy(), asking()).unwrap();
    let started = HostSession::start(&mut ctx, same(&session), request("var x = await tools.ask({q: 1})")).unwrap();
    let busy = |ctx: &mut SandboxCtx| {
        for refused in [
            told(HostSession::execute(ctx, same(&session), request(""))),
            told(HostSession::start(ctx, same(&session), request(""))),
            told(HostSession::get_variable(ctx, same(&session), "x".into())),
            told(HostSession::fork(ctx, same(&session))),
            told(HostSession::files(ctx, same(&session))),
            told(HostSession::checkpoint(ctx, same(&session))),
            told(HostSession::hibernate(ctx, same(&session))),
            told(HostSession::close(ctx, same(&session))),
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
    assert_eq!(said_in(&mut ctx, &session, "console.log(x)"), "5\n");
    assert!(matches!(told(HostStarted::files(&mut ctx, same(&started))), SandboxError::Unsupported(_)));
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
    said_in(&mut ctx, &session, "var x = 1");
    for source in ["x = 2; await tools.ask({q: 1})", "x = 2; for (;;) {}"] {
        let started = HostSession::start(&mut ctx, same(&session), request(source)).unwrap();
        release(&mut ctx, started);
        assert_eq!(said_in(&mut ctx, &session, "console.log(x)"), "1\n", "it waits for the unwinding");
    }
    assert_eq!(ctx.usage().started, 0);
}

#[test]
fn a_started_execution_outlives_its_sessions_handle() {
    let mut ctx = ctx();
    let session = HostSession::open(&mut ctx, Runtime::Javascript, no_policy(), asking()).unwrap();
    let started = HostSession::start(&mut ctx, same(&session), request("await tools.ask({q: 1}) + 1")).unwrap();
    HostSession::drop(&mut ctx, session).unwrap();
    assert_eq!(ctx.usage().sessions, 1, "it is still there");
    needs(&mut ctx, &started, vec![]);
    assert_eq!(done(&mut ctx, &started, vec![answer(0, "1")]).value.unwrap().repr, "2");
    assert_eq!(ctx.usage().sessions, 0);
}

#[test]
fn a_call_in_a_plain_execution_fails() {
    let mut ctx = ctx();
    let session = HostSession::open(&mut ctx, Runtime::Javascript, no_policy(), asking()).unwrap();
    let source = "try { await tools.ask({q: 1}) } catch (error) { console.log(error.name) }";
    assert_eq!(said_in(&mut ctx, &session, source), "ToolError\n");
}
