//! Scenarios with calls that wait because too many calls are running. The host's tool `gate` waits until the component
//! calls `open`.

use std::pin::pin;

use crate::{
    glovebox::{
        sandbox0_2_0::types::{Request, Runtime, SandboxError},
        sandbox0_3_0::{
            sandbox,
            session::{Session, SessionOptions},
        },
    },
    next_call, policy, request, run,
    sessions::output,
    tasks::{all, begin, begin_and_drop},
    text, tool,
    tools::call,
};

pub async fn scenario(name: &str) -> Result<String, SandboxError> {
    match name {
        "queue-thousand" => thousand().await,
        "queue-dropped" => dropped().await,
        "queue-deadline" => deadline().await,
        "queue-session" => session().await,
        _ => panic!("unknown scenario `{name}`"),
    }
}

/// A script that runs until the gate is open.
const WAITS: &str = "await tools.gate(); console.log('open')";

async fn open() {
    call("open", "{}").await.unwrap();
}

/// Runs a thousand scripts at the same time. All scripts but the first wait until the component has received the result
/// of the first script.
async fn thousand() -> Result<String, SandboxError> {
    let calls = (0..1_000).map(|index| async move {
        let wait = if index == 0 { "" } else { "await tools.gate(); " };
        let execution = run(&format!("{wait}console.log({index})")).await?;
        if index == 0 {
            open().await;
        }
        Ok(text(execution.stdout.bytes) == format!("{index}\n"))
    });
    let results: Result<Vec<bool>, SandboxError> = all(calls).await.into_iter().collect();
    Ok(results?.into_iter().filter(|is_right| *is_right).count().to_string())
}

/// Drops waiting calls, which then no longer count as started. Of the four calls that the quota allows, two run, one
/// waits, and one opens the gate.
async fn dropped() -> Result<String, SandboxError> {
    let mut running = pin!(all([run(WAITS), run(WAITS)]));
    begin(running.as_mut()).await;
    for _ in 0..100 {
        begin_and_drop(run("console.log('dropped')")).await;
    }
    let mut waiting = pin!(run("console.log('last')"));
    begin(waiting.as_mut()).await;
    open().await;
    let (outputs, last) = (running.await, waiting.await?);
    let outputs: Result<Vec<_>, _> = outputs.into_iter().collect();
    let outputs: String = outputs?.into_iter().map(|execution| text(execution.stdout.bytes)).collect();
    Ok(format!("{outputs}{}", text(last.stdout.bytes)))
}

/// Waits for a call whose deadline passes while another script runs.
async fn deadline() -> Result<String, SandboxError> {
    let mut running = pin!(run(WAITS));
    begin(running.as_mut()).await;
    let late = Request { deadline_ms: Some(10), ..request("console.log('late')") };
    let late = sandbox::execute(Runtime::Javascript, late, policy()).await?;
    open().await;
    let first = text(running.await?.stdout.bytes);
    Ok(format!("{:?} {:?} {first}", late.outcome, text(late.stdout.bytes)))
}

/// Uses a session while another script runs.
async fn session() -> Result<String, SandboxError> {
    let options = SessionOptions { context: None, tools: Some(vec![tool("ask")]) };
    let session = Session::open(Runtime::Javascript, policy(), options).await?;
    let mut running = pin!(run(WAITS));
    begin(running.as_mut()).await;
    begin_and_drop(session.execute(request("globalThis.x = 1"))).await;
    begin_and_drop(session.read_file("a".into())).await;
    // An execution starts without waiting, because the component may have to answer its calls.
    let started = session.start(request("globalThis.y = await tools.ask()")).await?;
    let pending = next_call(&mut started.events()?).await;
    started.answer(pending.id, Ok("2"))?;
    started.finish().await?;
    let mut waiting = pin!(output(&session, "console.log(globalThis.x, y)"));
    begin(waiting.as_mut()).await;
    open().await;
    let printed = waiting.await?;
    Ok(format!("{printed}{}", text(running.await?.stdout.bytes)))
}
