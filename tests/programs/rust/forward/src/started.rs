//! The resource `started`.

use crate::{
    bindings::{
        exports::glovebox::sandbox::sandbox::{
            Blob, Files, GuestStarted, OutputStream, Started, Step, ToolAnswer, ToolRequest,
        },
        glovebox::sandbox::{sandbox as inner, types::SandboxError},
    },
    blob, files,
};

/// A started execution of the inner provider. Dropping it drops the inner execution, which cancels it.
pub struct Forwarded(inner::Started);

/// Returns a handle for the client.
pub fn given(started: inner::Started) -> Started {
    Started::new(Forwarded(started))
}

impl GuestStarted for Forwarded {
    fn continue_(&self, answers: Vec<ToolAnswer>, wait_ms: Option<u64>) -> Result<Step, SandboxError> {
        // The types of the `sandbox` interface differ between its export and its import.
        let answers: Vec<_> =
            answers.into_iter().map(|ToolAnswer { id, answer }| inner::ToolAnswer { id, answer }).collect();
        Ok(match self.0.continue_(&answers, wait_ms)? {
            inner::Step::Done(execution) => Step::Done(execution),
            inner::Step::NeedsTools(requests) => Step::NeedsTools(
                requests
                    .into_iter()
                    .map(|inner::ToolRequest { id, name, arguments }| ToolRequest { id, name, arguments })
                    .collect(),
            ),
            inner::Step::Running => Step::Running,
        })
    }

    fn read_output(&self, stream: OutputStream, offset: u64, len: u64) -> Vec<u8> {
        let stream = match stream {
            OutputStream::Stdout => inner::OutputStream::Stdout,
            OutputStream::Stderr => inner::OutputStream::Stderr,
        };
        self.0.read_output(stream, offset, len)
    }

    fn files(&self) -> Result<Files, SandboxError> {
        Ok(files::given(self.0.files()?))
    }

    fn suspend(&self) -> Result<Blob, SandboxError> {
        Ok(blob::given(self.0.suspend()?))
    }

    fn cancel(&self) {
        self.0.cancel();
    }
}
