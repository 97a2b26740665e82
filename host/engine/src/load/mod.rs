//! Runtimes: from a name to compiled code that is ready to run.
//!
//! * [`catalog`]: the known runtimes; [`resolve`]: finds and loads one; [`runtime`]: the result, and the files that
//!   scripts import.
//! * [`prepare`], [`images`]: boots an interpreter once and stores its memory.
//! * [`aot`], [`compile`]: compiled code; [`prepare`] has its cache.
//! * [`typescript`]: scripts in TypeScript.

pub(crate) mod aot;
pub(crate) mod catalog;
pub(crate) mod compile;
pub(crate) mod images;
pub(crate) mod parts;
pub(crate) mod prepare;
pub(crate) mod resolve;
pub(crate) mod runtime;
pub(crate) mod typescript;
