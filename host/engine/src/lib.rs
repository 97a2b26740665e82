//! Runs untrusted Python and JavaScript inside WebAssembly, in well under a millisecond, with enforced limits.
//!
//! ```no_run
//! use glovebox::{Engine, EngineConfig, Language, Sandbox};
//!
//! let engine = Engine::new(EngineConfig::default())?;
//! let python = Sandbox::builder(&engine).build()?;
//! let javascript = Sandbox::builder(&engine).language(Language::JavaScript).build()?;
//! assert_eq!(python.execute("print(6 * 7)")?.stdout.text(), "42\n");
//! assert_eq!(javascript.execute("console.log(6 * 7)")?.stdout.text(), "42\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The main types:
//!
//! * [`Engine`]: the state that all sandboxes of a program share. Create one per program.
//! * [`Sandbox`]: a runtime and a [`Policy`]. Each execution uses a new interpreter.
//! * [`Session`]: an interpreter that persists between executions. [`Session::hibernate`] saves its state as bytes,
//!   from which [`Sandbox::resume`] opens a session. The `glovebox-sessions` crate stores many sessions.
//! * [`SessionPolicy`]: the checkpoints of a session, and its recovery after its guest was unwound.
//! * [`SharedWorkspace`]: files that several sessions share.
//! * [`Files`], [`SessionFiles`]: the workspace of an execution or a session, for the embedder.
//! * [`Request`]: a script with its name, its standard input, a [`CancelToken`] and a listener for its output.
//! * [`Tool`]: a host function that scripts may call. [`ToolPolicy`]: a policy's restrictions on one tool.
//! * [`Started`]: an execution that the caller steps through, to answer its tool calls or to stream its output.
//!   [`PendingToolCalls`] is for callers with their own threads.
//! * [`Suspended`]: an execution that waits for answers, and can be stored and resumed later. [`Suspended::fork`]
//!   resumes it several times, to continue with different answers.
//! * [`Execution`]: the result of a script: its [`Outcome`], its output, its resource usage and its file changes.
//! * [`Recording`]: a finished execution that can be repeated to compare the results.
//!
//! An *outcome* describes the guest: it completed, exited, raised an exception, exhausted a limit, trapped or was
//! cancelled. An *error* comes from Glovebox or from the caller. Outcomes and errors never mix: a script that raises is
//! an `Ok(Execution)`.
//!
//! # Network
//!
//! Scripts have no network access unless [`Policy::network`] allows addresses. A policy that allows addresses requires
//! [`EngineConfig::network`]. Otherwise, building a sandbox fails with [`PolicyError::Network`].
//!
//! # Threats out of scope
//!
//! Glovebox does not protect against:
//!
//! * Flaws in Wasmtime's sandbox or in the CPU (speculative execution). If such flaws are a risk for you, run untrusted
//!   code in a separate process.
//! * Scripts that print false output or damage their own interpreter. They deceive only readers who trust the output.
//! * Untrusted hibernated bytes that are resumed without a [`SessionKey`]. The code in the bytes runs within your
//!   limits.
//! * Other programs of the same user that write to the cache directory. Compiled code in the cache runs as native code.

pub use config::{CacheLimits, EngineConfig, Packages, PoolConfig};
pub use engine::Engine;
pub use error::{BuildError, EngineError, ExecuteError, RuntimeError, with_causes};
pub use exec::{
    cancel::{CancelToken, OnCancel},
    execution::Execution,
    request::{IfBusy, Request, SANDBOX_NAME},
    stepping::{AdvanceError, PendingToolCalls, Started, Step, ToolAnswer, ToolRequest},
    suspend::recording::{RecordError, Recording, RecordingBytesError},
    suspend::{Fork, ForkError, SuspendError, Suspended, SuspendedBytesError, UncheckedSuspended},
    timestamp::{Timestamp, TimestampError},
};
pub use files::{
    CopyReport, FileEntry, FileError, FilePage, Files, FilesError, IfExists, ListLimits, SessionFiles, check_pattern,
};
pub use glovebox_core::{
    Display, Form, GuestValue, Language, LimitError, Limits, Metadata, Metering, Outcome, Output, RaisedOutcome,
    RequestError, Resource, TrapKind, UnknownLanguage, grant,
    guidance::{self, Advice, AdviceKind, Correction, FuelAnalysis, FuelStatus, Guidance},
    journal::SuspendRefusal,
    session::{
        CheckpointId, CheckpointInfo, Checkpoints, OnUnwind, Rollback, SessionInfo, SessionPolicy, SessionUsage,
    },
};
pub use glovebox_interpreters::{Diagnostic, SourceKind};
pub use glovebox_runtimes::{
    CacheKind, NoProgress as Quiet, PackageEntry, PackageList, Progress, UserPackage, UserPackageError, UserPackages,
};
pub use glovebox_vfs::{
    Escaped, FileKind, SourceError, Untrusted, VfsError, escaped, escaped_text, is_control, is_hidden,
};
pub use glovebox_wasi::Stream;
pub use json::{EscapedJson, JsonText, NotJson};
pub use load::{
    catalog::{PreparedInfo, RuntimeInfo, ToolInfo},
    compile::{CompileError, ComponentCache, PreparedLibrary, PreparedModule, compile, compile_with},
    images::{BuiltImage, ImageBuilder, ImageFile, ImageInfo, ListedImage, SetupInfo},
    prepare::{CachePrune, CachePruneReport, CachePruned, CacheUsage},
};
pub use network::{
    AddressRules, Network, NetworkExcess, NetworkPolicy, OpenNetwork, SecretPolicy, UrlPatternError, UrlPatterns,
    is_public_address,
};
pub use policy::{Clock, Commit, Entropy, Mount, Policy, PolicyError};
pub use sandbox::{Sandbox, SandboxBuilder};
pub use session::{
    ClassDescription, FunctionSignature, KeywordParameter, MethodDescription, Session, SessionOptions, SessionVariable,
    SharedWorkspace, VariableKind,
    hibernate::{
        HibernateError, HibernateOptions, HibernatedInfo, HibernatedSession, KeyError, ResumeError, ResumeOptions,
        SessionKey,
    },
};
pub use tools::{
    Approve, CallMemory, CallMemoryError, MemoryBudget, NETWORK_TOOL, RelayedCall, ReservedMemory, Tool, ToolCall,
    ToolDefinition, ToolDefinitionError, ToolError, ToolErrorKind, ToolMemory, ToolOutcome, ToolPolicy, ToolRecord,
    check_tools, tool_stubs, weight as json_weight,
};

/// Tests the Rust examples of the README and of some docs pages as doc tests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    mod readme {}
    #[doc = include_str!("../../../docs/every-way.md")]
    mod every_way {}
    #[doc = include_str!("../../../docs/sessions.md")]
    mod sessions {}
    #[doc = include_str!("../../../docs/tools.md")]
    mod tools {}
    #[doc = include_str!("../../../docs/approvals.md")]
    mod approvals {}
    #[doc = include_str!("../../../docs/forks.md")]
    mod forks {}
    #[doc = include_str!("../../../docs/recordings.md")]
    mod recordings {}
}

mod config;
mod engine;
mod error;
mod exec;
mod files;
mod guest;
#[doc(hidden)]
pub mod internal;
mod json;
mod load;
pub mod mount;
mod network;
mod policy;
mod sandbox;
mod session;
mod tools;
