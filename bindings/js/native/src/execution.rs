//! What an execution did, for JavaScript.

use std::sync::Arc;

use glovebox::{Execution, FileEntry, FileKind};
use napi::bindgen_prelude::{BigInt, Buffer};
use napi_derive::napi;

/// A file's path, kind, size in bytes and time in nanoseconds.
#[napi(object, object_from_js = false)]
pub struct NativeEntry {
    /// The path.
    pub path: String,
    /// `file`, `directory` or `symlink`.
    pub kind: &'static str,
    /// The size.
    pub size_bytes: BigInt,
    /// When it was last written to.
    pub modified_ns: BigInt,
}

impl From<FileEntry> for NativeEntry {
    fn from(entry: FileEntry) -> Self {
        let kind = match entry.kind {
            FileKind::File => "file",
            FileKind::Directory => "directory",
            FileKind::Symlink => "symlink",
        };
        Self { path: entry.path, kind, size_bytes: entry.size_bytes.into(), modified_ns: entry.modified_ns.into() }
    }
}

/// What an execution did, wrote, used and changed. What is seldom asked for is in `json`.
#[napi]
pub struct NativeExecution(pub(crate) Arc<Execution>);

impl From<Execution> for NativeExecution {
    fn from(execution: Execution) -> Self {
        Self(Arc::new(execution))
    }
}

#[napi]
impl NativeExecution {
    /// Whether the script ran to its end, or exited with 0.
    #[napi(getter)]
    pub fn ok(&self) -> bool {
        self.0.is_success()
    }

    /// Standard output as text.
    #[napi(getter)]
    pub fn stdout(&self) -> String {
        self.0.stdout.text()
    }

    /// Standard error as text.
    #[napi(getter)]
    pub fn stderr(&self) -> String {
        self.0.stderr.text()
    }

    /// Standard output.
    #[napi(getter)]
    pub fn stdout_bytes(&self) -> Buffer {
        self.0.stdout.bytes.to_vec().into()
    }

    /// Standard error.
    #[napi(getter)]
    pub fn stderr_bytes(&self) -> Buffer {
        self.0.stderr.bytes.to_vec().into()
    }

    /// The fuel that it used.
    #[napi(getter)]
    pub fn fuel_consumed(&self) -> BigInt {
        self.0.fuel_consumed.into()
    }

    /// The value as the interpreter shows it, and as JSON text where there is such.
    #[napi(getter)]
    pub fn value(&self) -> Option<(String, Option<String>)> {
        self.0.value.as_ref().map(|value| (value.repr.clone(), value.json.clone()))
    }

    /// All of it, as JSON text.
    #[napi]
    pub fn json(&self) -> napi::Result<String> {
        serde_json::to_string(&*self.0).map_err(|error| napi::Error::from_reason(error.to_string()))
    }
}
