//! Tools that Python answers.

use glovebox::{Tool, ToolError};
use pyo3::{prelude::*, pybacked::PyBackedStr};

use crate::{error::IntoException, token::PyCancelToken};

/// A tool: name, description, schema as JSON text, and a function. The function receives the arguments as JSON text and
/// the call's token, and returns `(True, result as JSON text)` or `(False, message)`.
#[derive(FromPyObject)]
pub(crate) struct ToolInput(String, String, String, Py<PyAny>);

impl ToolInput {
    pub(crate) fn tool(self) -> PyResult<Tool> {
        let Self(name, description, schema, answer) = self;
        let schema = serde_json::from_str(&schema).map_err(IntoException::exception)?;
        let handler = move |call: &glovebox::ToolCall, arguments: String| {
            let answered = Python::try_attach(|py| {
                let token = PyCancelToken(call.cancel.clone());
                let (is_ok, text) = answer.call1(py, (arguments, token))?.extract::<(bool, PyBackedStr)>(py)?;
                Ok(if is_ok { Ok(text.to_string()) } else { Err(ToolError::new(&*text)) })
            });
            match answered {
                Some(Ok(answer)) => answer,
                Some(Err(error)) => Err(raised(&error)),
                None => Err(ToolError::new("the program is ending")),
            }
        };
        Ok(Tool::new(name, description).schema(schema).text_handler(handler))
    }
}

/// Converts an exception from Python's side of a call. Only a `BaseException` such as `SystemExit` gets here.
fn raised(error: &PyErr) -> ToolError {
    ToolError::new(Python::attach(|py| error.value(py).to_string()))
}
