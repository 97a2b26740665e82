//! Results of tools.

use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::Value;

use crate::ServiceError;

/// The result of a tool: contents for a model, and structured content for programs.
pub(super) struct Said {
    content: Vec<ContentBlock>,
    structured: Value,
}

impl Said {
    /// A result with a text as its content.
    pub(super) fn new(text: String, answer: &impl Serialize) -> Result<Self, ServiceError> {
        Self::with(vec![ContentBlock::text(text)], answer)
    }

    pub(super) fn with(content: Vec<ContentBlock>, answer: &impl Serialize) -> Result<Self, ServiceError> {
        let structured =
            serde_json::to_value(answer).map_err(|error| ServiceError::Invalid(format!("no JSON: {error}")))?;
        Ok(Self { content, structured })
    }
}

impl From<Said> for CallToolResult {
    fn from(Said { content, structured }: Said) -> Self {
        let mut result = Self::success(content);
        result.structured_content = Some(structured);
        result
    }
}
