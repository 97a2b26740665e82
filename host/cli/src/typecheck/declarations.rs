//! Declares the globals of scripts that the checker does not know.

use anyhow::Context as _;
use glovebox::{Language, Tool, tool_stubs};

/// Declares `tools` for scripts whose tools are unknown.
const UNKNOWN_TOOLS: &str = "from typing import Any\n\ntools: Any\n";

/// Declares the other globals. Some of them exist only in certain executions: `context` if the request has a value for
/// it, `_` in sessions, and `_state` with `auto_persist_globals`.
const GLOBALS: &str = "
def chunk_text(text: str, size: int, overlap: int = 0) -> list[str]: ...
def search_context(pattern: Any, window: int = 100) -> list[dict[str, Any]]: ...
def display(*values: Any, **options: Any) -> None: ...

llm_query: Any
rlm_query: Any
context: Any
_: Any
_state: dict[str, Any]
";

/// Returns the source text of the declarations. The checker adds its names to the builtin ones. Without `tools`, the
/// global `tools` has type `Any`.
pub(super) fn source(tools: Option<&[Tool]>) -> anyhow::Result<String> {
    let tools = match tools {
        None => UNKNOWN_TOOLS.to_owned(),
        Some(tools) => tool_stubs(tools, Language::Python).context("cannot declare the tools")?,
    };
    Ok(tools + GLOBALS)
}
