//! The resource `session`.

use crate::{
    bindings::{
        exports::glovebox::sandbox::sandbox::{
            Blob, BlobBorrow, Files, GuestSession, Session, SessionOptions, Started,
        },
        glovebox::sandbox::{
            sandbox as inner,
            types::{
                CheckpointInfo, Execution, GuestValue, IfExists, Policy, Request, Runtime, SandboxError, SessionInfo,
            },
        },
    },
    blob, files, held, started,
};

/// A session of the inner provider, opened under the rule. Later calls need not apply the rule again.
pub struct Forwarded(inner::Session);

/// Returns a handle for the client.
fn given(session: inner::Session) -> Session {
    Session::new(Forwarded(session))
}

fn options(options: SessionOptions) -> inner::SessionOptions {
    let SessionOptions { context, tools } = options;
    inner::SessionOptions { context, tools }
}

impl GuestSession for Forwarded {
    fn open(runtime: Runtime, policy: Policy, session_options: SessionOptions) -> Result<Session, SandboxError> {
        Ok(given(inner::Session::open(&runtime, &held(policy)?, &options(session_options))?))
    }

    fn resume(
        runtime: Runtime,
        state: BlobBorrow<'_>,
        policy: Policy,
        session_options: SessionOptions,
    ) -> Result<Session, SandboxError> {
        let state = &state.get::<blob::Forwarded>().0;
        Ok(given(inner::Session::resume(&runtime, state, &held(policy)?, &options(session_options))?))
    }

    fn id(&self) -> String {
        self.0.id()
    }

    fn info(&self) -> SessionInfo {
        self.0.info()
    }

    fn execute(&self, request: Request) -> Result<Execution, SandboxError> {
        self.0.execute(&request)
    }

    fn start(&self, request: Request) -> Result<Started, SandboxError> {
        Ok(started::given(self.0.start(&request)?))
    }

    fn get_variable(&self, name: String) -> Result<Option<GuestValue>, SandboxError> {
        self.0.get_variable(&name)
    }

    fn set_variable(&self, name: String, json: String) -> Result<(), SandboxError> {
        self.0.set_variable(&name, &json)
    }

    fn files(&self) -> Result<Files, SandboxError> {
        Ok(files::given(self.0.files()?))
    }

    fn write_file(&self, path: String, bytes: Vec<u8>, if_exists: IfExists) -> Result<(), SandboxError> {
        self.0.write_file(&path, &bytes, if_exists)
    }

    fn write_file_from(&self, path: String, contents: BlobBorrow<'_>, if_exists: IfExists) -> Result<(), SandboxError> {
        self.0.write_file_from(&path, &contents.get::<blob::Forwarded>().0, if_exists)
    }

    fn rename_file(&self, from: String, to: String, if_exists: IfExists) -> Result<(), SandboxError> {
        self.0.rename_file(&from, &to, if_exists)
    }

    fn delete_file(&self, path: String, recursive: bool) -> Result<(), SandboxError> {
        self.0.delete_file(&path, recursive)
    }

    fn fork(&self) -> Result<Session, SandboxError> {
        Ok(given(self.0.fork()?))
    }

    fn checkpoint(&self) -> Result<u64, SandboxError> {
        self.0.checkpoint()
    }

    fn checkpoints(&self) -> Result<Vec<CheckpointInfo>, SandboxError> {
        self.0.checkpoints()
    }

    fn undo(&self) -> Result<u64, SandboxError> {
        self.0.undo()
    }

    fn undo_to(&self, id: u64) -> Result<(), SandboxError> {
        self.0.undo_to(id)
    }

    fn hibernate(&self) -> Result<Blob, SandboxError> {
        Ok(blob::given(self.0.hibernate()?))
    }

    fn close(&self) -> Result<(), SandboxError> {
        self.0.close()
    }
}
