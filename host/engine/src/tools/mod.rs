//! Functions of the host that scripts may call.
//!
//! A guest writes calls to a device and reads replies from it; several run at once, each on a thread of its own, and the
//! guest's thread does nothing but start them and wait. What crosses the boundary is JSON text, and all of it is the
//! guest's word: sizes, counts and shapes are checked before a handler sees it. That part, and what is written down of calls, is
//! `glovebox-core`'s.
//!
//! | file | what it is |
//! |---|---|
//! | `tool` | [`Tool`], as the embedder describes it; [`ToolCall`], as its handler gets it |
//! | `toolbox` | the tools of a sandbox, their schemas compiled, and the catalogue that guests read |
//! | `runner` | the calls of one execution, on threads of their own |
//! | `completions` | where threads put what a handler answered |
//! | `abandoned` | what calls that were given up still hold |
//! | `worker` | one call on its thread |
//! | `call_status` | whether anybody waits for its answer |
//! | `pending` | calls that whoever steps through the execution answers |
//! | `wait_tracker` | when the guest waits for them |
//! | `direct` | a call that no script makes |

mod abandoned;
mod call_status;
mod completions;
mod direct;
mod pending;
mod runner;
mod tool;
mod toolbox;
mod wait_tracker;
mod worker;

#[cfg(test)]
mod tests;

pub(crate) use direct::DirectCall;
pub(crate) use glovebox_core::tools::{Account, Held, MAX_FOREIGN_PATTERN_BYTES};
pub use glovebox_core::tools::{ToolDefinitionError, ToolError, ToolErrorKind, ToolOutcome, ToolRecord, weight};
pub(crate) use pending::{CallerAnswer, OpenCall, PendingCalls, Progress};
pub(crate) use runner::ThreadRunner;
pub use tool::{Tool, ToolCall};
#[cfg(feature = "network")]
pub(crate) use toolbox::NETWORK_TOOL;
pub use toolbox::check_tools;
pub(crate) use toolbox::{ReservedTool, Toolbox};
pub(crate) use worker::ToolThreads;
