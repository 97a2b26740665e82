//! The daemon's methods that operate on a session.
//!
//! * [`Method`]: the names of the methods. [`call`](Method::call) performs a method while it has the session's turn.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use glovebox::{
    CancelToken, CheckpointId, Execution, FileEntry, FileKind, FilesError, IfExists, Outcome, Output, RaisedOutcome,
    Resource, Stream,
};
use serde::Serialize;
use serde_json::{json, value::RawValue};
use tokio::runtime::Handle;

use super::{
    lines::Outbox,
    message::{self, Answer, RpcError, RpcId},
    params::{self, Execute, GetVariable, ListFiles, OneFile, Only, ReadFile, SetVariable, Undo, WriteFile},
    sessions::{SessionState, Turn},
};
use crate::{Door, OnOutput, ServiceError, Watch, text::Utf8Pieces};

/// A method that operates on a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Execute,
    Validate,
    GetVariable,
    SetVariable,
    ListFiles,
    ReadFile,
    WriteFile,
    DeleteFile,
    Checkpoint,
    Checkpoints,
    Undo,
    Hibernate,
    Info,
    Destroy,
}

impl Method {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "execute" => Self::Execute,
            "validate" => Self::Validate,
            "getVariable" => Self::GetVariable,
            "setVariable" => Self::SetVariable,
            "listFiles" => Self::ListFiles,
            "readFile" => Self::ReadFile,
            "writeFile" => Self::WriteFile,
            "deleteFile" => Self::DeleteFile,
            "checkpoint" => Self::Checkpoint,
            "checkpoints" => Self::Checkpoints,
            "undo" => Self::Undo,
            "hibernate" => Self::Hibernate,
            "info" => Self::Info,
            "destroy" => Self::Destroy,
            _ => return None,
        })
    }

    /// Performs the method. Releases the turn as soon as the method no longer needs the session.
    pub(super) async fn call(self, turn: Turn, params: Option<Box<RawValue>>, context: Context) -> Answer {
        let params = params.as_deref();
        match self {
            Self::Execute => execute(turn, params, context).await,
            Self::Validate => validate(turn, params).await,
            Self::GetVariable => get_variable(turn, params).await,
            Self::SetVariable => set_variable(turn, params).await,
            Self::ListFiles => list(turn, params).await,
            Self::ReadFile => read(turn, params).await,
            Self::WriteFile => write(turn, params).await,
            Self::DeleteFile => delete(turn, params).await,
            Self::Checkpoint => checkpoint(turn, params).await,
            Self::Checkpoints => checkpoints(turn, params).await,
            Self::Undo => undo(turn, params).await,
            Self::Hibernate => hibernate(turn, params).await,
            Self::Info => info(turn, params).await,
            Self::Destroy => destroy(turn, params).await,
        }
    }
}

/// The ID and the cancellation token of a request, and the queue of messages to its client.
pub(super) struct Context {
    /// ID for `output` notifications. `None` if the request is a notification.
    pub(super) id: Option<RpcId>,
    pub(super) cancel: CancelToken,
    pub(super) outbox: Outbox,
}

/// Maximum total size of the files in an answer, in bytes before base64 encoding.
const MAX_RETURNED_BYTES: u64 = 8 << 20;

/// The total time that a guest waits for a client that does not read streamed output. After that, streaming stops, but
/// the answer still contains all output.
const PATIENCE: Duration = Duration::from_secs(2);

async fn execute(mut turn: Turn, params: Option<&RawValue>, context: Context) -> Answer {
    let asked: Execute = params::read(params)?;
    let (fresh, stream, return_files) = (asked.fresh, asked.stream, asked.return_files);
    let mut script = asked.script()?;
    let worker = turn.worker()?;
    let then = move |execution| answer(execution, return_files);
    let text = if fresh {
        script.context = script.context.or_else(|| worker.context.clone());
        let sandbox = worker.sandbox.clone();
        // The session is no longer needed. Dropping the turn admits the session's next request.
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

async fn validate(mut turn: Turn, params: Option<&RawValue>) -> Answer {
    let script = params::read::<Execute>(params)?.script()?;
    let sandbox = turn.worker()?.sandbox.clone();
    drop(turn);
    message::result(&json!({ "diagnostics": sandbox.validate(script).await? }))
}

/// Returns a callback that streams output to the client in `output` notifications.
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
        let message = message::request(None, "output", &params);
        let sent = clock.block_on(tokio::time::timeout(patience, outbox.send_short(message)));
        // After a lost chunk, later chunks would leave a gap, so streaming stops.
        patience = if sent == Ok(Ok(())) { patience.saturating_sub(begun.elapsed()) } else { Duration::ZERO };
    })
}

/// The answer to `execute`: the fields that `glovebox run --json` prints, and the additional fields below.
#[derive(Serialize)]
struct ExecutionAnswer<'a> {
    #[serde(flatten)]
    execution: ExecutionFields<'a>,
    /// A summary of the failure in one line. `None` if the script succeeded.
    error: Option<String>,
    /// Standard output in base64, if it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_base64: Option<String>,
    /// Standard error in base64, if it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_base64: Option<String>,
    /// The workspace files, if the request asks for them with `return_files`.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<FilesAnswer>,
}

struct ExecutionFields<'a>(&'a Execution);

impl Serialize for ExecutionFields<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// The workspace files after an execution.
#[derive(Serialize)]
struct FilesAnswer {
    entries: Vec<FileEntry>,
    /// File contents in base64, keyed by path.
    contents: BTreeMap<String, String>,
    /// The number of files whose contents are omitted because the total would exceed `MAX_RETURNED_BYTES`.
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
        Outcome::Trapped { trap } => Some(format!("the interpreter trapped: {trap:?}")),
    }
}

impl From<FilesError> for RpcError {
    fn from(error: FilesError) -> Self {
        ServiceError::from(error).into()
    }
}

/// Maximum size of a returned session state, in bytes. The base64 encoding of such a state fits into a message of the
/// default maximum size, so the client can send it back.
const MAX_STATE_BYTES: usize = 23 << 20;

async fn get_variable(mut turn: Turn, params: Option<&RawValue>) -> Answer {
    let GetVariable { name, .. } = params::read(params)?;
    let session = turn.worker()?.open().await?;
    let Some(value) = session.ask(move |session| Ok(session.get_variable(&name)?)).await? else {
        return message::result(&json!({ "found": false }));
    };
    let json = value.json.map(|json| format!(",\"value\":{json}")).unwrap_or_default();
    Ok(format!("{{\"found\":true,\"repr\":{}{json}}}", json!(value.repr)))
}

async fn set_variable(mut turn: Turn, params: Option<&RawValue>) -> Answer {
    let SetVariable { name, value, .. } = params::read(params)?;
    let value = params::json_text(value)?;
    let session = turn.worker()?.open().await?;
    session.ask(move |session| Ok(session.set_variable_text(&name, &value)?)).await?;
    message::result(&json!({}))
}

async fn checkpoint(mut turn: Turn, params: Option<&RawValue>) -> Answer {
    let Only { .. } = params::read(params)?;
    let session = turn.worker()?.open().await?;
    let CheckpointId(checkpoint) = session.ask(|session| Ok(session.checkpoint()?)).await?;
    message::result(&json!({ "checkpoint": checkpoint }))
}

async fn checkpoints(mut turn: Turn, params: Option<&RawValue>) -> Answer {
    let Only { .. } = params::read(params)?;
    let session = turn.worker()?.open().await?;
    message::result(&json!({ "checkpoints": session.ask(|session| Ok(session.checkpoints()?)).await? }))
}

async fn undo(mut turn: Turn, params: Option<&RawValue>) -> Answer {
    let Undo { checkpoint, .. } = params::read(params)?;
    let session = turn.worker()?.open().await?;
    let undone = session.ask(move |session| match checkpoint.map(CheckpointId) {
        Some(checkpoint) => Ok(session.undo_to(checkpoint).map(|()| checkpoint)?),
        None => Ok(session.undo()?),
    });
    let CheckpointId(checkpoint) = undone.await?;
    message::result(&json!({ "checkpoint": checkpoint }))
}

async fn hibernate(mut turn: Turn, params: Option<&RawValue>) -> Answer {
    let Only { .. } = params::read(params)?;
    let state = turn.worker()?.open().await?.hibernate().await?;
    if state.len() > MAX_STATE_BYTES {
        let message = format!(
            "the session state is {} bytes; the maximum is {MAX_STATE_BYTES}; delete files or variables",
            state.len()
        );
        return Err(RpcError::named(message::REFUSED, "too-large", message));
    }
    message::result(&json!({ "state": { "base64": BASE64_STANDARD.encode(state) } }))
}

async fn info(mut turn: Turn, params: Option<&RawValue>) -> Answer {
    let Only { .. } = params::read(params)?;
    let session = turn.worker()?.open().await?;
    message::result(&session.ask(|session| Ok(session.info())).await?)
}

/// Closes the session, which runs its exit handlers. Requests that are already queued find the state `Ended`.
async fn destroy(mut turn: Turn, params: Option<&RawValue>) -> Answer {
    let Only { .. } = params::read(params)?;
    let session = turn.worker()?.session.take();
    *turn = SessionState::Ended("it was destroyed".to_owned());
    if let Some(session) = session {
        // Errors are ignored: a session that has already ended is closed as well.
        let _ = session.ask(|session| Ok(session.close()?)).await;
    }
    message::result(&json!({}))
}

/// Maximum number of bytes that a single `readFile` returns.
const PIECE_BYTES: u64 = 8 << 20;

async fn list(mut turn: Turn, params: Option<&RawValue>) -> Answer {
    let ListFiles { pattern, .. } = params::read(params)?;
    let pattern = pattern.unwrap_or_else(|| "**".to_owned());
    let session = turn.worker()?.open().await?;
    message::result(&json!({ "files": session.ask(move |session| Ok(session.files().list(&pattern)?)).await? }))
}

async fn read(mut turn: Turn, params: Option<&RawValue>) -> Answer {
    let ReadFile { path, offset, .. } = params::read(params)?;
    let session = turn.worker()?.open().await?;
    let read = session.ask(move |session| {
        let files = session.files().snapshot()?;
        let size_bytes = files.stat(&path)?.size_bytes;
        Ok((size_bytes, files.read_at(&path, offset, PIECE_BYTES)?))
    });
    let (size_bytes, bytes) = read.await?;
    message::result(&json!({ "contents": { "base64": BASE64_STANDARD.encode(bytes) }, "size_bytes": size_bytes }))
}

async fn write(mut turn: Turn, params: Option<&RawValue>) -> Answer {
    let WriteFile { path, contents, .. } = params::read(params)?;
    let session = turn.worker()?.open().await?;
    session.ask(move |session| Ok(session.files().write(&path, contents.0, IfExists::Replace)?)).await?;
    message::result(&json!({}))
}

async fn delete(mut turn: Turn, params: Option<&RawValue>) -> Answer {
    let OneFile { path, recursive, .. } = params::read(params)?;
    let session = turn.worker()?.open().await?;
    let deleted = session.ask(move |session| {
        let files = session.files();
        Ok(if recursive { files.delete_all(&path) } else { files.delete(&path) }?)
    });
    deleted.await?;
    message::result(&json!({}))
}
