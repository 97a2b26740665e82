//! Flags that several subcommands share.

#[cfg(feature = "full")]
mod component;
mod context;
mod global;
mod network;
mod policy;
pub(crate) mod quantity;
mod source;
mod store;
mod tool;

#[cfg(feature = "full")]
pub(crate) use component::{AppArgs, CompileArgs, QuotaArgs, ToolsArgs};
pub(crate) use context::ContextArgs;
pub(crate) use global::{GlobalArgs, LogFormat};
#[cfg(feature = "full")]
pub(crate) use policy::GrantArgs;
pub(crate) use policy::PolicyArgs;
pub(crate) use source::{LanguageArg, RuntimeArgs, SourceArgs};
pub(crate) use store::{ActivateArgs, StoreArgs};
pub(crate) use tool::ProgramArgs;
