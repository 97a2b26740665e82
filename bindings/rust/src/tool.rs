//! Tools of the component, and their answers.

use crate::{CallFailure, Tool, ToolAnswer, ToolError, ToolRequest};

impl Tool {
    /// Creates a tool that accepts any object. The name is 1 to 64 ASCII letters, digits and underscores, starting with
    /// a letter.
    #[must_use]
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self { name: name.into(), description: description.into(), arguments_schema: None }
    }

    /// Sets the JSON Schema of an object whose properties are the arguments. Default: any object.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.arguments_schema = Some(schema.into());
        self
    }
}

impl ToolRequest {
    /// Answers the call with a result, as JSON text.
    #[must_use]
    pub fn returns(&self, json: impl Into<String>) -> ToolAnswer {
        self.answer(Ok(json.into()))
    }

    /// Answers the call with a failure and its message for the script.
    #[must_use]
    pub fn fails(&self, failure: impl Into<CallFailure>) -> ToolAnswer {
        self.answer(Err(failure.into()))
    }

    /// Answers the call with a result or a failure.
    #[must_use]
    pub fn answer(&self, answer: Result<String, CallFailure>) -> ToolAnswer {
        ToolAnswer { id: self.id, answer }
    }
}

/// Creates a failure of the tool itself. The message must not contain secrets, because the script reads it.
impl From<&str> for CallFailure {
    fn from(message: &str) -> Self {
        message.to_owned().into()
    }
}

/// Creates a failure of the tool itself. The message must not contain secrets, because the script reads it.
impl From<String> for CallFailure {
    fn from(message: String) -> Self {
        Self { kind: ToolError::Failed, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_carries_the_id_of_its_request() {
        let request = ToolRequest { id: 7, name: "add".into(), arguments: "{}".into() };
        assert_eq!(request.returns("1"), ToolAnswer { id: 7, answer: Ok("1".into()) });
        let failure = CallFailure { kind: ToolError::Failed, message: "no".into() };
        assert_eq!(request.fails("no"), ToolAnswer { id: 7, answer: Err(failure) });
    }
}
