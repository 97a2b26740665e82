//! Drops a call of each asynchronous function of a session before the call returns.

use std::future::Future;

use crate::{
    glovebox::{
        sandbox0_2_0::types::{Checkpoints, IfExists, Policy, Runtime, SandboxError, SessionPolicy},
        sandbox0_3_0::{
            sandbox,
            session::{Session, SessionOptions},
        },
    },
    policy, request,
    sessions::{no_options, open_with, output},
    tasks::poll_and_drop,
    wit_stream,
};

/// Returns a policy without automatic checkpoints, so that `undo` never undoes the definition of `x`.
fn no_checkpoints() -> Policy {
    let session = SessionPolicy {
        checkpoints: Some(Checkpoints::Never),
        checkpoint_auto_bytes: None,
        checkpoints_retained: None,
        on_unwind: None,
    };
    Policy { session: Some(session), ..policy() }
}

/// Drops a call. The session then still has its variable, even if the guest was unwound.
async fn drop_call<T>(session: &Session, call: impl Future<Output = T>) -> Result<(), SandboxError> {
    // On a fast machine, the call can return immediately.
    drop(poll_and_drop(call).await);
    assert_eq!(output(session, "console.log(x)").await?, "1\n");
    Ok(())
}

/// Drops a call of each function. Afterwards, the session can be used, and the host holds nothing for the calls.
pub async fn every_session_function() -> Result<String, SandboxError> {
    let session = open_with(no_checkpoints()).await?;
    output(&session, "var x = 1; var f = std.open('a', 'w'); f.puts('text'); f.close()").await?;
    let mark = session.checkpoint().await?;
    let (_contents, contents) = wit_stream::new();
    let (_state, state) = wit_stream::new();
    let (_suspended, suspended) = wit_stream::new();
    let options = || SessionOptions { context: Some("[1]".into()), tools: None };

    drop_call(&session, session.execute(request("x = 1"))).await?;
    drop_call(&session, session.start(request("x = 1"))).await?;
    drop_call(&session, session.start_suspendable(request("x = 1"))).await?;
    drop_call(&session, session.get_variable("x".into())).await?;
    drop_call(&session, session.set_variable("x".into(), "1".into())).await?;
    drop_call(&session, session.read_file("a".into())).await?;
    drop_call(&session, session.write_file("b".into(), contents, IfExists::Replace)).await?;
    drop_call(&session, session.list_files("*".into())).await?;
    drop_call(&session, session.rename_file("a".into(), "c".into(), IfExists::Replace)).await?;
    drop_call(&session, session.delete_file("c".into(), false)).await?;
    drop_call(&session, session.checkpoints()).await?;
    drop_call(&session, session.checkpoint()).await?;
    drop_call(&session, session.undo()).await?;
    drop_call(&session, session.undo_to(mark)).await?;
    drop_call(&session, session.fork()).await?;
    drop_call(&session, session.hibernate()).await?;
    drop_call(&session, Session::open(Runtime::Javascript, policy(), options())).await?;
    drop_call(&session, Session::resume(Runtime::Javascript, state, policy(), no_options())).await?;
    let resumed = Session::resume_suspended(Runtime::Javascript, suspended, policy(), Vec::new());
    drop_call(&session, resumed).await?;
    drop_call(&session, sandbox::validate(Runtime::Javascript, request("1"), policy())).await?;
    let printed = output(&session, "console.log(x)").await?;
    // The session may have ended.
    match drop_call(&session, session.close()).await {
        Ok(()) | Err(SandboxError::SessionEnded(_)) => Ok(printed),
        Err(error) => Err(error),
    }
}
