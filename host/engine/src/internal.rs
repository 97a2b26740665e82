//! The parts of the engine that only other crates of Glovebox use, such as `glovebox-component-host`.
//!
//! This module and the methods of public types that are marked `#[doc(hidden)]` are not part of the public API. They
//! change without notice.

use std::{io, sync::Arc};

use serde::Serialize;

use crate::{Engine, Language, ToolError, ToolErrorKind, load::resolve::language};

pub use glovebox_runtimes::Digest;

pub use crate::{
    exec::{
        platform::{Budget, CallToken, SessionScope, random_id},
        suspend::StateBefore,
        thread_pool::{Job, ThreadPool, run_caught},
    },
    tools::{DirectCall, ToolRules, Toolbox},
};

/// A writer that counts bytes and drops them.
#[derive(Debug, Default)]
pub struct ByteCount(pub usize);

impl io::Write for ByteCount {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the length in bytes of a value serialized as JSON. Fails if the value cannot be serialized.
pub fn json_len(value: &impl Serialize) -> serde_json::Result<usize> {
    let mut count = ByteCount::default();
    serde_json::to_writer(&mut count, value)?;
    Ok(count.0)
}

/// Converts the answer that a package of another language passes to a tool call. `text` is the result as JSON text if
/// `kind` is `returned`, and the message of the failure if `kind` is `denied` or `failed`.
pub fn tool_answer(kind: &str, text: String) -> Result<String, ToolError> {
    match kind {
        "returned" => Ok(text),
        "denied" => Err(ToolError::of(ToolErrorKind::Denied, text)),
        _ => Err(ToolError::new(text)),
    }
}

/// Returns the threads for calls of components.
pub fn call_threads(engine: &Engine) -> &Arc<ThreadPool> {
    &engine.0.call_threads
}

/// A runtime that components can request by name.
#[derive(Clone, Copy, Debug)]
pub struct OfferedRuntime<'a> {
    /// The name of the runtime.
    pub name: &'a str,
    /// The language of the runtime.
    pub language: Language,
    /// The version of the interpreter.
    pub version: &'a str,
}

/// Returns the runtimes that components can request by name, those that a language uses by default first. Unlike
/// [`Engine::runtimes`], does not look into the cache.
pub fn offered_runtimes(engine: &Engine) -> Vec<OfferedRuntime<'_>> {
    let entries = engine.0.runtimes.manifest().runtimes().iter();
    let mut entries: Vec<_> = entries.filter(|entry| engine.0.is_offered(entry)).collect();
    entries.sort_by_key(|entry| !engine.0.is_preferred(entry));
    let offered = entries.into_iter().map(|entry| OfferedRuntime {
        name: &entry.name,
        language: language(entry.language),
        version: &entry.version,
    });
    offered.collect()
}

/// Returns the name of the runtime in the manifest that has this name or alias.
pub fn runtime_name<'a>(engine: &'a Engine, name: &str) -> Option<&'a str> {
    Some(&engine.0.runtimes.manifest().find(name).ok()?.name)
}
