//! Declarations of the scripts' globals, which the checker does not know.

use std::collections::BTreeSet;

use anyhow::Context as _;
use glovebox::{Language, tool_stubs};
use glovebox_server::TypedScript;

use super::variables;

/// The beginning of the declarations if a script's tools are unknown.
const NO_TOOLS: &str = "from typing import Any\n\n";

/// The declaration of `tools` if a script's tools are unknown.
const UNKNOWN_TOOLS: &str = "tools: Any\n";

/// The names and declarations of all globals except `tools`. Some of them exist only in certain executions: `context`
/// if the request has a value for it, `_` in sessions, and `_state` with `auto_persist_globals`.
const GLOBALS: [(&str, &str); 8] = [
    ("chunk_text", "def chunk_text(text: str, size: int, overlap: int = 0) -> list[str]: ...\n"),
    ("search_context", "def search_context(pattern: Any, window: int = 100) -> list[dict[str, Any]]: ...\n"),
    ("display", "def display(*values: Any, **options: Any) -> None: ...\n"),
    ("llm_query", "llm_query: Any\n"),
    ("rlm_query", "rlm_query: Any\n"),
    ("context", "context: Any\n"),
    ("_", "_: Any\n"),
    ("_state", "_state: dict[str, Any]\n"),
];

/// Returns the source text of the declarations. The checker adds the declared names to Python's builtins. If the tools
/// are unknown, the global `tools` has type `Any`. A variable of the session replaces a global of the same name.
pub(super) fn source(script: &TypedScript<'_>) -> anyhow::Result<String> {
    let variables = script.variables.unwrap_or_default();
    let names: BTreeSet<&str> = variables.iter().map(|variable| variable.name.as_str()).collect();
    let mut text = match script.tools {
        _ if names.contains("tools") => NO_TOOLS.to_owned(),
        None => [NO_TOOLS, UNKNOWN_TOOLS].concat(),
        Some(tools) => tool_stubs(tools, Language::Python).context("cannot declare the tools")?,
    };
    for (_, declaration) in GLOBALS.iter().filter(|(name, _)| !names.contains(name)) {
        text.push_str(declaration);
    }
    text.push_str(&variables::declarations(variables, script.source));
    Ok(text)
}
