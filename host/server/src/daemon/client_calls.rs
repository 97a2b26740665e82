//! Tool calls and model queries from scripts to the client.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
};

use glovebox::{Tool, ToolCall, ToolError};
use glovebox_requests::cancelled;
use serde_json::{Value, json, value::RawValue};
use tokio::{runtime::Handle, sync::oneshot};

use super::{
    lines::Outbox,
    message::{self, RpcError},
    params::{Query, ToolParams},
};

/// A client that answers calls from scripts.
#[derive(Debug)]
pub(super) struct Peer {
    outbox: Outbox,
    handle: Handle,
    calls: Mutex<Calls>,
}

#[derive(Debug, Default)]
struct Calls {
    next: u64,
    waiting: HashMap<u64, oneshot::Sender<Result<String, String>>>,
    is_closed: bool,
}

const GONE: &str = "the client has disconnected";

impl Peer {
    /// Must be called within a Tokio runtime.
    pub(super) fn new(outbox: Outbox) -> Arc<Self> {
        Arc::new(Self { outbox, handle: Handle::current(), calls: Mutex::default() })
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes the client's answer to the waiting call. Ignores an answer for which no call waits.
    pub(super) fn answered(&self, id: &str, answer: Result<&RawValue, String>) {
        let waiting = id.parse().ok().and_then(|id: u64| self.calls().waiting.remove(&id));
        if let Some(waiting) = waiting {
            let _ = waiting.send(answer.map(|raw| raw.get().to_owned()));
        }
    }

    /// Fails all pending calls and refuses new ones.
    pub(super) fn close(&self) {
        let mut calls = self.calls();
        calls.is_closed = true;
        calls.waiting.clear();
    }

    /// Calls the client. Blocks until the client answers or disconnects, the call is cancelled, or its deadline passes.
    /// Must be called on a tool thread.
    pub(super) fn ask(&self, method: &str, params: &str, call: &ToolCall) -> Result<String, ToolError> {
        let (sender, answer) = oneshot::channel();
        let id = {
            let mut calls = self.calls();
            if calls.is_closed {
                return Err(ToolError::new(GONE));
            }
            calls.next += 1;
            let id = calls.next;
            calls.waiting.insert(id, sender);
            id
        };
        let request = message::request(Some(id), method, params);
        let asked = async {
            let request = self
                .outbox
                .outgoing(request)
                .await
                .map_err(|_| ToolError::new("the daemon's memory for messages is full; try again later"))?;
            self.outbox.send(request).await.map_err(|_| ToolError::new(GONE))?;
            answer.await.map_err(|_| ToolError::new(GONE))?.map_err(ToolError::new)
        };
        let answered = self.handle.block_on(async {
            tokio::select! {
                answered = asked => Some(answered),
                () = cancelled(&call.cancel) => None,
                () = tokio::time::sleep_until(call.deadline.into()) => None,
            }
        });
        answered.unwrap_or_else(|| {
            if self.calls().waiting.remove(&id).is_some() {
                self.outbox.try_send_short(message::request(None, "cancel", &format!("{{\"id\":{id}}}")));
            }
            Err(ToolError::new("the call was cancelled or timed out"))
        })
    }
}

/// Routes calls from a session's scripts to the session's client. An interpreter in the pool has tools before it has a
/// client.
#[derive(Debug, Default)]
pub(super) struct Router {
    peer: Mutex<Weak<Peer>>,
    session: OnceLock<String>,
}

impl Router {
    /// Sets the client that receives subsequent calls.
    pub(super) fn connect(&self, peer: &Arc<Peer>) {
        *self.peer.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(peer);
    }

    /// Sets the session ID for calls without one. Only the first invocation has an effect.
    pub(super) fn name(&self, session: &str) {
        let _ = self.session.set(session.to_owned());
    }

    fn ask(&self, method: &str, fields: &str, call: &ToolCall) -> Result<String, ToolError> {
        let peer = self.peer.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        let peer = peer.ok_or_else(|| ToolError::new("the client has disconnected"))?;
        let session = call.session_id.as_ref().or(self.session.get());
        peer.ask(method, &format!("{{\"session\":{},{fields}}}", json!(session)), call)
    }

    /// Returns a session's tools: model queries and the tools that the client defines.
    pub(super) fn tools(self: &Arc<Self>, queries: &[Query], tools: &[ToolParams]) -> Result<Vec<Tool>, RpcError> {
        let mut all: Vec<Tool> = queries.iter().map(|query| self.query(*query)).collect();
        for tool in tools {
            all.push(self.tool(tool, tool.schema()?));
        }
        Ok(all)
    }

    fn query(self: &Arc<Self>, query: Query) -> Tool {
        let router = Arc::clone(self);
        let unused = || ToolError::new("unused");
        match query {
            Query::Llm => Tool::llm_query(move |_, _| Err(unused())).text_handler(move |call, arguments| {
                let answer = router.ask("llm_query", inner(&arguments), call)?;
                if answer.starts_with('"') {
                    Ok(answer)
                } else {
                    Err(ToolError::new("the client's answer is not a string"))
                }
            }),
            Query::Rlm => Tool::rlm_query(move |_, _, _| Err(unused()))
                .text_handler(move |call, arguments| router.ask("rlm_query", inner(&arguments), call)),
        }
    }

    fn tool(self: &Arc<Self>, tool: &ToolParams, schema: Option<Value>) -> Tool {
        let router = Arc::clone(self);
        let named = json!(tool.name).to_string();
        let mut made = Tool::new(&tool.name, &tool.description).foreign();
        if let Some(schema) = schema {
            made = made.schema(schema);
        }
        made.text_handler(move |call, arguments| {
            router.ask("tool", &format!("\"name\":{named},\"arguments\":{arguments}"), call)
        })
    }
}

/// Returns the text between the outer braces of a JSON object.
fn inner(object: &str) -> &str {
    let object = object.trim();
    object.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or("")
}
