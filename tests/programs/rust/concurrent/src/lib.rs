//! A component that uses version 0.3.0 of the contract. The host calls the export once for each scenario; some
//! scenarios misuse the sandbox. A scenario returns its findings as text, or an error of the sandbox.

mod displays;
mod drops;
mod files;
mod hostile;
mod left_files;
mod queue;
mod sessions;
mod suspending;
mod suspending_sessions;
mod tasks;
mod tools;
mod unset;

use glovebox::{
    sandbox0_2_0::types::{
        CallFailure, Execution, Limits, Outcome, Policy, Request, Runtime, SandboxError, Tool, ToolError,
    },
    sandbox0_3_0::sandbox::{self, Event, Started, ToolRequest},
};
use tasks::all;
use unset::{no_limits, policy, request};
use wit_bindgen::{StreamReader, StreamResult};

wit_bindgen::generate!({
    path: ["../../../../wit", "../../../../wit/0.3"],
    inline: "
        package example:concurrent;

        world concurrent {
            import glovebox:sandbox/sandbox@0.3.0;
            import glovebox:sandbox/session@0.3.0;
            import glovebox:sandbox/tools@0.3.0;
            export scenario: async func(name: string) -> result<string, string>;
        }
    ",
    generate_all,
});

struct Concurrent;
export!(Concurrent);

impl Guest for Concurrent {
    async fn scenario(name: String) -> Result<String, String> {
        let done = match name.as_str() {
            "drop-session-calls" => drops::every_session_function().await,
            name if name.starts_with("displays-") => displays::scenario(name).await,
            name if name.starts_with("queue-") => queue::scenario(name).await,
            name if name.starts_with("session-") => sessions::scenario(name).await,
            name if name.starts_with("suspend-") => suspending::scenario(name).await,
            name if name.starts_with("left-") => left_files::scenario(name).await,
            name if name.starts_with("tools-") => tools::scenario(name).await,
            "validate" => validate().await,
            "execute" => execute().await,
            "several" => several().await,
            "live" => live().await,
            "answers" => answers().await,
            "wrong-answers" => wrong_answers().await,
            "cancel" => cancel().await,
            _ => hostile::scenario(&name).await,
        };
        done.map_err(|error| format!("{error:?}"))
    }
}

fn tool(name: &str) -> Tool {
    Tool { name: name.into(), description: "A tool of the component.".into(), arguments_schema: None }
}

async fn run(source: &str) -> Result<Execution, SandboxError> {
    sandbox::execute(Runtime::Javascript, request(source), policy()).await
}

async fn start(source: &str, tools: &[&str]) -> Result<Started, SandboxError> {
    let tools = tools.iter().map(|name| tool(name)).collect();
    sandbox::start(Runtime::Javascript, request(source), policy(), tools).await
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// Reads at most `count` bytes. Returns an empty list at the end of the stream.
async fn read(stream: &mut StreamReader<u8>, count: usize) -> Vec<u8> {
    stream.read(Vec::with_capacity(count)).await.1
}

async fn next_call(events: &mut StreamReader<Event>) -> ToolRequest {
    let Some(Event::ToolRequest(request)) = events.next().await else { panic!("the next event is no call") };
    request
}

async fn validate() -> Result<String, SandboxError> {
    let found = sandbox::validate(Runtime::Javascript, request("let ="), policy()).await?;
    let none = sandbox::validate(Runtime::Javascript, request("let x = 1"), policy()).await?;
    Ok(format!("{} {}", found.len(), none.len()))
}

async fn execute() -> Result<String, SandboxError> {
    assert!(sandbox::info().runtimes.len() > 1);
    assert!(sandbox::default_policy().limits.is_some());
    let execution = run("console.log(6 * 7)").await?;
    assert!(matches!(execution.outcome, Outcome::Completed));
    let raised = run("throw new TypeError('no')").await?;
    let Outcome::Raised(raised) = raised.outcome else { panic!("{:?}", raised.outcome) };
    let refused = Policy { limits: Some(Limits { fuel: Some(u64::MAX), ..no_limits() }), ..policy() };
    let refused = sandbox::execute(Runtime::Javascript, request("1"), refused).await;
    assert!(matches!(refused, Err(SandboxError::InvalidPolicy(_))));
    Ok(format!("{}{} {}", text(execution.stdout.bytes), raised.type_name, execution.fuel_consumed))
}

/// Runs ten scripts that wait for each other in a tool of the host.
async fn several() -> Result<String, SandboxError> {
    let calls = (0..10).map(|index| async move {
        let execution = run(&format!("await tools.meet(); console.log({index})")).await?;
        Ok(text(execution.stdout.bytes))
    });
    let outputs: Result<Vec<_>, SandboxError> = all(calls).await.into_iter().collect();
    Ok(outputs?.concat().replace('\n', " "))
}

/// Reads output while the script waits for an answer.
async fn live() -> Result<String, SandboxError> {
    let source = "console.log('before'); console.error('wrong'); console.log(await tools.ask({ question: '?' }))";
    let started = start(source, &["ask"]).await?;
    let (mut stdout, mut events) = (started.stdout()?, started.events()?);
    let before = text(read(&mut stdout, 100).await);
    let call = next_call(&mut events).await;
    started.answer(call.id, Ok("\"after\""))?;
    let after = text(stdout.collect().await);
    let execution = started.finish().await?;
    assert!(matches!(execution.outcome, Outcome::Completed), "{:?}", execution.outcome);
    assert_eq!(text(execution.stdout.bytes), format!("{before}{after}"));
    assert!(events.next().await.is_none(), "the events end with the execution");
    let stderr = text(started.stderr()?.collect().await);
    Ok(format!("{before}{} {}\n{after}{stderr}", call.name, call.arguments))
}

/// Answers three calls of one script in reverse order.
async fn answers() -> Result<String, SandboxError> {
    let source = "const all = ['a', 'b', 'c'].map((name) => tools.ask({ name }));
        all.map((one) => one.then(console.log, (error) => console.log(error.message)));
        await Promise.allSettled(all)";
    let started = start(source, &["ask"]).await?;
    let mut events = started.events()?;
    let mut calls = Vec::new();
    while calls.len() < 3 {
        calls.push(next_call(&mut events).await);
    }
    // A second stream begins with all calls that have no answer.
    let mut again = started.events()?;
    assert_eq!(next_call(&mut again).await.id, calls[0].id);
    let mut output = started.stdout()?;
    let mut printed = String::new();
    for call in calls.iter().rev() {
        let denied = CallFailure { kind: ToolError::Denied, message: "not now".into() };
        let value = call.id.to_string();
        started.answer(call.id, if call.id == 0 { Err(&denied) } else { Ok(&value) })?;
        printed += &text(read(&mut output, 100).await);
    }
    let execution = started.finish().await?;
    assert_eq!(execution.tool_calls.len(), 3);
    Ok(printed.replace('\n', " "))
}

async fn wrong_answers() -> Result<String, SandboxError> {
    let started = start("console.log(await tools.ask())", &["ask"]).await?;
    let call = next_call(&mut started.events()?).await;
    for (id, answer) in [(call.id + 1, "1"), (call.id, "one"), (u64::MAX, "1")] {
        let refused = started.answer(id, Ok(answer));
        assert!(matches!(refused, Err(SandboxError::InvalidArgument(_))), "{refused:?}");
    }
    started.answer(call.id, Ok("1"))?;
    started.answer(call.id, Ok("2"))?;
    let execution = started.finish().await?;
    Ok(text(execution.stdout.bytes))
}

/// Cancels a started script, which waits for an answer.
async fn cancel() -> Result<String, SandboxError> {
    let started = start("await tools.ask()", &["ask"]).await?;
    let mut events = started.events()?;
    next_call(&mut events).await;
    started.cancel();
    let (status, _) = events.read(Vec::with_capacity(1)).await;
    assert!(matches!(status, StreamResult::Dropped), "{status:?}");
    let execution = started.finish().await?;
    Ok(format!("{:?}", execution.outcome))
}
