//! A session, for JavaScript.

use std::sync::Arc;

use glovebox::{CheckpointId, ExecuteError, HibernateOptions, IfExists, JsonText, Session, SessionOptions};
use napi::bindgen_prelude::{BigInt, Buffer, ToNapiValue};
use napi_derive::napi;

use crate::{
    error::EngineFailure,
    execution::{Input, NativeEntry, NativeInput, NativeToken},
    port::NativePort,
    threads::{Callback, start},
};

/// A value as the interpreter prints it, and as JSON text if it has a JSON form.
#[napi(object, object_from_js = false)]
pub struct NativeValue {
    /// The value as the interpreter prints it.
    pub repr: String,
    /// The value as JSON text.
    pub json: Option<String>,
}

/// An interpreter that persists between executions.
#[napi]
pub struct NativeSession(Arc<Session>);

impl From<Session> for NativeSession {
    fn from(session: Session) -> Self {
        Self(Arc::new(session))
    }
}

impl NativeSession {
    /// Runs an operation of the session on another thread.
    fn ask<T: ToNapiValue + Send + 'static, E: Into<EngineFailure>>(
        &self,
        callback: &Callback<'_, T>,
        ask: impl FnOnce(&Session) -> Result<T, E> + Send + 'static,
    ) -> napi::Result<()> {
        let session = Arc::clone(&self.0);
        start(callback, move |_| ask(&session).map_err(Into::into))
    }
}

#[napi]
impl NativeSession {
    /// The session's id.
    #[napi(getter)]
    pub fn id(&self) -> &str {
        self.0.id()
    }

    /// The reason for the end of the session, if it has ended.
    #[napi(getter)]
    pub fn ended(&self) -> Option<String> {
        self.0.ended()
    }

    /// Runs a script in the session's interpreter.
    #[napi]
    pub fn execute(&self, input: NativeInput, token: &NativeToken, port: &NativePort, execution: u32) {
        let (session, input) = (Arc::clone(&self.0), Input::new(input, token.token()));
        port.start(execution, move |heard| input.execute(heard, |request| session.run(request)));
    }

    /// Reads a global variable.
    #[napi]
    pub fn get_variable(&self, name: String, callback: Callback<'_, Option<NativeValue>>) -> napi::Result<()> {
        self.ask(&callback, move |session| {
            let value = session.get_variable(&name)?;
            Ok::<_, ExecuteError>(value.map(|value| NativeValue { repr: value.repr, json: value.json }))
        })
    }

    /// Sets a global variable to a value, as JSON text.
    #[napi]
    pub fn set_variable(&self, name: String, json: String, callback: Callback<'_, ()>) -> napi::Result<()> {
        self.ask(&callback, move |session| {
            Ok::<_, EngineFailure>(session.set_variable_text(&name, &JsonText::new(json)?)?)
        })
    }

    /// Lists the files that match a pattern.
    #[napi]
    pub fn list_files(&self, pattern: String, callback: Callback<'_, Vec<NativeEntry>>) -> napi::Result<()> {
        self.ask(&callback, move |session| {
            let files = session.files().list(&pattern).map_err(EngineFailure::from)?;
            Ok::<_, EngineFailure>(files.into_iter().map(Into::into).collect())
        })
    }

    /// Reads a file.
    #[napi]
    pub fn read_file(&self, path: String, callback: Callback<'_, Buffer>) -> napi::Result<()> {
        self.ask(&callback, move |session| session.files().read(&path).map(|bytes| Buffer::from(bytes.to_vec())))
    }

    /// Writes or replaces a file.
    #[napi]
    pub fn write_file(&self, path: String, contents: Buffer, callback: Callback<'_, ()>) -> napi::Result<()> {
        let contents = contents.to_vec();
        self.ask(&callback, move |session| session.files().write(&path, &contents, IfExists::Replace))
    }

    /// Deletes a file, a link or a directory; with `recursive`, also everything below a directory.
    #[napi]
    pub fn delete_file(&self, path: String, recursive: bool, callback: Callback<'_, ()>) -> napi::Result<()> {
        self.ask(
            &callback,
            move |session| {
                if recursive { session.files().delete_all(&path) } else { session.files().delete(&path) }
            },
        )
    }

    /// Creates a second session with the same state.
    #[napi]
    pub fn fork(
        &self,
        id: Option<String>,
        context: Option<String>,
        callback: Callback<'_, NativeSession>,
    ) -> napi::Result<()> {
        self.ask(&callback, move |session| {
            Ok::<_, EngineFailure>(Self::from(session.fork_with(options(id, context)?)?))
        })
    }

    /// Takes a checkpoint, and returns its id.
    #[napi]
    pub fn checkpoint(&self, callback: Callback<'_, BigInt>) -> napi::Result<()> {
        self.ask(&callback, |session| session.checkpoint().map(|checkpoint| checkpoint.0.into()))
    }

    /// The checkpoints, as JSON text.
    #[napi]
    pub fn checkpoints(&self, callback: Callback<'_, String>) -> napi::Result<()> {
        self.ask(&callback, |session| Ok::<_, EngineFailure>(serde_json::to_string(&session.checkpoints()?)?))
    }

    /// Undoes the last execution, or restores a checkpoint.
    #[napi]
    pub fn undo(&self, checkpoint: Option<BigInt>, callback: Callback<'_, BigInt>) -> napi::Result<()> {
        let checkpoint = checkpoint.map(|checkpoint| CheckpointId(checkpoint.get_u64().1));
        self.ask(&callback, move |session| {
            let undone = match checkpoint {
                None => session.undo(),
                Some(id) => session.undo_to(id).map(|()| id),
            };
            undone.map(|id| BigInt::from(id.0))
        })
    }

    /// Returns the session as bytes.
    #[napi]
    pub fn hibernate(&self, callback: Callback<'_, Buffer>) -> napi::Result<()> {
        self.ask(&callback, |session| {
            session.hibernate(&HibernateOptions::default()).map(|bytes| bytes.to_vec().into())
        })
    }

    /// Describes the session, as JSON text.
    #[napi]
    pub fn info(&self, callback: Callback<'_, String>) -> napi::Result<()> {
        self.ask(&callback, |session| serde_json::to_string(&session.info()))
    }

    /// Ends the session. Has no effect on a session that has ended.
    #[napi]
    pub fn close(&self, callback: Callback<'_, ()>) -> napi::Result<()> {
        self.ask(&callback, |session| match session.close() {
            Err(ExecuteError::SessionEnded { .. }) => Ok(()),
            closed => closed,
        })
    }
}

/// Converts a session's options.
pub(crate) fn options(id: Option<String>, context: Option<String>) -> Result<SessionOptions, EngineFailure> {
    let mut options = SessionOptions::default();
    options.id = id;
    if let Some(context) = context {
        options.context = Some(JsonText::new(context)?);
    }
    Ok(options)
}
