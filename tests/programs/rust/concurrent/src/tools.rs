//! Scenarios that call the host's tools, or forward the calls of scripts to them.

use std::pin::pin;

use crate::{
    Event,
    glovebox::{
        sandbox0_2_0::types::{CallFailure, Outcome, SandboxError, ToolError},
        sandbox0_3_0::tools::{self, CallInfo},
    },
    start,
    tasks::{all, begin, begin_and_drop},
    text,
};

pub async fn scenario(name: &str) -> Result<String, SandboxError> {
    match name {
        "tools-list" => list().await,
        "tools-several" => several().await,
        "tools-forwarded" => forwarded().await,
        "tools-refused" => refused().await,
        "tools-dropped" => dropped().await,
        "tools-too-many" => too_many().await,
        "tools-held-bytes" => held_bytes().await,
        _ => panic!("unknown scenario `{name}`"),
    }
}

pub async fn call(name: &str, arguments: &str) -> Result<String, CallFailure> {
    call_within(name, arguments, None).await
}

async fn call_within(name: &str, arguments: &str, timeout_ms: Option<u64>) -> Result<String, CallFailure> {
    let info = CallInfo { id: 0, session_id: None, timeout_ms };
    tools::call(name.into(), arguments.into(), info).await
}

fn kind<T>(result: Result<T, CallFailure>) -> ToolError {
    result.err().expect("the call fails").kind
}

/// Lists the tools and calls one of them.
async fn list() -> Result<String, SandboxError> {
    let names: Vec<_> = tools::list_tools().into_iter().map(|tool| tool.name).collect();
    Ok(format!("{} {}", names.join(" "), call("pause", "{}").await.unwrap()))
}

/// Makes ten calls that wait for each other.
async fn several() -> Result<String, SandboxError> {
    let results = all((0..10).map(|_| call("meet", "{}"))).await;
    Ok(results.into_iter().map(Result::unwrap).collect())
}

/// Forwards ten calls of one script, which wait for each other, and answers each as soon as its result is available.
async fn forwarded() -> Result<String, SandboxError> {
    let source = "const calls = Array.from({ length: 10 }, () => tools.ask());
        console.log((await Promise.all(calls)).length)";
    let started = start(source, &["ask"]).await?;
    let mut events = started.events()?;
    let mut requests = Vec::new();
    while requests.len() < 10 {
        match events.next().await {
            Some(Event::ToolRequest(request)) => requests.push(request),
            event => panic!("{event:?}"),
        }
    }
    let answers = requests.into_iter().map(|request| {
        let started = &started;
        async move {
            let info = CallInfo { id: request.id, session_id: None, timeout_ms: Some(60_000) };
            let result = tools::call("meet".into(), request.arguments, info).await;
            started.answer(request.id, result.as_deref())
        }
    });
    let answered: Result<Vec<()>, SandboxError> = all(answers).await.into_iter().collect();
    answered?;
    let execution = started.finish().await?;
    assert!(matches!(execution.outcome, Outcome::Completed), "{:?}", execution.outcome);
    Ok(text(execution.stdout.bytes))
}

/// Makes calls that the host refuses.
async fn refused() -> Result<String, SandboxError> {
    assert!(matches!(kind(call("unknown", "{}").await), ToolError::Unknown));
    for arguments in ["", "[]", "{", "{}}"] {
        assert!(matches!(kind(call("pause", arguments).await), ToolError::InvalidArguments), "{arguments}");
    }
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(1 << 20));
    assert!(matches!(kind(call("pause", &long).await), ToolError::Limit));
    for timeout_ms in [0, 1] {
        assert!(matches!(kind(call_within("pause", "{}", Some(timeout_ms)).await), ToolError::Timeout));
    }
    // The host's own limit applies to a longer time.
    Ok(call_within("pause", "{}", Some(u64::MAX)).await.unwrap())
}

/// Drops a call. The host checks that its resources are released.
async fn dropped() -> Result<String, SandboxError> {
    begin_and_drop(call("pause", "{}")).await;
    Ok(call("pause", "{}").await.unwrap())
}

/// Makes ten concurrent calls, of which the quota allows four.
async fn too_many() -> Result<String, SandboxError> {
    let results = all((0..10).map(|_| call("pause", "{}"))).await;
    let refused = results.iter().filter(|result| result.is_err()).count();
    assert!(results.into_iter().filter(Result::is_err).all(|result| matches!(kind(result), ToolError::Limit)));
    call("pause", "{}").await.unwrap();
    Ok(format!("{} {refused}", 10 - refused))
}

/// Makes calls while the quota of bytes has room for the result of only one.
async fn held_bytes() -> Result<String, SandboxError> {
    let mut first = pin!(call("pause", "{}"));
    begin(first.as_mut()).await;
    assert!(matches!(kind(call("pause", "{}").await), ToolError::Limit));
    Ok(first.await.unwrap())
}
