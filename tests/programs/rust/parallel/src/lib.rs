//! Runs several Python scripts at the same time, with version 0.3.0 of the contract.

use std::error::Error;

use glovebox_guest::{
    Execution, Form, IfExists, Outcome, Sandbox, SessionOptions, Tool,
    concurrent::{self, CallInfo, Event, Started, ToolRequest, call_tool, join_all, list_tools},
};

wit_bindgen::generate!({
    inline: "
        package example:parallel;

        world parallel {
            /// Runs all scripts at the same time. Returns what each of them printed.
            export run-all: async func(scripts: list<string>) -> list<result<string, string>>;
            /// Runs a script that can call `tools.shout`. Returns its calls and what it displayed and printed.
            export converse: async func(script: string) -> result<list<string>, string>;
            /// Runs a script that can call the tools of another component. Returns what it printed.
            export with-tools: async func(script: string) -> result<string, string>;
            /// Runs a script until it calls `tools.ask`. Returns the suspended script.
            export pause: async func(script: string) -> result<list<u8>, string>;
            /// Continues a suspended script with an answer, as JSON. Returns what the script printed.
            export unpause: async func(suspended: list<u8>, answer: string) -> result<string, string>;
            /// Suspends a script in a session, and continues it in a new session with an answer, as JSON. Returns the
            /// value of the script's variable `x` in the new session, as JSON.
            export transfer: async func(script: string, answer: string) -> result<string, string>;
            /// Counts the words of a text in a session that is saved and resumed.
            export count: async func(text: string) -> result<string, string>;
        }
    ",
});

struct Parallel;
export!(Parallel);

impl Guest for Parallel {
    async fn run_all(scripts: Vec<String>) -> Vec<Result<String, String>> {
        let sandbox = python();
        let runs = scripts.into_iter().map(|script| run(&sandbox, script));
        join_all(runs).await.into_iter().map(|result| result.map_err(|error| error.to_string())).collect()
    }

    async fn converse(script: String) -> Result<Vec<String>, String> {
        converse(script).await.map_err(|error| error.to_string())
    }

    async fn with_tools(script: String) -> Result<String, String> {
        with_tools(script).await.map_err(|error| error.to_string())
    }

    async fn pause(script: String) -> Result<Vec<u8>, String> {
        pause(script).await.map_err(|error| error.to_string())
    }

    async fn unpause(suspended: Vec<u8>, answer: String) -> Result<String, String> {
        unpause(suspended, answer).await.map_err(|error| error.to_string())
    }

    async fn transfer(script: String, answer: String) -> Result<String, String> {
        transfer(script, answer).await.map_err(|error| error.to_string())
    }

    async fn count(text: String) -> Result<String, String> {
        count(text).await.map_err(|error| error.to_string())
    }
}

fn python() -> concurrent::Sandbox {
    Sandbox::python().concurrent()
}

/// Runs a script if it is well-formed. Returns what it printed.
async fn run(sandbox: &concurrent::Sandbox, script: String) -> Result<String, Box<dyn Error>> {
    if let Some(first) = sandbox.validate(script.as_str()).await?.first() {
        return Err(format!("{}:{}: {}", first.line, first.column, first.message).into());
    }
    printed(sandbox.execute(script).await?)
}

fn printed(execution: Execution) -> Result<String, Box<dyn Error>> {
    match execution.outcome {
        Outcome::Completed => Ok(execution.stdout.text().into_owned()),
        outcome => Err(outcome.to_string().into()),
    }
}

/// Answers the tool calls of a script, and reads what it displays and prints.
async fn converse(script: String) -> Result<Vec<String>, Box<dyn Error>> {
    let tools = [Tool::new("shout", "Returns its arguments in capital letters.")];
    let started = python().start(script, &tools).await?;
    let (stdout, mut events) = (started.stdout()?, started.events()?);
    let mut lines = Vec::new();
    while let Some(event) = events.next().await {
        match event {
            // The arguments are JSON, such as `{"text":"hello"}`.
            Event::ToolRequest(call) => {
                started.answer(call.id, Ok(call.arguments.to_uppercase()))?;
                lines.push(format!("{} {}", call.name, call.arguments));
            }
            // A table or a picture, in one or more media types.
            Event::Display(index) => lines.extend(started.display(index)?.forms.iter().map(described)),
        }
    }
    let output = String::from_utf8(stdout.collect().await)?;
    lines.extend(output.lines().map(str::to_owned));
    Ok(lines)
}

fn described(form: &Form) -> String {
    format!("{}, {} bytes", form.media_type, form.data.len())
}

/// Forwards the tool calls of a script to another component, each while the others run.
async fn with_tools(script: String) -> Result<String, Box<dyn Error>> {
    let started = python().start(script, &list_tools()).await?;
    let forward = |call: ToolRequest| {
        let info = CallInfo { id: call.id, session_id: None, timeout_ms: None };
        call_tool(call.name, call.arguments, info)
    };
    started.answer_calls(forward).await?;
    printed(started.finish().await?)
}

fn ask() -> Tool {
    Tool::new("ask", "Asks a person.")
}

/// Suspends a script at its first call.
async fn pause(script: String) -> Result<Vec<u8>, Box<dyn Error>> {
    suspended(&python().start_suspendable(script, &[ask()]).await?).await
}

/// Suspends an execution at its first call.
async fn suspended(started: &Started) -> Result<Vec<u8>, Box<dyn Error>> {
    if started.events()?.next().await.is_none() {
        return Err("the script has ended without a call".into());
    }
    loop {
        match started.suspend().await {
            // The script has made the call, but does not wait for the answer yet.
            Err(glovebox_guest::Error::SessionBusy(_)) => wit_bindgen::yield_async().await,
            result => return Ok(result?),
        }
    }
}

/// Answers the call at which a script was suspended.
async fn unpause(suspended: Vec<u8>, answer: String) -> Result<String, Box<dyn Error>> {
    let resumed = python().resume_suspended(suspended, &[], &[ask()]).await?;
    finished(&resumed, answer).await
}

/// Answers the call of a script. Returns what the script printed.
async fn finished(resumed: &Started, answer: String) -> Result<String, Box<dyn Error>> {
    let mut events = resumed.events()?;
    while let Some(event) = events.next().await {
        if let Event::ToolRequest(call) = event {
            resumed.answer(call.id, Ok(answer))?;
            break;
        }
    }
    printed(resumed.finish().await?)
}

async fn transfer(script: String, answer: String) -> Result<String, Box<dyn Error>> {
    let options = SessionOptions { tools: Some(vec![ask()]), ..SessionOptions::default() };
    let session = python().session(&options).await?;
    session.execute("x = [1]").await?;
    let bytes = suspended(&session.start_suspendable(script).await?).await?;
    drop(session);
    let (session, resumed) = python().resume_suspended_session(bytes, &[ask()]).await?;
    finished(&resumed, answer).await?;
    let value = session.get_variable("x").await?.and_then(|value| value.json);
    Ok(value.ok_or("`x` has no value")?)
}

async fn count(text: String) -> Result<String, Box<dyn Error>> {
    let options = SessionOptions::default();
    let session = python().session(&options).await?;
    session.write_file("text.txt", text, IfExists::Replace).await?;
    session.execute("words = open('text.txt').read().split()").await?;
    let state = session.hibernate().await?.collect().await;
    drop(session);
    let resumed = python().resume(state, &options).await?;
    printed(resumed.execute("print(len(words), len(open('text.txt').read()))").await?)
}
