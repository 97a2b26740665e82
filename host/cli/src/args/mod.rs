//! Flags that several subcommands share.

#[cfg(feature = "full")]
mod component;
pub(crate) mod global;
mod network;
mod policy;
mod source;
mod store;

#[cfg(feature = "full")]
pub(crate) use component::{AppArgs, CompileArgs, QuotaArgs, ToolsArgs};
pub(crate) use global::{GlobalArgs, LogFormat};
#[cfg(feature = "full")]
pub(crate) use policy::GrantArgs;
pub(crate) use policy::PolicyArgs;
pub(crate) use source::ContextArgs;
pub(crate) use source::ProgramArgs;
pub(crate) use source::{LanguageArg, RuntimeArgs, SourceArgs};
pub(crate) use store::{ActivateArgs, StoreArgs};
