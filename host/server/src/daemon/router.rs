//! Whom a session's scripts ask.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use glovebox::{Tool, ToolCall, ToolError};
use serde_json::{Value, json};

use super::{
    params::{Query, ToolParams},
    peer::Peer,
    rpc::RpcError,
};

/// Whom a session's scripts ask: an interpreter that is ready has tools before it has a client.
#[derive(Debug, Default)]
pub(super) struct Router {
    peer: Mutex<Weak<Peer>>,
    session: OnceLock<String>,
}

impl Router {
    /// From now on it is this client.
    pub(super) fn connect(&self, peer: &Arc<Peer>) {
        *self.peer.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(peer);
    }

    /// What the client is told of where a call comes from.
    pub(super) fn name(&self, session: &str) {
        let _ = self.session.set(session.to_owned());
    }

    fn ask(&self, method: &str, fields: &str, call: &ToolCall) -> Result<String, ToolError> {
        let peer = self.peer.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        let peer = peer.ok_or_else(|| ToolError::new("the client is gone"))?;
        let session = call.session_id.as_ref().or(self.session.get());
        peer.ask(method, &format!("{{\"session\":{},{fields}}}", json!(session)), call)
    }

    /// The tools of a session. `tools` are the client's own.
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
                if answer.starts_with('"') { Ok(answer) } else { Err(ToolError::new("the client's answer is no text")) }
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

/// The fields of an object that has some, as its text.
fn inner(object: &str) -> &str {
    let object = object.trim();
    object.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or("")
}
