//! Scenarios that suspend executions in sessions, and resume them in other sessions.

use std::pin::pin;

use wit_bindgen::StreamReader;

use crate::{
    files::send,
    glovebox::{
        sandbox0_2_0::types::{Limits, OnUnwind, Outcome, Policy, Runtime, SandboxError, SessionPolicy},
        sandbox0_3_0::{
            sandbox::Started,
            session::{Session, SessionOptions},
        },
    },
    next_call, no_limits, policy, request, run,
    sessions::{ENDLESS, is_busy, output},
    suspending::{self, answer, changed_copies, is_unsupported, parts, repeatable, suspend},
    tasks::{all, begin, begin_and_drop, poll_and_drop},
    text, tool, wit_stream,
};

pub async fn scenario(name: &str) -> Result<String, SandboxError> {
    match name {
        "suspend-session-same" => same().await,
        "suspend-session-fork" => fork().await,
        "suspend-session-forged" => forged().await,
        "suspend-session-too-large" => too_large().await,
        "suspend-session-refused" => refused().await,
        "suspend-session-dropped" => dropped().await,
        "suspend-session-quotas" => quotas().await,
        _ => panic!("unknown scenario `{name}`"),
    }
}

/// A script that makes two calls, and changes a variable and a file of its session in between.
const PUSHES_TWICE: &str = "console.log('before', Math.random(), Date.now(), context.n);
    x.push(await tools.ask({ q: x.length }));
    require('fs').writeFileSync('f', x.join());
    x.push(await tools.ask({ q: x.length }), Math.random());
    console.log(x.join())";

/// A script that makes one call.
const PUSHES: &str = "x.push(await tools.ask({ q: 1 })); console.log(x.join())";

/// A script that prints a variable and a file of its session.
const SHOWS: &str = "console.log(x.join(), require('fs').readFileSync('f', 'utf8'), context.n)";

/// Opens a session with a `context`, a tool and a variable `x`.
async fn open(policy: Policy) -> Result<Session, SandboxError> {
    let options = SessionOptions { context: Some("{\"n\": 5}".into()), tools: Some(vec![tool("ask")]) };
    let session = Session::open(Runtime::Javascript, policy, options).await?;
    output(&session, "var x = [7]").await?;
    Ok(session)
}

/// Returns a policy that ends a session when its guest is unwound.
fn ends() -> Policy {
    let session = SessionPolicy {
        checkpoints: None,
        checkpoint_auto_bytes: None,
        checkpoints_retained: None,
        on_unwind: Some(OnUnwind::End),
    };
    Policy { session: Some(session), ..policy() }
}

async fn variable(session: &Session) -> Result<String, SandboxError> {
    output(session, "console.log(x.join())").await
}

async fn resume_from(suspended: StreamReader<u8>, policy: Policy) -> Result<(Session, Started), SandboxError> {
    Session::resume_suspended(Runtime::Javascript, suspended, policy, vec![tool("ask")]).await
}

/// Resumes an execution in a new session.
async fn resume(bytes: &[u8], policy: Policy) -> Result<(Session, Started), SandboxError> {
    send(bytes.to_vec(), |suspended| resume_from(suspended, policy)).await.0
}

/// Starts a script in a session, waits for its first call, and suspends it.
async fn suspended(session: &Session, source: &str) -> Result<Vec<u8>, SandboxError> {
    let started = session.start_suspendable(request(source)).await?;
    next_call(&mut started.events()?).await;
    suspend(&started).await
}

fn not_resumable<T>(result: Result<T, SandboxError>) {
    match result {
        Err(SandboxError::NotResumable(_)) => {}
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("the call succeeded"),
    }
}

fn over_quota<T>(result: Result<T, SandboxError>) {
    match result {
        Err(SandboxError::QuotaExceeded(_)) => {}
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("the call succeeded"),
    }
}

/// Suspends a script at both calls. The execution and its session equal those that were not suspended.
async fn same() -> Result<String, SandboxError> {
    let plain = open(repeatable()).await?;
    let started = plain.start(request(PUSHES_TWICE)).await?;
    assert_eq!((answer(&started, "\"a\"").await?, answer(&started, "2").await?), (0, 1));
    let expected = started.finish().await?;

    let mut session = open(repeatable()).await?;
    let mut started = session.start_suspendable(request(PUSHES_TWICE)).await?;
    for (id, reply) in [(0, "\"a\""), (1, "2")] {
        let call = next_call(&mut started.events()?).await;
        assert!(is_busy(session.execute(request("1")).await));
        let bytes = suspend(&started).await?;
        // The session is in its state before the execution, and is free even while the handle is open.
        assert_eq!(variable(&session).await?, "7\n");
        assert!(session.list_files("**".into()).await?.is_empty());
        let ended = started.finish().await?;
        assert!(matches!(ended.outcome, Outcome::Cancelled) && ended.rolled_back_to.is_some(), "{:?}", ended.outcome);
        (session, started) = resume(&bytes, repeatable()).await?;
        let again = next_call(&mut started.events()?).await;
        assert_eq!((again.id, &again.name, &again.arguments), (id, &call.name, &call.arguments));
        assert!(is_busy(session.execute(request("1")).await));
        started.answer(id, Ok(reply))?;
    }
    let execution = started.finish().await?;
    assert_eq!(parts(&execution), parts(&expected));
    let (shown, expected) = (output(&session, SHOWS).await?, output(&plain, SHOWS).await?);
    assert_eq!(shown, expected);
    Ok(format!("{:?} {}", execution.outcome, execution.tool_calls.len()))
}

/// Resumes the same bytes in two concurrent sessions, with different answers. The first session continues as well.
async fn fork() -> Result<String, SandboxError> {
    let session = open(policy()).await?;
    let started = session.start_suspendable(request(PUSHES)).await?;
    next_call(&mut started.events()?).await;
    let bytes = suspend(&started).await?;
    assert_eq!(started.suspend().await?, bytes, "each call returns the bytes");
    drop(started);
    output(&session, "x.push(8)").await?;
    let forks = all(["1", "2"].map(|reply| {
        let bytes = &bytes;
        async move {
            let (session, started) = resume(bytes, policy()).await?;
            let printed = suspending::output(&started, reply).await?;
            Ok::<_, SandboxError>((session.id(), printed + &variable(&session).await?))
        }
    }));
    let forks: Result<Vec<_>, SandboxError> = forks.await.into_iter().collect();
    let forks = forks?;
    assert!(forks[0].0 != forks[1].0 && forks.iter().all(|(id, _)| *id != session.id()));
    let printed = format!("{}{}{}", forks[0].1, forks[1].1, variable(&session).await?);
    Ok(printed.replace('\n', " "))
}

/// Checks that changed bytes and bytes of other kinds are rejected, and that the unchanged bytes still work.
async fn forged() -> Result<String, SandboxError> {
    let session = open(policy()).await?;
    let bytes = suspended(&session, PUSHES).await?;
    let forged = changed_copies(&bytes);
    let count = forged.len();
    for bytes in forged {
        not_resumable(resume(&bytes, policy()).await);
    }
    not_resumable(suspending::resume(&bytes, policy()).await);
    not_resumable(resume(&suspending::suspended("await tools.ask({ q: 1 })").await?, policy()).await);
    // A saved session is not a suspended execution, and vice versa.
    not_resumable(resume_from(session.hibernate().await?, policy()).await);
    let options = SessionOptions { context: None, tools: None };
    let as_session = |state| Session::resume(Runtime::Javascript, state, policy(), options);
    not_resumable(send(bytes.clone(), as_session).await.0);
    // The resuming policy sets the limits, not the bytes.
    let limits = Limits { source_bytes: Some(10), ..no_limits() };
    let refused = resume(&bytes, Policy { limits: Some(limits), ..policy() }).await;
    assert!(matches!(refused, Err(SandboxError::SourceTooLarge(_))), "{:?}", refused.err());
    // The execution waits for a tool that the new session does not have.
    let without_tools = |suspended| Session::resume_suspended(Runtime::Javascript, suspended, policy(), Vec::new());
    match send(bytes.clone(), without_tools).await.0 {
        Ok((_session, started)) => not_resumable(started.finish().await),
        refused => not_resumable(refused),
    }
    let (session, started) = resume(&bytes, policy()).await?;
    let printed = suspending::output(&started, "1").await?;
    // The new session has a checkpoint before the execution.
    session.undo().await?;
    Ok(format!("{count} {printed}{}", variable(&session).await?))
}

/// Sends more bytes than a suspended execution can have. The host stops reading at the limit.
async fn too_large() -> Result<String, SandboxError> {
    let (refused, unsent) = send(vec![1; 70_000_000], |suspended| resume_from(suspended, policy())).await;
    not_resumable(refused);
    Ok((unsent > 1_000_000).to_string())
}

/// Checks that a rejected suspension does not change the execution, and that a suspension ends a session whose policy
/// says so.
async fn refused() -> Result<String, SandboxError> {
    let session = open(policy()).await?;
    let plain = session.start(request(PUSHES)).await?;
    let call = next_call(&mut plain.events()?).await;
    assert!(is_unsupported(&plain.suspend().await));
    plain.answer(call.id, Ok("1"))?;
    let printed = text(plain.finish().await?.stdout.bytes);

    let ended = session.start_suspendable(request("1")).await?;
    ended.finish().await?;
    assert!(is_unsupported(&ended.suspend().await));

    let endless = session.start_suspendable(request(ENDLESS)).await?;
    assert!(is_busy(endless.suspend().await));
    endless.cancel();
    assert!(matches!(endless.finish().await?.outcome, Outcome::Cancelled));
    assert_eq!(variable(&session).await?, printed);

    let session = open(ends()).await?;
    let bytes = suspended(&session, PUSHES).await?;
    let refused = session.execute(request("1")).await;
    assert!(matches!(refused, Err(SandboxError::SessionEnded(_))), "{refused:?}");
    let (session, started) = resume(&bytes, ends()).await?;
    suspending::output(&started, "3").await?;
    Ok(printed + &variable(&session).await?)
}

/// Drops calls at each step. The first session can be used afterwards, and the bytes can be resumed. The host checks
/// that all resources are released.
async fn dropped() -> Result<String, SandboxError> {
    let session = open(policy()).await?;
    begin_and_drop(session.start_suspendable(request(ENDLESS))).await;
    assert_eq!(variable(&session).await?, "7\n");

    let started = session.start_suspendable(request(PUSHES)).await?;
    next_call(&mut started.events()?).await;
    // The call can return immediately: on a fast machine, or if the script does not wait yet.
    let early = poll_and_drop(started.suspend()).await;
    let bytes = suspend(&started).await?;
    match early {
        None | Some(Err(SandboxError::SessionBusy(_))) => {}
        Some(early) => assert_eq!(early?, bytes),
    }
    assert_eq!(variable(&session).await?, "7\n");

    // Drops calls that wait for the end of their stream, that have just received it, and that may have returned.
    for ends in 0..3 {
        let (mut writer, reader) = wit_stream::new();
        let mut call = pin!(resume_from(reader, policy()));
        begin(call.as_mut()).await;
        assert!(writer.write_all(bytes.clone()).await.is_empty());
        if ends == 0 {
            begin(call.as_mut()).await;
        } else {
            drop(writer);
        }
        if ends == 2 {
            run("await tools.pause()").await?;
        }
    }

    // Dropping a resumed execution cancels it, and its session is free.
    let (resumed, started) = resume(&bytes, policy()).await?;
    next_call(&mut started.events()?).await;
    drop(started);
    assert_eq!(variable(&resumed).await?, "7\n");
    // An execution does not depend on the handle of its session.
    let (resumed, started) = resume(&bytes, policy()).await?;
    drop(resumed);
    suspending::output(&started, "1").await
}

/// Suspends and resumes with quotas of one execution, two sessions and six handles.
async fn quotas() -> Result<String, SandboxError> {
    let session = open(policy()).await?;
    let started = session.start_suspendable(request(PUSHES)).await?;
    next_call(&mut started.events()?).await;
    over_quota(run("1").await);
    let bytes = loop {
        match started.suspend().await {
            // The script does not wait yet.
            Err(SandboxError::SessionBusy(_)) => {}
            result => break result?,
        }
    };
    // The session, the execution and two streams are open. The new session, the new execution and the bytes need three
    // more handles.
    let streams = (started.stdout()?, started.stderr()?);
    over_quota(resume(&bytes, policy()).await);
    drop(streams);
    run("1").await?;
    let (resumed, again) = resume(&bytes, policy()).await?;
    // The resumed execution counts against the quota of started executions.
    over_quota(resume(&bytes, policy()).await);
    let printed = suspending::output(&again, "1").await?;
    drop(again);
    // Both sessions are still open.
    over_quota(resume(&bytes, policy()).await);
    drop(resumed);
    let (resumed, again) = resume(&bytes, policy()).await?;
    Ok(printed + &suspending::output(&again, "2").await? + &variable(&resumed).await?)
}
