//! The declarative part of preparing a binary.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Digest;

/// The driver that boots, parks and calls an interpreter. Its code contains the parts that a recipe cannot declare: the
/// boot script, arguments, environment, stack sizes and the sequence of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriverKind {
    /// CPython as a WASI command.
    Cpython,
    /// CPython as a WASI reactor. Its `name` section gives the functions of the C API.
    CpythonReactor,
    /// QuickJS-NG as a WASI reactor.
    QuickjsReactor,
    /// QuickJS-NG as a WASI command. Its `name` section gives the functions of the C API.
    QuickjsCommand,
}

impl DriverKind {
    /// Returns the name in recipes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cpython => "cpython",
            Self::CpythonReactor => "cpython-reactor",
            Self::QuickjsReactor => "quickjs-reactor",
            Self::QuickjsCommand => "quickjs-command",
        }
    }
}

/// A function that is added to a module as a callback for its interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Callback {
    /// `int32_t f(void *, const int32_t *word) { return *word; }`. The host sets the word to interrupt the interpreter.
    LoadWord,
    /// `JSValue f(JSContext *, JSValue promise, int magic)`. Returns the state of a promise if `magic` is zero,
    /// otherwise its result. The recipe must export `JS_PromiseState` and `JS_PromiseResult`.
    ReadPromise,
}

/// Identifies a function of a binary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FunctionId {
    /// Name in the `name` section.
    Name(String),
    /// Index, for binaries without a `name` section.
    Index(u32),
}

impl FunctionId {
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Index(_) => None,
        }
    }
}

/// Exports of the prepared module, in addition to those of the binary, and changes to its functions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportList {
    /// Functions to export, by name in the binary's `name` section.
    #[serde(default)]
    pub functions: Vec<String>,
    /// Functions to export whose name is ambiguous in the binary: export name to index.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub indices: BTreeMap<String, u32>,
    /// Functions, by name in the `name` section, that each reserve a little of the C stack, so that the interpreter's
    /// recursion check counts their calls. Requires the global `__stack_pointer` in `globals`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub framed: Vec<String>,
    /// wasi-libc's `__wasilibc_find_relpath_alloc`. It is changed to leave an empty path empty instead of replacing it
    /// by `.`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_finder: Option<FunctionId>,
    /// Gives numpy a default integer of 64 bits. This works for the code of one binary; any other is rejected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wide_integers: bool,
    /// Globals to export: export name to index.
    #[serde(default)]
    pub globals: BTreeMap<String, u32>,
    /// Tables to export: export name to index.
    #[serde(default)]
    pub tables: BTreeMap<String, u32>,
    /// Functions to add. The key is the export name of a new global that holds the function's slot in table 0.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub callbacks: BTreeMap<String, Callback>,
}

/// Preparation of one kind of binary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Driver that boots and calls the binary.
    pub driver: DriverKind,
    /// Additional exports and changed functions.
    #[serde(default)]
    pub exports: ExportList,
}

impl Recipe {
    /// Returns a digest for cache keys, which differs for different recipes.
    pub fn digest(&self) -> Digest {
        // Serialising plain data with sorted maps cannot fail and is deterministic.
        let text = serde_json::to_vec(self).unwrap_or_default();
        Digest::of(&text)
    }
}
