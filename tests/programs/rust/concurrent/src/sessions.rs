//! Scenarios with sessions.

use std::pin::pin;

use crate::{
    glovebox::{
        sandbox0_2_0::types::{Execution, GuestValue, Outcome, Policy, Runtime, SandboxError},
        sandbox0_3_0::session::{Session, SessionOptions},
    },
    next_call, policy, request, run,
    tasks::{all, begin, begin_and_drop, drop_after},
    text, tool,
};

pub async fn scenario(name: &str) -> Result<String, SandboxError> {
    match name {
        "session-state" => state().await,
        "session-fuel" => fuel().await,
        "session-several" => several().await,
        "session-busy" => busy().await,
        "session-dropped" => dropped().await,
        "session-start" => start().await,
        "session-checkpoints" => checkpoints().await,
        "session-too-many" => too_many().await,
        _ => crate::files::scenario(name).await,
    }
}

/// A script that runs until it is cancelled.
pub const ENDLESS: &str = "for (;;);";

pub async fn open() -> Result<Session, SandboxError> {
    open_with(policy()).await
}

pub async fn open_with(policy: Policy) -> Result<Session, SandboxError> {
    Session::open(Runtime::Javascript, policy, no_options()).await
}

pub fn no_options() -> SessionOptions {
    SessionOptions { context: None, tools: None }
}

/// Runs a script in a session, and returns its output.
pub async fn output(session: &Session, source: &str) -> Result<String, SandboxError> {
    let Execution { outcome, stdout, .. } = session.execute(request(source)).await?;
    assert!(matches!(outcome, Outcome::Completed), "{outcome:?}");
    Ok(text(stdout.bytes))
}

/// Returns the JSON of a variable, or nothing if it does not exist.
async fn json(session: &Session, name: &str) -> Result<String, SandboxError> {
    let value: Option<GuestValue> = session.get_variable(name.into()).await?;
    Ok(value.and_then(|value| value.json).unwrap_or_default())
}

pub fn is_busy<T>(result: Result<T, SandboxError>) -> bool {
    matches!(result, Err(SandboxError::SessionBusy(_)))
}

/// Keeps variables between calls, until the session is closed.
async fn state() -> Result<String, SandboxError> {
    let options = SessionOptions { context: Some("{\"n\": 5}".into()), tools: None };
    let session = Session::open(Runtime::Javascript, policy(), options).await?;
    output(&session, "var x = context.n").await?;
    session.set_variable("y".into(), "[1]".into()).await?;
    let execution = session.execute(request("console.log(x, y.length)")).await?;
    assert_eq!(execution.session_id, Some(session.id()));
    assert_eq!(json(&session, "none").await?, "");
    let refused = session.set_variable("y".into(), "[1".into()).await;
    assert!(matches!(refused, Err(SandboxError::InvalidArgument(_))), "{refused:?}");
    let found = text(execution.stdout.bytes) + &json(&session, "x").await?;
    assert_eq!(session.info().executions, 2);
    session.close().await?;
    session.close().await?;
    let refused = session.execute(request("1")).await;
    assert!(matches!(refused, Err(SandboxError::SessionEnded(_))));
    assert!(matches!(session.checkpoints().await, Err(SandboxError::SessionEnded(_))));
    assert!(session.info().ended.is_some());
    Ok(found)
}

async fn fuel() -> Result<String, SandboxError> {
    let session = open().await?;
    output(&session, "var x = 6").await?;
    let execution = session.execute(request("console.log(x * 7)")).await?;
    Ok(format!("{}{}", text(execution.stdout.bytes), execution.fuel_consumed))
}

/// Runs scripts in ten sessions, which wait for each other in a tool of the host.
async fn several() -> Result<String, SandboxError> {
    let calls = (0..10).map(|index| async move {
        let session = open().await?;
        output(&session, &format!("var mine = {index}")).await?;
        output(&session, "await tools.meet(); console.log(mine)").await
    });
    let outputs: Result<Vec<_>, SandboxError> = all(calls).await.into_iter().collect();
    Ok(outputs?.concat().replace('\n', " "))
}

/// Makes other calls while a script runs in the session.
async fn busy() -> Result<String, SandboxError> {
    let session = open().await?;
    {
        let mut first = pin!(session.execute(request("await tools.pause(); globalThis.x = 1")));
        begin(first.as_mut()).await;
        assert!(is_busy(session.execute(request("1")).await));
        assert!(is_busy(session.start(request("1")).await));
        assert!(is_busy(session.get_variable("x".into()).await));
        assert!(is_busy(session.set_variable("x".into(), "1".into()).await));
        assert!(is_busy(session.read_file("f".into()).await));
        assert!(is_busy(session.list_files("*".into()).await));
        assert!(is_busy(session.checkpoint().await));
        assert!(is_busy(session.checkpoints().await));
        assert!(is_busy(session.undo().await));
        assert!(is_busy(session.fork().await));
        assert!(is_busy(session.hibernate().await));
        assert!(is_busy(session.close().await));
        assert!(session.info().ended.is_none());
        // Calls into other sessions run at the same time.
        assert_eq!(output(&open().await?, "console.log(2)").await?, "2\n");
        let execution = first.await?;
        assert!(matches!(execution.outcome, Outcome::Completed), "{:?}", execution.outcome);
    }
    json(&session, "x").await
}

/// Drops calls while their code runs. The session can be used again immediately. The host checks that the last call
/// ends.
async fn dropped() -> Result<String, SandboxError> {
    let session = open().await?;
    output(&session, "var x = 1; Object.defineProperty(globalThis, 'slow', { get() { for (;;); } }); 0").await?;
    let pause = "await tools.pause()";
    drop_after(session.execute(request(ENDLESS)), run(pause)).await?;
    assert_eq!(json(&session, "x").await?, "1");
    drop_after(session.get_variable("slow".into()), run(pause)).await?;
    // This call waits for the previous one. It is dropped before its code begins, or soon afterwards.
    begin_and_drop(session.execute(request("for (;;); globalThis.x = 2"))).await;
    let found = output(&session, "console.log(x)").await?;
    begin_and_drop(session.start(request(ENDLESS))).await;
    assert_eq!(output(&session, "console.log(x)").await?, found);
    begin_and_drop(open()).await;
    drop_after(session.get_variable("slow".into()), run(pause)).await?;
    Ok(found)
}

/// Starts executions in a session, and answers a tool call.
async fn start() -> Result<String, SandboxError> {
    let options = SessionOptions { context: None, tools: Some(vec![tool("ask")]) };
    let session = Session::open(Runtime::Javascript, policy(), options).await?;
    let started = session.start(request("globalThis.answer = await tools.ask(); console.log('asked')")).await?;
    let call = next_call(&mut started.events()?).await;
    assert!(is_busy(session.execute(request("1")).await));
    assert!(is_busy(session.close().await));
    started.answer(call.id, Ok("42"))?;
    let printed = text(started.stdout()?.collect().await);
    let execution = started.finish().await?;
    assert!(matches!(execution.outcome, Outcome::Completed), "{:?}", execution.outcome);
    // The session is free once the execution has ended, even while its handle is open.
    let answer = json(&session, "answer").await?;
    let endless = session.start(request(ENDLESS)).await?;
    assert!(is_busy(session.execute(request("1")).await));
    let stdout = endless.stdout()?;
    drop(endless);
    // Waits for the end of the dropped execution.
    let after = output(&session, "console.log(answer)").await?;
    assert!(stdout.collect().await.is_empty());
    // The end of an earlier execution does not end a later one.
    let again = session.start(request("await tools.ask()")).await?;
    drop(started);
    assert!(is_busy(session.execute(request("1")).await));
    again.cancel();
    assert!(matches!(again.finish().await?.outcome, Outcome::Cancelled));
    Ok(format!("{printed}{answer} {after}"))
}

/// Rolls a session back, and creates sessions from a saved state.
async fn checkpoints() -> Result<String, SandboxError> {
    let session = open().await?;
    output(&session, "var x = 5").await?;
    let mark = session.checkpoint().await?;
    let fork = session.fork().await?;
    output(&session, "x = 6").await?;
    // The host passes these bytes from one session to the other, without the component.
    let state = session.hibernate().await?;
    let resumed = Session::resume(Runtime::Javascript, state, policy(), no_options()).await?;
    let bytes = session.hibernate().await?.collect().await;
    session.undo().await?;
    assert_eq!(json(&session, "x").await?, "5");
    output(&session, "x = 7").await?;
    session.undo_to(mark).await?;
    let listed = session.checkpoints().await?;
    assert!(listed.iter().any(|checkpoint| checkpoint.id == mark && !checkpoint.automatic));
    let refused = session.undo_to(u64::MAX).await;
    assert!(matches!(refused, Err(SandboxError::NoCheckpoint(_))), "{refused:?}");
    let options = SessionOptions { context: Some("8".into()), tools: None };
    let (again, unsent) =
        crate::files::send(bytes, |state| Session::resume(Runtime::Javascript, state, policy(), options)).await;
    assert_eq!(unsent, 0);
    let again = output(&again?, "console.log(x, context)").await?;
    let [here, there, resumed] = [&session, &fork, &resumed].map(|session| json(session, "x"));
    Ok(format!("{} {} {} {again}", here.await?, there.await?, resumed.await?))
}

/// Opens sessions until the quota is exhausted. Dropped sessions do not count.
async fn too_many() -> Result<String, SandboxError> {
    let mut sessions = Vec::new();
    let error = loop {
        match open().await {
            Ok(session) => sessions.push(session),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, SandboxError::QuotaExceeded(_)), "{error:?}");
    let refused = sessions[0].fork().await;
    assert!(matches!(refused, Err(SandboxError::QuotaExceeded(_))));
    let count = sessions.len();
    sessions.pop();
    sessions.push(sessions[0].fork().await?);
    Ok(count.to_string())
}
