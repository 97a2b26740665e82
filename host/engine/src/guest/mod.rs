//! Guests: instances of an interpreter, their memory, and calls into them.
//!
//! * [`instantiate`]: creates a guest from a template, with its WASI imports.
//! * [`recycled`]: reuses idle instances. Also defines the native stacks, a guest's store data and the reasons why a
//!   call ended.
//! * [`machine`]: the driver's view of a guest. [`function`]: calls to guest functions.
//! * [`fuel`]: the fuel counter of metered code.
//! * [`private_pages`]: finds the memory pages that a guest has written.

pub(crate) mod fuel;
pub(crate) mod function;
pub(crate) mod instantiate;
pub(crate) mod machine;
pub(crate) mod private_pages;
pub(crate) mod recycled;

pub(crate) use instantiate::{Guest, NewGuest, instantiate, instantiate_idle, new_guest, one_shot};
