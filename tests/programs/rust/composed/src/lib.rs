//! Scenarios of version 0.3.0 of the contract for providers, which answer tool calls themselves. The tests compose this
//! program with a provider and with the tools `meeting`. A scenario returns its findings as text, or an error of the
//! sandbox.

mod hostile;
mod streams;
#[allow(dead_code, reason = "this program needs some of the functions")]
#[path = "../../concurrent/src/tasks.rs"]
mod tasks;
#[path = "../../concurrent/src/unset.rs"]
mod unset;

use glovebox::{
    sandbox0_2_0::types::{Execution, Limits, Outcome, Policy, Request, Runtime, SandboxError},
    sandbox0_3_0::sandbox::{self, Started},
};
use unset::{no_limits, policy, request};

wit_bindgen::generate!({
    path: ["../../../../wit", "../../../../wit/0.3"],
    inline: "
        package example:composed;

        world composed {
            import glovebox:sandbox/sandbox@0.3.0;
            import glovebox:sandbox/session@0.3.0;
            export scenario: async func(name: string) -> result<string, string>;
        }
    ",
    generate_all,
});

struct Composed;
export!(Composed);

impl Guest for Composed {
    async fn scenario(name: String) -> Result<String, String> {
        let done = match name.as_str() {
            "meet-javascript" => printed(Runtime::Javascript, MEET_JAVASCRIPT).await,
            "meet-python" => printed(Runtime::Python, MEET_PYTHON).await,
            "sleep-javascript" => printed(Runtime::Javascript, SLEEP_JAVASCRIPT).await,
            "sleep-python" => printed(Runtime::Python, SLEEP_PYTHON).await,
            name if name.starts_with("stream-") => streams::scenario(name).await,
            name => hostile::scenario(name).await,
        };
        done.map_err(|error| format!("{error:?}"))
    }
}

/// Makes ten calls at the same time. Each waits until all of them are open.
const MEET_JAVASCRIPT: &str = "
    const calls = Array.from({ length: 10 }, () => tools.meet({ count: 10 }))
    console.log((await Promise.all(calls)).join())";

const MEET_PYTHON: &str = "
import asyncio
async def main():
    print(*await asyncio.gather(*(tools.meet.aio(count=10) for _ in range(10))), sep=',')
asyncio.run(main())";

/// Makes ten calls of 100 ms at the same time. Prints their duration.
const SLEEP_JAVASCRIPT: &str = "
    const begun = Date.now()
    await Promise.all(Array.from({ length: 10 }, () => tools.sleep({ ms: 100 })))
    console.log(Date.now() - begun)";

const SLEEP_PYTHON: &str = "
import asyncio, time
async def main():
    begun = time.monotonic()
    await asyncio.gather(*(tools.sleep.aio(ms=100) for _ in range(10)))
    print(round((time.monotonic() - begun) * 1000))
asyncio.run(main())";

/// Returns a policy in which a tool call has this timeout.
fn tool_timeout(ms: u64) -> Policy {
    let limits = Limits { tool_timeout_ms: Some(ms), ..no_limits() };
    Policy { limits: Some(limits), ..policy() }
}

/// Returns the output of an execution, and its outcome if it has not completed.
fn text(execution: &Execution) -> String {
    let output = String::from_utf8_lossy(&execution.stdout.bytes).trim_end().to_owned();
    match &execution.outcome {
        Outcome::Completed => output,
        Outcome::Cancelled => format!("{output} (cancelled)"),
        other => format!("{output} ({other:?}: {})", String::from_utf8_lossy(&execution.stderr.bytes)),
    }
}

async fn printed(runtime: Runtime, source: &str) -> Result<String, SandboxError> {
    Ok(text(&sandbox::execute(runtime, request(source), policy()).await?))
}

async fn javascript(source: &str) -> Result<String, SandboxError> {
    printed(Runtime::Javascript, source).await
}

async fn start(source: &str) -> Result<Started, SandboxError> {
    sandbox::start(Runtime::Javascript, request(source), policy(), Vec::new()).await
}

/// Returns how many tool calls are open and how many were dropped.
async fn counts() -> Result<String, SandboxError> {
    javascript("const [open, dropped] = await tools.counts({}); console.log(`${open} open, ${dropped} dropped`)").await
}
