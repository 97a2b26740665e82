//! Flags that several subcommands share.

mod policy;
pub(crate) mod quantity;
mod source;
mod store;

pub(crate) use policy::PolicyArgs;
pub(crate) use source::{RuntimeArgs, SourceArgs};
pub(crate) use store::{StoreArgs, WakeArgs};
