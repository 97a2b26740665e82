//! Calls from scripts to the client of a connection.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use glovebox::{ToolCall, ToolError};
use serde_json::value::RawValue;
use tokio::{runtime::Handle, sync::oneshot};

use super::{outbox::Outbox, rpc};
use glovebox_requests::cancelled;

/// The client as the target of calls from scripts.
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

const GONE: &str = "the client is gone";

impl Peer {
    /// Must be called on a Tokio runtime.
    pub(super) fn new(outbox: Outbox) -> Arc<Self> {
        Arc::new(Self { outbox, handle: Handle::current(), calls: Mutex::default() })
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Delivers the client's answer to a call. Ignores an answer that no call waits for.
    pub(super) fn answered(&self, id: &str, answer: Result<&RawValue, String>) {
        let waiting = id.parse().ok().and_then(|id: u64| self.calls().waiting.remove(&id));
        if let Some(waiting) = waiting {
            let _ = waiting.send(answer.map(|raw| raw.get().to_owned()));
        }
    }

    /// Fails all pending calls, and refuses new ones.
    pub(super) fn close(&self) {
        let mut calls = self.calls();
        calls.is_closed = true;
        calls.waiting.clear();
    }

    /// Calls the client. Blocks until the client answers, the call is cancelled, or its deadline passes. Must be called
    /// on a tool's thread.
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
        let request = rpc::request(Some(id), method, params);
        let asked = async {
            let request = self
                .outbox
                .outgoing(request)
                .await
                .map_err(|_| ToolError::new("the daemon's memory for messages is full"))?;
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
                self.outbox.try_send_short(rpc::request(None, "cancel", &format!("{{\"id\":{id}}}")));
            }
            Err(ToolError::new("the call was cancelled or timed out"))
        })
    }
}
