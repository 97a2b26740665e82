//! Flags that several subcommands share.

mod policy;
mod quantity;
mod source;

pub(crate) use policy::PolicyArgs;
pub(crate) use source::{RuntimeArgs, SourceArgs};
