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

/// How many handlers of one tool may be abandoned and still run. A tool that hangs is soon refused, while the others work.
const MAX_ABANDONED: usize = 64;

/// The name that scripts' requests to the network are called by, and written down under. No tool can have it.
pub(crate) const NETWORK_TOOL: &str = "network.fetch";

/// What answers calls of [`NETWORK_TOOL`].
pub(crate) struct ReservedTool {
    pub(crate) answerer: TextHandler,
    /// The most bytes of a call's arguments, and of its result.
    pub(crate) max_bytes: u64,
    /// The most calls of one execution.
    pub(crate) max_calls: u64,
}

/// The tools of a sandbox, by name, and their catalogue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Toolbox {
    tools: Toolset<Arc<Entry>>,
    /// What performs scripts' requests to the network, where the policy lets them have it.
    network: Option<Arc<Entry>>,
    /// What is held while somebody has these tools.
    _keeps: Option<Arc<dyn fmt::Debug + Send + Sync>>,
    abandoned: Arc<Abandoned>,
}

/// One tool, ready to be called.
pub(crate) struct Entry {
    pub(super) answerer: Answerer,
    pub(super) checked: Checked,
    /// The most bytes of arguments and of a result, where `limits.tool_bytes` does not say it.
    pub(super) max_bytes: Option<u64>,
    /// The most calls of one execution, beside those of all tools.
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

/// Whether scripts can have these tools: each can be one, no two have the same name, and their descriptions and schemas are not too long
/// together. A sandbox is built with no others.
///
/// # Errors
/// The first that cannot be.
pub fn check_tools(tools: &[Tool]) -> Result<(), ToolDefinitionError> {
    Toolbox::new(tools).map(drop)
}

impl Toolbox {
    /// Checks the tools and compiles their schemas.
    pub(crate) fn new(tools: &[Tool]) -> Result<Self, ToolDefinitionError> {
        Self::default().with(tools)
    }

    /// The same with more tools. Those that are there already are the same in both: what was given up in one counts in the other.
    pub(crate) fn with(&self, tools: &[Tool]) -> Result<Self, ToolDefinitionError> {
        let mut toolbox = self.clone();
        for tool in tools {
            toolbox.add(tool)?;
        }
        toolbox.tools.check()?;
        Ok(toolbox)
    }

    /// Keeps something for as long as somebody has these tools.
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

    /// The same with what performs scripts' requests to the network. It is none of `tools`: its name cannot be written there.
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

    /// What a name means that is none of scripts' tools.
    pub(super) fn reserved(&self, name: &str) -> Option<Arc<Entry>> {
        self.network.clone().filter(|_| name == NETWORK_TOOL)
    }

    pub(super) fn tools(&self) -> &Toolset<Arc<Entry>> {
        &self.tools
    }

    /// The calls that were given up and still run.
    pub(super) fn abandoned(&self) -> &Arc<Abandoned> {
        &self.abandoned
    }
}

impl Entry {
    /// Refuses a call while too many earlier ones did not come back.
    pub(super) fn admit(&self, name: &str) -> Result<(), Failure> {
        if self.abandoned.load(Ordering::SeqCst) < MAX_ABANDONED {
            return Ok(());
        }
        let message = format!("{MAX_ABANDONED} calls of `{name}` were given up and still run; try again later");
        Err(Failure::new(ToolErrorKind::Limit, message))
    }

    pub(super) fn abandoned(&self) -> &AtomicUsize {
        &self.abandoned
    }
}
