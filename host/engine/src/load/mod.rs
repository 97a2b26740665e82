//! Runtimes: from a name to compiled code that is ready to run.
//!
//! * [`catalog`]: the known runtimes; [`resolve`]: finds and loads one; [`runtime`]: the result.
//! * [`prepare`], [`prepared_module`], [`images`]: boots an interpreter once and stores its memory.
//! * [`aot`], [`cache`], [`compile`]: compiled code and its cache.
//! * [`packages`]: the files that scripts import; [`typescript`]: scripts in TypeScript.

pub(crate) mod aot;
pub(crate) mod cache;
pub(crate) mod catalog;
pub(crate) mod compile;
pub(crate) mod images;
pub(crate) mod packages;
pub(crate) mod prepare;
pub(crate) mod prepared_module;
pub(crate) mod resolve;
pub(crate) mod runtime;
pub(crate) mod typescript;
