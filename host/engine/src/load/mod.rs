//! Loads runtimes: turns a name into compiled code that is ready to run.
//!
//! * [`catalog`]: lists and manages runtimes. [`resolve`]: finds and loads a runtime. [`runtime`]: a loaded runtime and
//!   the packages for its scripts.
//! * [`prepare`]: boots an interpreter once and saves its memory. [`images`]: custom images.
//! * [`aot`], [`compile`] and [`parts`]: compiled code. [`prepare`] manages its cache.
//! * [`typescript`]: removes the types of TypeScript scripts.

pub(crate) mod aot;
pub(crate) mod catalog;
pub(crate) mod compile;
pub(crate) mod images;
pub(crate) mod parts;
pub(crate) mod prepare;
pub(crate) mod resolve;
pub(crate) mod runtime;
pub(crate) mod typescript;
