//! Guests: instances of an interpreter, their memory, and calls into them.
//!
//! * [`instantiate`]: creates a guest from a [`template`]; [`recycled`] and [`reuse`] take a used one instead.
//! * [`machine`]: the guest as its driver sees it; [`function`]: calls; [`imports`]: WASI; [`trap`]: why a call ended.
//! * [`private_pages`], [`pagemap`]: which pages of memory a guest has written to.
//! * [`stack`], [`state`]: the native stack and the store data of a guest.

pub(crate) mod function;
pub(crate) mod imports;
mod instantiate;
pub(crate) mod machine;
pub(crate) mod pagemap;
pub(crate) mod private_pages;
pub(crate) mod recycled;
pub(crate) mod reuse;
pub(crate) mod stack;
pub(crate) mod state;
pub(crate) mod template;
pub(crate) mod trap;

pub(crate) use instantiate::{Guest, fresh, instantiate, instantiate_idle, one_shot};
