//! Guests: instances of an interpreter, their memory, and calls into them.
//!
//! * [`instantiate`]: creates a guest from a template, with its WASI imports; [`recycled`] takes a used one instead,
//!   and has the native stacks, the store data of a guest, and why a call ended.
//! * [`machine`]: the guest as its driver sees it; [`function`]: calls.
//! * [`fuel`]: the fuel that a guest's code counts.
//! * [`private_pages`]: which pages of memory a guest has written to.

pub(crate) mod fuel;
pub(crate) mod function;
pub(crate) mod instantiate;
pub(crate) mod machine;
pub(crate) mod private_pages;
pub(crate) mod recycled;

pub(crate) use instantiate::{Guest, fresh, instantiate, instantiate_idle, one_shot};
