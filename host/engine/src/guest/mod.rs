//! Guests: instances of an interpreter, their memory, and calls into them.
//!
//! * [`instantiate`]: creates a guest from a template; [`recycled`] takes a used one instead, and has the native stacks.
//! * [`machine`]: the guest as its driver sees it; [`function`]: calls; [`imports`]: WASI.
//! * [`private_pages`]: which pages of memory a guest has written to.
//! * [`state`]: the store data of a guest, and why a call ended.

pub(crate) mod function;
pub(crate) mod imports;
pub(crate) mod instantiate;
pub(crate) mod machine;
pub(crate) mod private_pages;
pub(crate) mod recycled;
pub(crate) mod state;

pub(crate) use instantiate::{Guest, fresh, instantiate, instantiate_idle, one_shot};
