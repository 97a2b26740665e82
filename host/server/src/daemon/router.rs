//! Routing of calls from the scripts of a session to its client.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use glovebox::{Tool, ToolCall, ToolError};
use serde_json::{Value, json};

use super::{
    params::{Query, ToolParams},
    peer::Peer,
    rpc::RpcError,
};

/// Routes calls from the scripts of a session to its client. An interpreter that is started ahead has tools before it
/// has a client.
#[derive(Debug, Default)]
pub(super) struct Router {
    peer: Mutex<Weak<Peer>>,
    session: OnceLock<String>,
}

impl Router {
    /// Sets the client that receives calls from now on.
    pub(super) fn connect(&self, peer: &Arc<Peer>) {
        *self.peer.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(peer);
    }

    /// Sets the session id of calls that do not carry one. Only the first call has an effect.
    pub(super) fn name(&self, session: &str) {
        let _ = self.session.set(session.to_owned());
    }

    fn ask(&self, method: &str, fields: &str, call: &ToolCall) -> Result<String, ToolError> {
        let peer = self.peer.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        let peer = peer.ok_or_else(|| ToolError::new("the client is gone"))?;
        let session = call.session_id.as_ref().or(self.session.get());
        peer.ask(method, &format!("{{\"session\":{},{fields}}}", json!(session)), call)
    }

    /// Returns the tools of a session: model queries and the client's own `tools`.
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

/// Returns the text between the braces of a JSON object.
fn inner(object: &str) -> &str {
    let object = object.trim();
    object.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or("")
}
