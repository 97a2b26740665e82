//! Host functions that scripts can call.
//!
//! A guest writes calls to a device and reads replies from it. Several calls can run concurrently, each on its own
//! thread, while the guest's thread only starts them and waits. As an exception, short arguments of calls that the
//! caller answers are checked on the guest's thread. Messages from the guest are untrusted JSON text: their sizes,
//! number and structure are checked before a handler receives them. `glovebox-core` implements the checks and the
//! records of calls.
//!
//! | file | content |
//! |---|---|
//! | `toolbox` | [`Tool`], which the embedder defines; [`ToolCall`], which its handler receives; the tools of a sandbox, their compiled schemas, and the catalogue for guests |
//! | `runner` | the calls of one execution, and calls that no script made |
//! | `call_status` | the status of a call, and of the guest's wait for the caller |
//! | `pending` | calls that the caller of a started execution answers |
//! | `abandoned` | limits on the memory of abandoned calls |
//! | `relay` | tools for scripts that run in another process, and the memory for the data of one call |
//! | `stubs` | typed declarations of tools, for editors, type checkers and models |
//! | `tool_policy` | [`ToolPolicy`], the policy's restrictions on one tool; the checks of calls against them |

mod abandoned;
mod call_status;
mod pending;
mod relay;
mod runner;
mod stubs;
mod tool_policy;
mod toolbox;

#[cfg(test)]
mod tests;

pub use glovebox_core::tools::{
    ReservedMemory, ToolDefinitionError, ToolError, ToolErrorKind, ToolMemory, ToolOutcome, ToolRecord, weight,
};
pub(crate) use pending::{PendingCalls, Progress};
pub use relay::{CallMemory, CallMemoryError, MemoryBudget, RelayedCall, ToolDefinition};
pub use runner::DirectCall;
pub(crate) use runner::{ThreadRunner, ToolThreads};
pub(crate) use stubs::is_python_keyword;
pub use stubs::tool_stubs;
pub use tool_policy::{Approve, ToolPolicy, ToolRules};
pub(crate) use toolbox::TextHandler;
pub use toolbox::{NETWORK_TOOL, Tool, ToolCall, Toolbox, check_tools};
