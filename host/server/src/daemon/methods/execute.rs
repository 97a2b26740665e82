//! The methods `execute` and `validate`.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use glovebox::{Execution, FileEntry, FileKind, FilesError, Outcome, Output, RaisedOutcome, Resource, Stream};
use serde::Serialize;
use serde_json::{json, value::RawValue};
use tokio::runtime::Handle;

use super::context::Context;
use crate::{
    Door, OnOutput, ServiceError, Watch,
    daemon::{
        params::{self, Execute},
        rpc::{self, Answer, RpcError},
        slot::Turn,
    },
    utf8_pieces::Utf8Pieces,
};

/// Maximum total size of the files in an answer, in bytes before base64.
const MAX_RETURNED_BYTES: u64 = 8 << 20;

/// Total time that a guest waits for a client that does not read streamed output. After that the client gets no further
/// pieces. The answer still contains all output.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) async fn execute(mut turn: Turn, params: Option<&RawValue>, context: Context) -> Answer {
    let asked: Execute = params::read(params)?;
    let (fresh, stream, return_files) = (asked.fresh, asked.stream, asked.return_files);
    let mut script = asked.script()?;
    let worker = turn.worker()?;
    let then = move |execution| answer(execution, return_files);
    let text = if fresh {
        script.context = script.context.or_else(|| worker.context.clone());
        let sandbox = worker.sandbox.clone();
        // The session is not needed any more. Dropping the turn admits its next request.
        drop(turn);
        let on_output = stream.then(|| on_output(&context, None));
        let watch = Watch { on_output, cancel: Some(context.cancel) };
        sandbox.execute_then(Door::Daemon, script, watch, then).await?
    } else {
        let session = worker.open().await?;
        let on_output = stream.then(|| on_output(&context, Some(session.id())));
        let watch = Watch { on_output, cancel: Some(context.cancel) };
        session.execute_then(Door::Daemon, script, watch, then).await?
    };
    Ok(text)
}

pub(super) async fn validate(mut turn: Turn, params: Option<&RawValue>) -> Answer {
    let script = params::read::<Execute>(params)?.script()?;
    let sandbox = turn.worker()?.sandbox.clone();
    drop(turn);
    rpc::result(&json!({ "diagnostics": sandbox.validate(script).await? }))
}

/// Returns a callback that streams output to the client as `output` notifications.
fn on_output(context: &Context, session: Option<&str>) -> OnOutput {
    let (outbox, clock) = (context.outbox.clone(), Handle::current());
    let id = context.id.as_ref().map_or("null", |id| id.text()).to_owned();
    let session = json!(session).to_string();
    let (mut stdout, mut stderr) = (Utf8Pieces::default(), Utf8Pieces::default());
    let mut patience = PATIENCE;
    Box::new(move |stream, bytes| {
        let (name, text) = match stream {
            Stream::Stdout => ("stdout", stdout.next(bytes)),
            Stream::Stderr => ("stderr", stderr.next(bytes)),
        };
        if text.is_empty() || patience.is_zero() {
            return;
        }
        let params = format!(
            "{{\"session\":{session},\"request\":{id},\"stream\":\"{name}\",\"text\":{}}}",
            serde_json::Value::String(text)
        );
        let begun = Instant::now();
        let sent = clock.block_on(tokio::time::timeout(patience, async {
            if let Ok(message) = outbox.outgoing(rpc::request(None, "output", &params)).await {
                let _ = outbox.send(message).await;
            }
        }));
        patience = if sent.is_ok() { patience.saturating_sub(begun.elapsed()) } else { Duration::ZERO };
    })
}

/// The answer to `execute`: the fields that `glovebox run --json` prints, and the fields below.
#[derive(Serialize)]
struct ExecutionAnswer<'a> {
    #[serde(flatten)]
    execution: ExecutionFields<'a>,
    /// One-line summary of a failure. `None` on success.
    error: Option<String>,
    /// Standard output in base64, if it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<FilesAnswer>,
}

struct ExecutionFields<'a>(&'a Execution);

impl Serialize for ExecutionFields<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// The files in the workspace after an execution.
#[derive(Serialize)]
struct FilesAnswer {
    entries: Vec<FileEntry>,
    /// Contents in base64, by path.
    contents: BTreeMap<String, String>,
    /// Number of files whose contents are left out because the total exceeds `MAX_RETURNED_BYTES`.
    left_out: usize,
}

fn answer(mut execution: Execution, return_files: bool) -> Result<String, ServiceError> {
    execution.workspace_path = None;
    let files = return_files.then(|| files(&execution)).transpose()?;
    let answer = ExecutionAnswer {
        error: failure(&execution),
        stdout_base64: bytes(&execution.stdout),
        stderr_base64: bytes(&execution.stderr),
        execution: ExecutionFields(&execution),
        files,
    };
    serde_json::to_string(&answer).map_err(|error| ServiceError::Invalid(error.to_string()))
}

fn bytes(output: &Output) -> Option<String> {
    std::str::from_utf8(&output.bytes).is_err().then(|| BASE64_STANDARD.encode(&output.bytes))
}

fn files(execution: &Execution) -> Result<FilesAnswer, FilesError> {
    let entries = execution.files().list("**")?;
    let (mut contents, mut left_out, mut bytes) = (BTreeMap::new(), 0, 0_u64);
    for entry in entries.iter().filter(|entry| entry.kind == FileKind::File) {
        bytes = bytes.saturating_add(entry.size_bytes);
        if bytes > MAX_RETURNED_BYTES {
            left_out += 1;
            continue;
        }
        contents.insert(entry.path.clone(), BASE64_STANDARD.encode(execution.files().read(&entry.path)?));
    }
    Ok(FilesAnswer { entries, contents, left_out })
}

/// Summarizes a failure in one line. Returns `None` if the script succeeded.
fn failure(execution: &Execution) -> Option<String> {
    match &execution.outcome {
        Outcome::Completed | Outcome::Exited { code: 0 } => None,
        Outcome::Exited { code } => Some(format!("exited with {code}")),
        Outcome::Raised(RaisedOutcome { type_name, message, .. }) if type_name.is_empty() => {
            Some(format!("threw {message}"))
        }
        Outcome::Raised(RaisedOutcome { type_name, message, .. }) => Some(format!("{type_name}: {message}")),
        Outcome::Exhausted { resource: Resource::Time, limit, .. } => Some(format!("timeout: over {limit} ms")),
        Outcome::Exhausted { resource, limit, used } => {
            let name = format!("{resource:?}").to_ascii_lowercase();
            Some(format!("out of {name}: {used} of {limit}"))
        }
        Outcome::Cancelled => Some("cancelled".to_owned()),
        Outcome::Trapped { trap } => Some(format!("the interpreter broke: {trap:?}")),
    }
}

impl From<FilesError> for RpcError {
    fn from(error: FilesError) -> Self {
        ServiceError::from(error).into()
    }
}
