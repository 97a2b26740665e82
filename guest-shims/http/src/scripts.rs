//! Handlers that run scripts in a new interpreter, or in a session whose state the client stores.
//!
//! Between two requests, a session consists only of bytes: the provider's hibernated state, sealed with the operator's
//! key. The engine uses the same format, so `glovebox serve` with the same key resumes these states
//! (`PUT /v1/sessions/{id}`), and returns such states (`GET …/state`).

use base64::{Engine as _, prelude::BASE64_STANDARD};
use glovebox_core::{
    Language,
    hibernate::{self, HibernatedInfo, SessionKey},
};
use glovebox_guest::{Blob, Diagnostic, Error, Runtime, Sandbox, Session, SessionOptions};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    answer::{ExecutionAnswer, ReturnedFiles, finish},
    http::{Answer, Problem},
    policy::{self, Settings},
    wire::{self, ExecuteBody, Fresh, InSession, Open, OpenBody},
};

/// Runs a script in a new interpreter with a new workspace.
pub(crate) fn execute(settings: &Settings, body: &[u8]) -> Result<Answer, Problem> {
    let Fresh { runtime, policy, request, patterns } = wire::json::<ExecuteBody>(body)?.fresh()?;
    let started = sandbox(settings, runtime, &policy)?.start(request, &[])?;
    let execution = finish(&started)?;
    let returned =
        if patterns.is_empty() { ReturnedFiles::default() } else { ReturnedFiles::of(&started.files()?, &patterns)? };
    Answer::json(200, &ExecutionAnswer::new(&started, execution, returned))
}

/// Returns the diagnostics of the language's own parser, without executing the script.
pub(crate) fn validate(settings: &Settings, body: &[u8]) -> Result<Answer, Problem> {
    let Fresh { runtime, policy, request, .. } = wire::json::<ExecuteBody>(body)?.fresh()?;
    let diagnostics = sandbox(settings, runtime, &policy)?.validate(request)?;
    let diagnostics: Vec<Value> = diagnostics
        .into_iter()
        .map(|Diagnostic { line, column, message }| json!({ "line": line, "column": column, "message": message }))
        .collect();
    Answer::json(200, &json!({ "diagnostics": diagnostics }))
}

fn sandbox(
    settings: &Settings,
    runtime: Option<Runtime>,
    asked: &serde_json::Map<String, Value>,
) -> Result<Sandbox, Problem> {
    let policy = policy::narrowed(&settings.policy, asked)?;
    Ok(Sandbox::new(runtime.map_or_else(first_runtime, Ok)?).policy(policy::asked(&policy)))
}

/// Returns the runtime for requests that specify none.
pub(crate) fn first_runtime() -> Result<Runtime, Problem> {
    let first = glovebox_guest::info().runtimes.into_iter().next();
    first.map(|runtime| Runtime::Named(runtime.name)).ok_or_else(|| Problem::internal("the provider has no runtime"))
}

/// The session name in the seal. It is empty in states that leave a server.
const NAME: &str = "";

/// A session as the client receives it.
#[derive(Debug, Serialize)]
struct OpenedSession {
    /// The sealed state in base64.
    state: String,
    language: Language,
    runtime: String,
    version: Option<String>,
    /// The number of completed executions.
    executions: u64,
    /// The size of the sealed state in bytes.
    bytes: usize,
}

/// The result of a script in a session, and the session's new state.
#[derive(Debug, Serialize)]
struct InSessionAnswer {
    #[serde(flatten)]
    execution: ExecutionAnswer,
    /// The new sealed state in base64, or null if the session has ended.
    state: Option<String>,
    /// The reason why the session ended.
    session_ended: Option<String>,
}

/// Opens a session. The response contains its complete sealed state.
pub(crate) fn open_session(settings: &Settings, body: &[u8]) -> Result<Answer, Problem> {
    let key = settings.session_key()?;
    let body = if body.is_empty() { OpenBody::default() } else { wire::json(body)? };
    let Open { runtime, context } = body.open()?;
    let runtime = runtime.map_or_else(first_runtime, Ok)?;
    let sandbox = Sandbox::new(runtime).policy(policy::asked(&settings.policy));
    let session = sandbox.open_session(&SessionOptions { context, tools: None })?;
    let state = sealed(settings, key, &session)?;
    let HibernatedInfo { language, runtime, version, executions, .. } = HibernatedInfo::read(&state)?;
    let bytes = state.len();
    Answer::json(
        201,
        &OpenedSession { state: BASE64_STANDARD.encode(state), language, runtime, version, executions, bytes },
    )
}

/// Runs a script in a session. The response contains the session's new sealed state.
pub(crate) fn execute_in_session(settings: &Settings, body: &[u8]) -> Result<Answer, Problem> {
    let key = settings.session_key()?;
    let InSession { state, request, patterns } = wire::json::<ExecuteBody>(body)?.in_session(settings.state_bytes)?;
    let session = resumed(settings, key, state)?;
    let started = session.start(request)?;
    let execution = finish(&started)?;
    let returned = match session.files() {
        Ok(files) if !patterns.is_empty() => ReturnedFiles::of(&files, &patterns)?,
        Ok(_) | Err(Error::SessionEnded(_)) => ReturnedFiles::default(),
        Err(error) => return Err(error.into()),
    };
    let session_ended = session.info().ended;
    let state = match session_ended {
        Some(_) => None,
        None => Some(BASE64_STANDARD.encode(sealed(settings, key, &session)?)),
    };
    let execution = ExecutionAnswer::new(&started, execution, returned);
    Answer::json(200, &InSessionAnswer { execution, state, session_ended })
}

/// Resumes a session from a state that this server sealed. Any other state is rejected before it is decompressed.
fn resumed(settings: &Settings, key: &SessionKey, state: Vec<u8>) -> Result<Session, Problem> {
    let plain = hibernate::unseal(&state, key, NAME)?;
    drop(state);
    let HibernatedInfo { runtime, .. } = HibernatedInfo::read(&plain)?;
    let blob = Blob::of(&plain)?;
    let sandbox = Sandbox::named(runtime).policy(policy::asked(&settings.policy));
    Ok(sandbox.resume(&blob, &SessionOptions::default())?)
}

/// Returns a session's state, sealed for the client.
fn sealed(settings: &Settings, key: &SessionKey, session: &Session) -> Result<Vec<u8>, Problem> {
    let blob = session.hibernate()?;
    let (bytes, most) = (blob.size(), settings.state_bytes);
    if usize::try_from(bytes).map_or(true, |bytes| bytes > most) {
        let detail = format!(
            "the session's state is {bytes} bytes; the maximum is {most}; continue with the previous state, and keep less data in variables and files"
        );
        return Err(Problem::new(500, "unsaved", detail));
    }
    Ok(hibernate::seal(&blob.to_vec(), key, NAME)?)
}
