//! The result of an execution and the files that it left, for JavaScript.

use std::sync::Arc;

use glovebox::{Display, Execution, FileEntry, FileKind, Form};
use napi::bindgen_prelude::{BigInt, Buffer};
use napi_derive::napi;

use crate::{
    error::EngineFailure,
    job::{Callback, start},
};

/// A file's path, kind, size in bytes and time in nanoseconds.
#[napi(object, object_from_js = false)]
pub struct NativeEntry {
    /// The path, relative to `/app`.
    pub path: String,
    /// `file`, `directory` or `symlink`.
    pub kind: &'static str,
    /// The size in bytes.
    pub size_bytes: BigInt,
    /// The time of the last modification, in nanoseconds since 1970.
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

/// A display in all its forms.
#[napi(object, object_from_js = false)]
pub struct NativeShown {
    /// True for the value of the last expression.
    pub is_result: bool,
    /// The media type and the bytes of each form.
    pub forms: Vec<(String, Buffer)>,
}

impl From<&Display> for NativeShown {
    fn from(display: &Display) -> Self {
        let form = |form: &Form| (form.media_type.clone(), form.data.to_vec().into());
        Self { is_result: display.is_result, forms: display.forms.iter().map(form).collect() }
    }
}

/// The outcome, output, resource use and changes of an execution. Rarely used fields are in `json`.
#[napi]
pub struct NativeExecution {
    pub(crate) execution: Arc<Execution>,
    displays: Vec<Display>,
}

impl From<Execution> for NativeExecution {
    fn from(mut execution: Execution) -> Self {
        let displays = std::mem::take(&mut execution.displays);
        Self { execution: Arc::new(execution), displays }
    }
}

#[napi]
impl NativeExecution {
    /// True if the script ran to its end, or exited with code 0.
    #[napi(getter)]
    pub fn ok(&self) -> bool {
        self.execution.is_success()
    }

    /// Standard output as text.
    #[napi(getter)]
    pub fn stdout(&self) -> String {
        self.execution.stdout.text()
    }

    /// Standard error as text.
    #[napi(getter)]
    pub fn stderr(&self) -> String {
        self.execution.stderr.text()
    }

    /// Standard output as bytes.
    #[napi(getter)]
    pub fn stdout_bytes(&self) -> Buffer {
        self.execution.stdout.bytes.to_vec().into()
    }

    /// Standard error as bytes.
    #[napi(getter)]
    pub fn stderr_bytes(&self) -> Buffer {
        self.execution.stderr.bytes.to_vec().into()
    }

    /// Fuel used by the execution.
    #[napi(getter)]
    pub fn fuel_consumed(&self) -> BigInt {
        self.execution.fuel_consumed.into()
    }

    /// The value as the interpreter prints it, and as JSON text if it has a JSON form.
    #[napi(getter)]
    pub fn value(&self) -> Option<(String, Option<String>)> {
        self.execution.value.as_ref().map(|value| (value.repr.clone(), value.json.clone()))
    }

    /// The displays of the script, in order.
    #[napi(getter)]
    pub fn displays(&self) -> Vec<NativeShown> {
        self.displays.iter().map(NativeShown::from).collect()
    }

    /// All of the execution except its displays, as JSON text.
    #[napi]
    pub fn json(&self) -> napi::Result<String> {
        serde_json::to_string(&*self.execution).map_err(|error| napi::Error::from_reason(error.to_string()))
    }
}

#[napi]
impl NativeExecution {
    /// Lists the workspace's files that match a pattern.
    #[napi]
    pub fn list_files(&self, pattern: String, callback: Callback<'_, Vec<NativeEntry>>) -> napi::Result<()> {
        let execution = Arc::clone(&self.execution);
        start(&callback, move |_| {
            let files = execution.files().list(&pattern).map_err(EngineFailure::from)?;
            Ok(files.into_iter().map(Into::into).collect())
        })
    }

    /// Reads a file of the workspace.
    #[napi]
    pub fn read_file(&self, path: String, callback: Callback<'_, Buffer>) -> napi::Result<()> {
        let execution = Arc::clone(&self.execution);
        start(&callback, move |_| Ok(execution.files().read(&path).map_err(EngineFailure::from)?.to_vec().into()))
    }
}
