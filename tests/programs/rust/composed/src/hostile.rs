//! Calls that are dropped, cancelled or made at the same time.

use std::pin::pin;

use crate::{
    SandboxError, counts,
    glovebox::{
        sandbox0_2_0::types::Runtime,
        sandbox0_3_0::{
            sandbox,
            session::{Session, SessionOptions},
        },
    },
    javascript, policy, request, start,
    tasks::{all, begin, begin_and_drop},
    text, tool_timeout,
};

pub async fn scenario(name: &str) -> Result<String, SandboxError> {
    match name {
        "several" => several().await,
        "tool-timeout" => timeout().await,
        "nested" => nested().await,
        "nested-session" => nested_session().await,
        "cancel" => cancel().await,
        "cancel-loop" => cancel_loop().await,
        "drop-started" => drop_started().await,
        "drop-execute" => drop_execute().await,
        "drop-queued" => drop_queued().await,
        "drop-before-begin" => drop_before_begin().await,
        "session" => session().await,
        "unsupported" => unsupported().await,
        _ => Ok("no such scenario".into()),
    }
}

/// Makes three calls at the same time. They run one after the other.
async fn several() -> Result<String, SandboxError> {
    let calls = (0..3).map(|number| async move { javascript(&format!("console.log({number})")).await });
    let results = all(calls).await.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(results.join(" "))
}

/// Calls a tool that exceeds its time limit, beside one that does not.
async fn timeout() -> Result<String, SandboxError> {
    let source = "
        const calls = [tools.hang({}), tools.sleep({ ms: 1 }), tools.hang({})]
        const names = (await Promise.allSettled(calls)).map(call => call.reason?.name ?? 'ok')
        console.log(names.join())";
    let execution = sandbox::execute(Runtime::Javascript, request(source), tool_timeout(300)).await?;
    Ok(format!("{}; {}", text(&execution), counts().await?))
}

/// Runs a second script for which the tool of the first script waits, like a tool that runs scripts. The second script
/// begins when the tool's timeout has ended the first one.
async fn nested() -> Result<String, SandboxError> {
    let source = "
        console.log('begun')
        console.log(await tools.meet({ count: 2 }).catch(error => error.name))";
    let outer = sandbox::start(Runtime::Javascript, request(source), tool_timeout(300), Vec::new()).await?;
    let mut stdout = outer.stdout()?;
    stdout.read(Vec::with_capacity(100)).await;
    // A synchronous function returns while the script waits.
    let runtimes = sandbox::info().runtimes.len();
    let inner = javascript("console.log(await tools.meet({ count: 1 }))").await?;
    let end = outer.finish().await?;
    Ok(format!("{runtimes} runtimes, {}, {inner}; {}", text(&end).replace('\n', " "), counts().await?))
}

/// Calls into a session whose script waits for a tool.
async fn nested_session() -> Result<String, SandboxError> {
    let options = SessionOptions { context: None, tools: None };
    let session = Session::open(Runtime::Javascript, tool_timeout(300), options).await?;
    let source = "
        var end
        console.log('begun')
        end = await tools.meet({ count: 2 }).catch(error => error.name)";
    let outer = session.start(request(source)).await?;
    let mut stdout = outer.stdout()?;
    stdout.read(Vec::with_capacity(100)).await;
    let has_id = session.info().id == session.id();
    let end = session.get_variable("end".into()).await?.and_then(|value| value.json);
    outer.finish().await?;
    Ok(format!("{has_id} {}", end.unwrap_or_default().trim_matches('"')))
}

/// Cancels a script that waits for a tool.
async fn cancel() -> Result<String, SandboxError> {
    let started = start("console.log('before'); await tools.hang({}); console.log('after')").await?;
    let mut stdout = started.stdout()?;
    let (_, read) = stdout.read(Vec::with_capacity(100)).await;
    started.cancel();
    let end = started.finish().await?;
    Ok(format!("{}, then {}; {}", String::from_utf8_lossy(&read).trim_end(), text(&end), counts().await?))
}

/// Cancels a script that never waits.
async fn cancel_loop() -> Result<String, SandboxError> {
    let started = start("console.log('before'); for (;;) {}").await?;
    let mut stdout = started.stdout()?;
    let (_, read) = stdout.read(Vec::with_capacity(100)).await;
    started.cancel();
    Ok(format!("{}, then {}", String::from_utf8_lossy(&read).trim_end(), text(&started.finish().await?)))
}

/// Drops the handle of a script that waits for a tool.
async fn drop_started() -> Result<String, SandboxError> {
    let started = start("console.log('before'); await tools.hang({})").await?;
    let mut stdout = started.stdout()?;
    stdout.read(Vec::with_capacity(100)).await;
    drop(started);
    let rest = stdout.collect().await;
    Ok(format!("{} bytes more; {}", rest.len(), counts().await?))
}

/// Drops a call to `execute` whose script waits for a tool. The drop waits until the tool's timeout ends the script.
async fn drop_execute() -> Result<String, SandboxError> {
    let source = "await tools.hang({})";
    begin_and_drop(sandbox::execute(Runtime::Javascript, request(source), tool_timeout(300))).await;
    counts().await
}

/// Drops a call that waits for the end of another one.
async fn drop_queued() -> Result<String, SandboxError> {
    let mut first = pin!(javascript("await tools.sleep({ ms: 50 }); console.log('first')"));
    begin(first.as_mut()).await;
    begin_and_drop(javascript("await tools.hang({})")).await;
    let first = first.await?;
    Ok(format!("{first}; {}", counts().await?))
}

/// Drops handles of executions that may not have begun yet.
async fn drop_before_begin() -> Result<String, SandboxError> {
    for _ in 0..20 {
        let started = start("await tools.hang({})").await?;
        let stdout = started.stdout()?;
        drop(started);
        assert_eq!(stdout.collect().await, b"");
    }
    javascript("console.log('usable')").await
}

/// Uses a session, whose ID the tools see.
async fn session() -> Result<String, SandboxError> {
    let options = || SessionOptions { context: None, tools: None };
    let session = Session::open(Runtime::Javascript, policy(), options()).await?;
    let execution = session.execute(request("var x = 20; console.log((await tools.counts({}))[2])")).await?;
    let is_same = text(&execution) == session.id();
    let started = session.start(request("x += 1; await tools.sleep({ ms: 1 }); x *= 2")).await?;
    started.finish().await?;
    let state = session.hibernate().await?;
    let resumed = Session::resume(Runtime::Javascript, state, policy(), options()).await?;
    let value = resumed.get_variable("x".into()).await?.and_then(|value| value.json);
    Ok(format!("{is_same} {}", value.unwrap_or_default()))
}

/// Calls the functions that a provider does not support.
async fn unsupported() -> Result<String, SandboxError> {
    let is_unsupported = |error: Option<SandboxError>| matches!(error, Some(SandboxError::Unsupported(_)));
    let js = || Runtime::Javascript;
    let mut all = vec![
        sandbox::start_suspendable(js(), request(""), policy(), Vec::new()).await.err(),
        sandbox::resume_suspended(js(), Vec::new(), Vec::new(), policy(), Vec::new()).await.err(),
    ];
    let options = SessionOptions { context: None, tools: None };
    let session = Session::open(js(), policy(), options).await?;
    all.push(session.start_suspendable(request("")).await.err());
    let started = start("").await?;
    all.push(started.suspend().await.err());
    Ok(all.into_iter().map(|error| is_unsupported(error).to_string()).collect::<Vec<_>>().join(" "))
}
