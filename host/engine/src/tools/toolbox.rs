//! The tools of a sandbox.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use glovebox_core::tools::{Checked, Definition, Failure, MAX_ENGINE_LEVELS, Toolset};
use serde_json::json;

use super::{
    Tool, ToolDefinitionError, ToolErrorKind,
    abandoned::Abandoned,
    tool::{Answerer, TextHandler},
};

/// Maximum number of abandoned calls of one tool that still run. A tool that hangs is soon refused, while the other
/// tools still work.
const MAX_ABANDONED: usize = 64;

/// Name of the tool for scripts' network requests, in calls and in records. Other tools cannot have this name.
pub(crate) const NETWORK_TOOL: &str = "network.fetch";

/// Handler and limits of [`NETWORK_TOOL`].
pub(crate) struct ReservedTool {
    pub(crate) answerer: TextHandler,
    /// Maximum size of a call's arguments, and of its result, in bytes.
    pub(crate) max_bytes: u64,
    /// Maximum number of calls of one execution.
    pub(crate) max_calls: u64,
}

/// The tools of a sandbox, by name, and their catalogue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Toolbox {
    tools: Toolset<Arc<Entry>>,
    /// Performs scripts' network requests, if the policy allows them.
    network: Option<Arc<Entry>>,
    /// A value that is held as long as these tools are.
    _keeps: Option<Arc<dyn fmt::Debug + Send + Sync>>,
    abandoned: Arc<Abandoned>,
}

/// A tool with its compiled schema and its limits.
pub(crate) struct Entry {
    pub(super) answerer: Answerer,
    pub(super) checked: Checked,
    /// Maximum size of arguments and of a result in bytes, in place of `limits.tool_bytes`.
    pub(super) max_bytes: Option<u64>,
    /// Maximum number of calls of one execution, in addition to the limit on all tools.
    pub(super) max_calls: Option<u64>,
    abandoned: AtomicUsize,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("checked", &self.checked).finish_non_exhaustive()
    }
}

impl AsRef<Checked> for Entry {
    fn as_ref(&self) -> &Checked {
        &self.checked
    }
}

/// Checks that scripts can use these tools: each is valid, no two have the same name, and their descriptions and
/// schemas together are not too long. Building a sandbox makes the same checks.
///
/// # Errors
/// Returns the error of the first invalid tool.
pub fn check_tools(tools: &[Tool]) -> Result<(), ToolDefinitionError> {
    Toolbox::new(tools).map(drop)
}

impl Toolbox {
    /// Checks the tools and compiles their schemas.
    pub(crate) fn new(tools: &[Tool]) -> Result<Self, ToolDefinitionError> {
        Self::default().with(tools)
    }

    /// Returns a toolbox with more tools. Both toolboxes share the existing tools: calls abandoned in one count in the
    /// other too.
    pub(crate) fn with(&self, tools: &[Tool]) -> Result<Self, ToolDefinitionError> {
        let mut toolbox = self.clone();
        for tool in tools {
            toolbox.add(tool)?;
        }
        toolbox.tools.check()?;
        Ok(toolbox)
    }

    /// Holds a value as long as these tools are held.
    pub(crate) fn keeping(self, it: impl fmt::Debug + Send + Sync + 'static) -> Self {
        Self { _keeps: Some(Arc::new(it)), ..self }
    }

    fn add(&mut self, tool: &Tool) -> Result<(), ToolDefinitionError> {
        let Tool { name, description, schema, is_foreign, .. } = tool;
        let max_levels = MAX_ENGINE_LEVELS;
        let definition = Definition { name, description, schema, is_foreign: *is_foreign, max_levels };
        definition.check_name()?;
        if self.tools.find(name).is_some() {
            return Err(ToolDefinitionError::Duplicate(name.clone()));
        }
        let Some(answerer) = tool.answerer.clone() else { return Err(ToolDefinitionError::NoHandler(name.clone())) };
        let checked = definition.check()?;
        let entry = Entry { answerer, checked, max_bytes: None, max_calls: None, abandoned: AtomicUsize::new(0) };
        self.tools.add(name, Arc::new(entry))
    }

    /// Returns a toolbox with the tool that performs scripts' network requests. It is not listed in `tools`, and
    /// scripts cannot call it by name there.
    pub(crate) fn with_network(&self, tool: ReservedTool) -> Result<Self, ToolDefinitionError> {
        let ReservedTool { answerer, max_bytes, max_calls } = tool;
        let schema = json!({ "type": "object" });
        let definition = Definition {
            name: "network",
            description: "",
            schema: &schema,
            is_foreign: false,
            max_levels: MAX_ENGINE_LEVELS,
        };
        let answerer = Answerer::TextHandler(answerer);
        let (max_bytes, max_calls, checked) = (Some(max_bytes), Some(max_calls), definition.check()?);
        let entry = Entry { answerer, checked, max_bytes, max_calls, abandoned: AtomicUsize::new(0) };
        Ok(Self { network: Some(Arc::new(entry)), ..self.clone() })
    }

    /// Returns the tool of a reserved name, which is not one of the scripts' tools.
    pub(super) fn reserved(&self, name: &str) -> Option<Arc<Entry>> {
        self.network.clone().filter(|_| name == NETWORK_TOOL)
    }

    pub(super) fn tools(&self) -> &Toolset<Arc<Entry>> {
        &self.tools
    }

    /// Returns the abandoned calls that still run.
    pub(super) fn abandoned(&self) -> &Arc<Abandoned> {
        &self.abandoned
    }
}

impl Entry {
    /// Fails if too many earlier calls of this tool were abandoned and still run.
    pub(super) fn admit(&self, name: &str) -> Result<(), Failure> {
        if self.abandoned.load(Ordering::SeqCst) < MAX_ABANDONED {
            return Ok(());
        }
        let message = format!("{MAX_ABANDONED} calls of `{name}` were abandoned and still run; try again later");
        Err(Failure::new(ToolErrorKind::Limit, message))
    }

    pub(super) fn abandoned(&self) -> &AtomicUsize {
        &self.abandoned
    }
}
