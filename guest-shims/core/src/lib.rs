//! What every backend has in common: limits, policies, outcomes, saved sessions, files, the protocol of tools.
//!
//! Knows no WebAssembly engine, no host files, no threads and no clock, so that the Rust engine and the provider component
//! are held to one meaning by one code.
