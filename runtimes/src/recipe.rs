//! How a binary is prepared: the declarative part.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Digest;

/// The driver that boots, parks and calls an interpreter. Its code contains what cannot be declared: the boot script,
/// arguments and environment, the stacks' sizes and the sequence of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriverKind {
    /// CPython as a WASI command.
    Cpython,
    /// CPython as a WASI reactor, entered through the C API that its `name` section names.
    CpythonReactor,
    /// QuickJS-NG as a WASI reactor.
    QuickjsReactor,
    /// QuickJS-NG as a WASI command, entered through the C API that its `name` section names.
    QuickjsCommand,
}

impl DriverKind {
    /// Its name in recipes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cpython => "cpython",
            Self::CpythonReactor => "cpython-reactor",
            Self::QuickjsReactor => "quickjs-reactor",
            Self::QuickjsCommand => "quickjs-command",
        }
    }
}

/// A function that is added to a module, for its interpreter to call back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Callback {
    /// `int32_t f(void *, const int32_t *word) { return *word; }`: tells whether the host has set a word.
    LoadWord,
    /// `JSValue f(JSContext *, JSValue promise, int magic)`: the state of a promise if `magic` is zero, otherwise its result. The
    /// recipe must export `JS_PromiseState` and `JS_PromiseResult`.
    ReadPromise,
}

/// A function of a binary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FunctionId {
    /// By its name in the `name` section.
    Name(String),
    /// By its index, in a binary without a `name` section.
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

/// The exports of the prepared module, in addition to the binary's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportList {
    /// Functions, by their name in the binary's `name` section, exported under that name.
    #[serde(default)]
    pub functions: Vec<String>,
    /// Functions whose name the binary gives to several: export name to index.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub indices: BTreeMap<String, u32>,
    /// Functions, by their name in the `name` section, that take a little of the C stack in each call, so that the interpreter counts
    /// them. For this the global `__stack_pointer` must be named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub framed: Vec<String>,
    /// wasi-libc's `__wasilibc_find_relpath_alloc`, which then leaves an empty path empty instead of making `.` of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_finder: Option<FunctionId>,
    /// Gives numpy a default integer of 64 bits. The rewriter knows the code of one binary and refuses any other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wide_integers: bool,
    /// Globals: export name to index.
    #[serde(default)]
    pub globals: BTreeMap<String, u32>,
    /// Tables: export name to index.
    #[serde(default)]
    pub tables: BTreeMap<String, u32>,
    /// Functions to add, each under the export name of a new global that holds its slot in table 0.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub callbacks: BTreeMap<String, Callback>,
}

/// How one kind of binary is prepared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// The driver that boots and calls it.
    pub driver: DriverKind,
    /// What is exported in addition.
    #[serde(default)]
    pub exports: ExportList,
}

impl Recipe {
    /// The recipe's identity in cache keys: any change of the recipe changes it.
    pub fn digest(&self) -> Digest {
        // Serialising plain data with sorted maps neither fails nor varies.
        let text = serde_json::to_vec(self).unwrap_or_default();
        Digest::of(&text)
    }
}
