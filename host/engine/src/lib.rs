//! Runs untrusted Python and JavaScript inside WebAssembly, in well under a millisecond, with limits that hold.
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
//! The types to know:
//!
//! * [`Engine`]: what all sandboxes of a program share. One per program.
//! * [`Sandbox`]: a runtime and a [`Policy`]; each execution is a new interpreter.
//! * [`Session`]: an interpreter that persists between executions. [`Session::hibernate`] makes bytes of it, and
//!   [`Sandbox::resume`] a session of them.
//! * [`Sessions`]: many of them over a [`SessionStore`], such as a [`DirectoryStore`], live while they are used.
//! * [`SessionPolicy`]: when a session saves its state, and what becomes of it when its guest is unwound.
//! * [`SharedWorkspace`]: files that several sessions have in common.
//! * [`Files`], [`SessionFiles`]: the workspace of an execution or a session, from outside.
//! * [`Request`]: a script, its name, its standard input, a [`CancelToken`], a listener for its output.
//! * [`Tool`]: a function of the host that scripts may call.
//! * [`Started`]: an execution that the caller steps through, to answer its tools itself or to read its output as it comes.
//! * [`Execution`]: what it did ([`Outcome`]), wrote, used and changed.
//!
//! An *outcome* is what the guest did: it completed, exited, raised, ran out of something. An *error* is ours or the
//! caller's. They never mix: a script that raises is an `Ok(Execution)`.
//!
//! # Features
//!
//! All but `network` and `object-store` are on by default. A build without one has none of its code, and says so where it would be needed:
//!
//! * `component`: module [`component`](mod@component), [`compile()`]. Without it Wasmtime is built without components.
//! * `network`: [`Policy::network`]. Without it a policy that allows addresses is [`PolicyError::Network`].
//! * `object-store`: [`ObjectStore`], [`BlobStore`].
//! * `packages`: [`Packages::Bundled`] and [`EngineConfig::own_packages`]. Without it [`Packages::None`] is the default, and
//!   anything else [`EngineError::NotBuilt`].
//! * `store`: [`Sessions`], [`SessionStore`], [`DirectoryStore`].
//! * `typescript`: scripts named `.ts`, `.mts` or `.cts`. Without it they are [`ExecuteError::TypeScript`].
//!
//! # What it does not protect against
//!
//! * Flaws in Wasmtime's sandbox or in the CPU (speculative execution): run strangers' code in a process of its own
//!   where that matters.
//! * A script that lies in its own output, or damages its own interpreter: it only deceives whoever believes it.
//! * Hibernated bytes that somebody else wrote, without a [`SessionKey`]: resuming them is running their code, within your limits.
//! * Whoever can write to the cache directory as this user: compiled code is run as it is found there.

#![cfg_attr(
    not(all(feature = "component", feature = "packages", feature = "store", feature = "typescript")),
    allow(dead_code, unused_imports, reason = "what only a feature uses stays where it belongs")
)]

/// The Rust of these pages is compiled and run with the documentation's tests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    mod readme {}
    #[cfg(feature = "network")]
    #[doc = include_str!("../../../docs/network.md")]
    mod network {}
    #[doc = include_str!("../../../docs/sessions.md")]
    mod sessions {}
    #[doc = include_str!("../../../docs/tools.md")]
    mod tools {}
}

mod aot;
mod budget;
mod cache;
mod cancel;
mod catalog;
#[cfg(feature = "component")]
mod compile;
#[cfg(feature = "component")]
pub mod component;
mod config;
mod displays;
mod engine;
mod entropy;
mod error;
mod escaped_json;
mod events;
mod execution;
mod files;
mod function;
mod guest;
mod hibernate;
mod images;
mod imports;
mod json_text;
mod library;
mod load;
mod machine;
#[cfg(feature = "store")]
mod manager;
pub mod mount;
mod network;
mod own_commits;
mod packages;
mod pagemap;
mod platform;
mod policy;
mod prepare;
mod prepared_module;
mod private_pages;
mod recycled;
mod request;
mod reuse;
mod run;
mod runtime;
mod sandbox;
mod session;
mod session_scope;
mod stack;
mod state;
mod stepping;
mod stopwatch;
#[cfg(feature = "store")]
mod store;
mod template;
mod ticker;
mod timestamp;
#[cfg(any(feature = "network", feature = "object-store"))]
mod tls;
mod tools;
mod translate;
mod trap;
mod typescript;
mod workspace;

pub use cache::{CachePrune, CachePruneReport, CachePruned, CacheUsage};
pub use cancel::{CancelToken, OnCancel};
pub use catalog::{PreparedInfo, RuntimeInfo, ToolInfo};
#[cfg(feature = "component")]
pub use compile::{CompileError, ComponentCache, compile, compile_with};
pub use config::{CacheLimits, EngineConfig, Packages, PoolConfig};
pub use engine::Engine;
pub use error::{BuildError, EngineError, ExecuteError, RuntimeError, with_causes};
pub use escaped_json::EscapedJson;
pub use execution::Execution;
pub use files::{
    CopyReport, FileEntry, FilePage, Files, FilesError, IfExists, ListLimits, SessionFiles, check_pattern,
};
pub use glovebox_core::{
    Display, Form, GuestValue, Language, LimitError, Limits, Metadata, Metering, Outcome, Output, RaisedOutcome,
    Resource, TrapKind, UnknownLanguage, grant,
    guidance::{self, Advice, AdviceKind, Correction, FuelAnalysis, FuelStatus, Guidance},
    session::{
        CheckpointId, CheckpointInfo, Checkpoints, OnUnwind, Rollback, SessionInfo, SessionPolicy, SessionUsage,
    },
};
pub use glovebox_interpreters::{Diagnostic, SourceKind};
pub use glovebox_runtimes::{
    CacheKind, OwnPackage, OwnPackageError, OwnPackages, PackageEntry, PackageList, Progress, Quiet,
};
pub use glovebox_vfs::{
    Escaped, FileKind, SourceError, Untrusted, VfsError, escaped, escaped_text, is_control, is_hidden,
};
pub use glovebox_wasi::Stream;
pub use hibernate::{
    HibernateError, HibernateOptions, HibernatedInfo, KeyError, ResumeError, ResumeOptions, SessionKey,
};
pub use images::{BuiltImage, ImageBuilder, ImageFile, ImageInfo, ListedImage, SetupInfo};
pub use json_text::{JsonText, NotJson};
#[cfg(feature = "store")]
pub use manager::{
    ActiveSession, HibernateReport, IdleThread, ListedPage, ListedSession, NewSession, Save, SessionGuard, Sessions,
    SessionsBuilder, SessionsError, StorePolicy,
};
#[cfg(feature = "network")]
pub use network::{BeyondNetwork, UrlPatternError, UrlPatterns, is_public_address};
pub use network::{NetworkPolicy, SecretPolicy};
pub use policy::{Clock, Commit, Entropy, Mount, Policy, PolicyError};
pub use prepared_module::{PreparedLibrary, PreparedModule};
pub use request::{IfBusy, Request, SANDBOX_NAME};
pub use sandbox::{Sandbox, SandboxBuilder};
pub use session::{Session, SessionOptions, SharedWorkspace};
pub use stepping::{AdvanceError, Started, Step, ToolAnswer, ToolRequest};
#[cfg(feature = "object-store")]
pub use store::{BlobInfo, BlobPage, BlobStore, ObjectStore};
#[cfg(feature = "store")]
pub use store::{
    DirectoryStore, Expected, PageLimitError, PageRequest, Pages, Prune, PruneError, PruneReason, PruneReport,
    PruneSkip, Pruned, SessionId, SessionIdError, SessionLock, SessionRecord, SessionStore, SkipReason, StoreError,
    StoredEntry, StoredPage, StoredRecord, StoredSession, StoredVersion, block_on,
};
pub use timestamp::{Timestamp, TimestampError};
pub use tools::{
    Tool, ToolCall, ToolDefinitionError, ToolError, ToolErrorKind, ToolOutcome, ToolRecord, check_tools,
    weight as json_weight,
};
