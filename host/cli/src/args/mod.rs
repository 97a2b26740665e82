//! Flags that several subcommands share.

mod application;
mod policy;
pub(crate) mod quantity;
mod source;
mod store;

pub(crate) use application::{AppArgs, CompileArgs, QuotaArgs, ToolsArgs};
pub(crate) use policy::{GrantArgs, PolicyArgs};
pub(crate) use source::{RuntimeArgs, SourceArgs};
pub(crate) use store::{StoreArgs, WakeArgs};
