//! A tools component of version 0.3.0 whose calls wait for each other. The tests compose it with a provider.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    task::{Poll, Waker},
};

use exports::glovebox::sandbox0_3_0::tools::{CallInfo, Guest};
use glovebox::sandbox0_2_0::types::{CallFailure, Tool, ToolError};
use serde_json::{Value, json};
use wasi::clocks0_3_0::monotonic_clock;

wit_bindgen::generate!({
    path: ["../../../../wit", "../../../../wit/0.3"],
    inline: "
        package example:meeting;

        world meeting {
            import wasi:clocks/monotonic-clock@0.3.0;
            export glovebox:sandbox/tools@0.3.0;
        }

        package wasi:clocks@0.3.0 {
            interface types {
                type duration = u64;
            }

            interface monotonic-clock {
                use types.{duration};

                wait-for: async func(how-long: duration);
            }
        }
    ",
    generate_all,
});

thread_local! {
    static OPEN: Cell<u64> = const { Cell::new(0) };
    static MAX_OPEN: Cell<u64> = const { Cell::new(0) };
    static DROPPED: Cell<u64> = const { Cell::new(0) };
    static WAITING: RefCell<Vec<Waker>> = const { RefCell::new(Vec::new()) };
}

/// A call that has begun. Dropping it before it is done counts it as dropped.
struct OpenCall {
    is_done: bool,
}

impl OpenCall {
    fn begin() -> Self {
        OPEN.set(OPEN.get() + 1);
        MAX_OPEN.set(MAX_OPEN.get().max(OPEN.get()));
        WAITING.take().into_iter().for_each(Waker::wake);
        Self { is_done: false }
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        OPEN.set(OPEN.get() - 1);
        if !self.is_done {
            DROPPED.set(DROPPED.get() + 1);
        }
    }
}

/// Waits until so many calls have been open at the same time.
async fn met(count: u64) {
    poll_fn(|cx| {
        if MAX_OPEN.get() >= count {
            return Poll::Ready(());
        }
        WAITING.with_borrow_mut(|waiting| waiting.push(cx.waker().clone()));
        Poll::Pending
    })
    .await;
}

struct Meeting;
export!(Meeting);

impl Guest for Meeting {
    fn list_tools() -> Vec<Tool> {
        let tool = |name: &str, description: &str| Tool {
            name: name.into(),
            description: description.into(),
            arguments_schema: None,
        };
        vec![
            tool("meet", "Waits until `count` calls are open at the same time. Returns the number of open calls."),
            tool("sleep", "Waits for `ms` milliseconds."),
            tool("hang", "Never returns."),
            tool("counts", "Returns the numbers of open and dropped calls, and the session ID."),
        ]
    }

    async fn call(name: String, arguments: String, info: CallInfo) -> Result<String, CallFailure> {
        let arguments: Value = serde_json::from_str(&arguments).unwrap_or_default();
        if name == "counts" {
            return Ok(json!([OPEN.get(), DROPPED.get(), info.session_id]).to_string());
        }
        let mut call = OpenCall::begin();
        match name.as_str() {
            "meet" => met(arguments["count"].as_u64().unwrap_or(0)).await,
            "sleep" => monotonic_clock::wait_for(arguments["ms"].as_u64().unwrap_or(0) * 1_000_000).await,
            "hang" => met(u64::MAX).await,
            _ => return Err(CallFailure { kind: ToolError::Unknown, message: "no such tool".into() }),
        }
        call.is_done = true;
        Ok(MAX_OPEN.get().to_string())
    }
}
