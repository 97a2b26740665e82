//! The files that an execution left, for JavaScript.

use std::sync::Arc;

use napi::bindgen_prelude::Buffer;
use napi_derive::napi;

use crate::{
    error::Failure,
    execution::{NativeEntry, NativeExecution},
    job::{Callback, start},
};

#[napi]
impl NativeExecution {
    /// Lists the workspace's files that match a pattern.
    #[napi]
    pub fn list_files(&self, pattern: String, callback: Callback<'_, Vec<NativeEntry>>) -> napi::Result<()> {
        let execution = Arc::clone(&self.execution);
        start(&callback, move |_| {
            let files = execution.files().list(&pattern).map_err(Failure::from)?;
            Ok(files.into_iter().map(Into::into).collect())
        })
    }

    /// Reads a file of the workspace.
    #[napi]
    pub fn read_file(&self, path: String, callback: Callback<'_, Buffer>) -> napi::Result<()> {
        let execution = Arc::clone(&self.execution);
        start(&callback, move |_| Ok(execution.files().read(&path).map_err(Failure::from)?.to_vec().into()))
    }
}
