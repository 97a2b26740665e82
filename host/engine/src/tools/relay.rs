//! Tools for scripts that run in another process. Definitions are sent to that process, which sends calls back. Also
//! the memory for the data of one call, in the process that runs its handler.

use std::{fmt, sync::Arc, time::Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ReservedMemory, Tool, ToolCall, ToolError, ToolMemory, toolbox::Answerer};
use crate::CancelToken;

/// The definition of a [`Tool`] without its handler.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ToolDefinition {
    name: String,
    description: String,
    schema: Value,
    is_stepped: bool,
    is_untrusted: bool,
}

impl ToolDefinition {
    /// Returns the tool's name in scripts.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the description that scripts see.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns the JSON Schema of the arguments.
    #[must_use]
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// Returns `true` if the caller of a started execution answers the tool's calls ([`Tool::stepped`]).
    #[must_use]
    pub fn is_stepped(&self) -> bool {
        self.is_stepped
    }

    /// Creates a tool from this definition. `relay` handles the calls, unless the tool is stepped. The argument and the
    /// result of `relay` are JSON text.
    pub fn tool(self, relay: impl Fn(&ToolCall, String) -> Result<String, ToolError> + Send + Sync + 'static) -> Tool {
        let Self { name, description, schema, is_stepped, is_untrusted } = self;
        let mut tool = Tool::new(name, description).schema(schema);
        tool.is_untrusted = is_untrusted;
        if is_stepped { tool.stepped() } else { tool.text_handler(relay) }
    }
}

/// A call made by a script in another process.
#[derive(Clone, Debug)]
pub struct RelayedCall {
    /// The index of the call in the execution, counted from 0.
    pub index: usize,
    /// The session ID, from the session or from the request.
    pub session_id: Option<String>,
    /// The token that is cancelled when the execution no longer waits for the result.
    pub cancel: CancelToken,
    /// The time at which the call times out.
    pub deadline: Instant,
    /// Maximum memory that a built-in handler may use for the call, in bytes: `limits.memory_bytes`.
    pub memory_bytes: u64,
    /// An additional budget to which the handler's memory is charged. `None` for no budget.
    pub budget: Option<Arc<dyn MemoryBudget>>,
}

impl RelayedCall {
    pub(crate) fn of(self, name: &str) -> ToolCall {
        let Self { index, session_id, cancel, deadline, memory_bytes, budget } = self;
        let account = Arc::new(ToolMemory::default());
        account.set_room(memory_bytes);
        let memory = CallMemory::new(account, budget);
        ToolCall { name: name.to_owned(), index, session_id, cancel, deadline, memory }
    }
}

impl Tool {
    /// Returns the definition, for a process that runs scripts and relays calls to [`answer`](Self::answer).
    #[must_use]
    pub fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: self.name.clone(),
            description: self.description.clone(),
            schema: self.schema.clone(),
            is_stepped: matches!(self.answerer, Some(Answerer::Caller)),
            is_untrusted: self.is_untrusted,
        }
    }

    /// Calls the handler for a script in another process. That process has validated the arguments. Arguments and
    /// result are JSON text. May block.
    ///
    /// # Errors
    /// Fails with the handler's error. Also fails if the tool has no handler, or if a handler takes parsed JSON and the
    /// arguments are not JSON.
    pub fn answer(&self, call: RelayedCall, arguments: String) -> Result<String, ToolError> {
        let call = call.of(&self.name);
        match &self.answerer {
            Some(Answerer::TextHandler(handler)) => handler(&call, arguments),
            Some(Answerer::Handler(handler)) => {
                let arguments = serde_json::from_str(&arguments).map_err(ToolError::new)?;
                handler(&call, arguments).map(|result| result.to_string())
            }
            Some(Answerer::Caller) | None => Err(ToolError::new(format!("`{}` has no handler", self.name))),
        }
    }
}

/// The memory budget of a process that answers the calls of many scripts ([`RelayedCall::budget`]).
pub trait MemoryBudget: fmt::Debug + Send + Sync {
    /// Charges another `bytes` for the call. Returns `false`, and charges nothing, if the budget is exhausted. The
    /// owner of the budget releases the bytes after the call.
    fn charge(&self, bytes: u64) -> bool;
}

/// The memory available to a handler: the execution's remaining memory (`limits.memory_bytes`), and a budget of the
/// process, if there is one.
#[derive(Clone, Debug)]
pub struct CallMemory {
    account: Arc<ToolMemory>,
    budget: Option<Arc<dyn MemoryBudget>>,
}

/// The error for insufficient memory for a handler's data. The error text continues a sentence whose subject is the
/// data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallMemoryError {
    /// The data does not fit into the execution's memory.
    #[error("does not fit into the remaining `limits.memory_bytes`; read earlier responses first")]
    Limit,
    /// The data does not fit into the budget of the process.
    #[error("does not fit into the server's memory; try again later, or request less")]
    Budget,
}

impl CallMemory {
    /// Combines the memory of an execution's calls with a budget of the process.
    #[must_use]
    pub fn new(account: Arc<ToolMemory>, budget: Option<Arc<dyn MemoryBudget>>) -> Self {
        Self { account, budget }
    }

    /// Reserves `bytes` of the execution's memory until the returned value is dropped, and charges them to the budget.
    ///
    /// # Errors
    /// Fails if too little of the execution's memory or of the budget is left.
    pub fn hold(&self, bytes: u64) -> Result<ReservedMemory, CallMemoryError> {
        let held = self.account.hold(bytes).ok_or(CallMemoryError::Limit)?;
        match &self.budget {
            Some(budget) if !budget.charge(bytes) => Err(CallMemoryError::Budget),
            _ => Ok(held),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn call() -> RelayedCall {
        let deadline = Instant::now() + Duration::from_secs(1);
        let cancel = CancelToken::new();
        RelayedCall { index: 3, session_id: None, cancel, deadline, memory_bytes: 1 << 20, budget: None }
    }

    #[test]
    fn a_relayed_tool_answers_like_the_original() {
        let schema = json!({ "type": "object", "properties": { "a": { "type": "number" } } });
        let original = Tool::new("double", "Doubles.")
            .schema(schema)
            .untrusted_schema()
            .handler(|call, arguments| Ok(json!([call.index, arguments["a"].as_f64().unwrap_or_default() * 2.0])));
        let text = serde_json::to_string(&original.definition()).unwrap();
        let there = original.clone();
        let relayed = serde_json::from_str::<ToolDefinition>(&text).unwrap().tool(move |relayed, arguments| {
            let call = RelayedCall { index: relayed.index, ..call() };
            there.answer(call, arguments)
        });
        assert_eq!((relayed.name(), relayed.is_untrusted), ("double", true));
        assert_eq!(relayed.schema, original.schema);
        assert_eq!(relayed.answer(call(), r#"{"a":2}"#.to_owned()).unwrap(), "[3,4.0]");
        assert!(Tool::new("ask", "").stepped().definition().is_stepped());
        assert!(Tool::new("ask", "").stepped().answer(call(), "{}".to_owned()).is_err());
    }
}
