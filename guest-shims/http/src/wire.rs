//! Request bodies in JSON, in the form that `glovebox serve` accepts.

use std::collections::BTreeMap;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use glovebox_core::{Language, at_most, bytes_from_json, check_json, contract::too_costly_patterns, entries_at_most};
use glovebox_guest::{InputFile, Request, Runtime, SourceKind};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, value::RawValue};

use crate::http::Problem;

/// Maximum size of a request's policy, in bytes. The policy's JSON values occupy many times the memory of the text.
const MAX_POLICY_BYTES: usize = 256 << 10;

/// Maximum number of files in a request.
const MAX_FILES: usize = 10_000;

/// Maximum number of patterns for returned files. Every file is compared with every pattern.
const MAX_PATTERNS: usize = 16;

/// The parsing mode of JavaScript source.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ScriptKind {
    Detect,
    Script,
    Module,
}

impl From<ScriptKind> for SourceKind {
    fn from(kind: ScriptKind) -> Self {
        match kind {
            ScriptKind::Detect => Self::Detect,
            ScriptKind::Script => Self::Script,
            ScriptKind::Module => Self::Module,
        }
    }
}

/// A script with its options. The fields are the same as for `glovebox serve`, plus a session's `state`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecuteBody {
    source: Option<String>,
    language: Option<Language>,
    runtime: Option<String>,
    name: Option<String>,
    kind: Option<ScriptKind>,
    stdin: Option<Bytes>,
    context: Option<Box<RawValue>>,
    deadline_ms: Option<u64>,
    #[serde(default, deserialize_with = "entries_at_most::<_, Bytes, _, MAX_FILES>")]
    files: Option<BTreeMap<String, Bytes>>,
    policy: Option<Box<RawValue>>,
    tools: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "at_most::<_, String, _, MAX_PATTERNS>")]
    return_files: Option<Vec<String>>,
    /// The session's state in base64. Only valid for executions in a session.
    state: Option<String>,
}

/// The options of a new session.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenBody {
    id: Option<String>,
    language: Option<Language>,
    runtime: Option<String>,
    context: Option<Box<RawValue>>,
}

/// An execution in a new interpreter.
#[derive(Debug)]
pub(crate) struct FreshExecution {
    /// The requested runtime. `None` selects the provider's first runtime.
    pub(crate) runtime: Option<Runtime>,
    pub(crate) policy: Map<String, Value>,
    pub(crate) request: Request,
    pub(crate) patterns: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct SessionExecution {
    pub(crate) state: Vec<u8>,
    pub(crate) request: Request,
    pub(crate) patterns: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct NewSession {
    /// The requested runtime. `None` selects the provider's first runtime.
    pub(crate) runtime: Option<Runtime>,
    /// The context as JSON text.
    pub(crate) context: Option<String>,
}

/// Parses a request body as JSON.
pub(crate) fn json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    if bytes.is_empty() {
        return Err(Problem::invalid("the request has no body; send a JSON object"));
    }
    serde_json::from_slice(bytes).map_err(|error| Problem::invalid(format!("the request body is invalid: {error}")))
}

impl ExecuteBody {
    /// Converts the body of an execution in a new interpreter.
    pub(crate) fn fresh(mut self) -> Result<FreshExecution, Problem> {
        if self.state.is_some() {
            return Err(Problem::invalid(
                "`state` is supported only for sessions; send it to `/v1/sessions/execute`, or remove it",
            ));
        }
        let patterns = self.patterns()?;
        let policy = self.policy.take().map(|policy| policy_of(&policy)).transpose()?.unwrap_or_default();
        let runtime = runtime(self.language, self.runtime.take());
        let context = self.context.take().map(context_of).transpose()?;
        let files = self
            .files
            .take()
            .map(|files| files.into_iter().map(|(path, Bytes(bytes))| InputFile { path, bytes }).collect());
        Ok(FreshExecution { runtime, policy, request: Request { context, files, ..self.request()? }, patterns })
    }

    /// Converts the body of an execution in a session. The state can be at most `max_state_bytes` bytes long.
    pub(crate) fn in_session(mut self, max_state_bytes: usize) -> Result<SessionExecution, Problem> {
        let given = [
            ("language", self.language.is_some()),
            ("runtime", self.runtime.is_some()),
            ("files", self.files.is_some()),
            ("policy", self.policy.is_some()),
            ("context", self.context.is_some()),
        ];
        if let Some((name, _)) = given.into_iter().find(|(_, given)| *given) {
            return Err(Problem::invalid(format!(
                "`{name}` is not supported in a session; remove it, or execute outside a session"
            )));
        }
        let patterns = self.patterns()?;
        let state = self.state.take();
        let state = state.ok_or_else(|| {
            Problem::invalid("the request body has no `state`; send the state from the last response")
        })?;
        let too_large = || Problem::too_large(format!("`state` exceeds the maximum of {max_state_bytes} bytes"));
        // Four characters encode three bytes; the last four can encode up to two bytes fewer. A larger state is
        // rejected before it is decoded.
        if state.len() / 4 * 3 > max_state_bytes.saturating_add(2) {
            return Err(too_large());
        }
        let state = BASE64_STANDARD.decode(state).map_err(|error| Problem::invalid(format!("`state`: {error}")))?;
        if state.len() > max_state_bytes {
            return Err(too_large());
        }
        Ok(SessionExecution { state, request: self.request()?, patterns })
    }

    fn request(self) -> Result<Request, Problem> {
        if self.tools.is_some() {
            let detail = "`tools` are not supported: this server keeps no suspended executions; compose the provider with \
                          a component that implements the tools";
            return Err(Problem::unsupported(detail));
        }
        Ok(Request {
            source: self
                .source
                .ok_or_else(|| Problem::invalid("`source` is missing; set it to the script's source"))?,
            name: self.name,
            kind: self.kind.map(Into::into),
            stdin: self.stdin.map(|Bytes(stdin)| stdin),
            context: None,
            files: None,
            deadline_ms: self.deadline_ms,
        })
    }

    /// Takes the patterns for the files to return, and checks them.
    fn patterns(&mut self) -> Result<Vec<String>, Problem> {
        let patterns = self.return_files.take().unwrap_or_default();
        if let Some(message) = too_costly_patterns(&patterns) {
            return Err(Problem::invalid(message));
        }
        // Report an invalid pattern before anything runs.
        patterns
            .iter()
            .try_for_each(|pattern| glovebox_core::files::check_pattern(pattern))
            .map_err(|error| Problem::new(422, "file", error.to_string()))?;
        Ok(patterns)
    }
}

impl OpenBody {
    /// Converts the body of a request to open a session.
    pub(crate) fn open(self) -> Result<NewSession, Problem> {
        if self.id.is_some() {
            return Err(Problem::invalid("`id` is not supported: `state` identifies a session; remove `id`"));
        }
        let context = self.context.map(context_of).transpose()?;
        Ok(NewSession { runtime: runtime(self.language, self.runtime), context })
    }
}

/// Selects a runtime by name, or the default runtime of a language.
fn runtime(language: Option<Language>, name: Option<String>) -> Option<Runtime> {
    match (name, language) {
        (Some(name), _) => Some(Runtime::Named(name)),
        (None, Some(Language::Python)) => Some(Runtime::Python),
        (None, Some(Language::JavaScript)) => Some(Runtime::Javascript),
        (None, None) => None,
    }
}

/// Returns the text of a JSON value that is passed to a script. Fails if the value is nested too deeply.
fn context_of(raw: Box<RawValue>) -> Result<String, Problem> {
    let text = String::from(Box::<str>::from(raw));
    check_json(&text).map_err(|error| Problem::invalid(format!("`context`: {error}")))?;
    Ok(text)
}

fn policy_of(raw: &RawValue) -> Result<Map<String, Value>, Problem> {
    let bytes = raw.get().len();
    if bytes > MAX_POLICY_BYTES {
        return Err(Problem::invalid(format!(
            "`policy` is {bytes} bytes of JSON; the maximum is {MAX_POLICY_BYTES}; shorten it"
        )));
    }
    serde_json::from_str(raw.get()).map_err(|error| Problem::invalid(format!("`policy`: {error}")))
}

/// Bytes in JSON: a string for UTF-8 text, or `{"base64": …}` for any bytes.
#[derive(Debug, Deserialize)]
struct Bytes(#[serde(deserialize_with = "bytes_from_json")] Vec<u8>);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn execute(body: &Value) -> Result<ExecuteBody, Problem> {
        json(body.to_string().as_bytes())
    }

    fn fresh(body: &Value) -> Result<FreshExecution, String> {
        execute(body).and_then(ExecuteBody::fresh).map_err(|problem| format!("{}: {}", problem.kind, problem.detail))
    }

    #[test]
    fn body_becomes_the_script_request() {
        let FreshExecution { runtime, policy, request, patterns } = fresh(&json!({
            "source": "1", "language": "javascript", "kind": "module", "name": "a", "stdin": { "base64": "/w==" },
            "context": { "b": 1, "a": [1.0] }, "files": { "f": "text" }, "deadline_ms": 5, "policy": { "args": [] },
            "return_files": ["*"],
        }))
        .unwrap();
        assert_eq!(runtime, Some(Runtime::Javascript));
        assert_eq!((policy.len(), patterns), (1, vec!["*".to_owned()]));
        assert_eq!((request.source.as_str(), request.name.as_deref()), ("1", Some("a")));
        assert_eq!((request.kind, request.stdin), (Some(SourceKind::Module), Some(vec![0xff])));
        assert_eq!((request.context.as_deref(), request.deadline_ms), (Some(r#"{"a":[1.0],"b":1}"#), Some(5)));
        assert_eq!(request.files, Some(vec![InputFile { path: "f".into(), bytes: b"text".to_vec() }]));
        let named = fresh(&json!({ "source": "1", "language": "python", "runtime": "python-3.12" })).unwrap();
        assert_eq!(named.runtime, Some(Runtime::Named("python-3.12".into())));
        assert_eq!(fresh(&json!({ "source": "1" })).unwrap().runtime, None);
    }

    #[test]
    fn list_lengths_are_limited() {
        let files = |count: usize| json!({ "source": "1", "files": (0..count).map(|n| (n.to_string(), "")).collect::<BTreeMap<_, _>>() });
        assert_eq!(fresh(&files(10_000)).unwrap().request.files.map(|files| files.len()), Some(10_000));
        assert!(fresh(&files(10_001)).unwrap_err().contains("at most 10000 entries"));
        let patterns = |patterns: Vec<String>| fresh(&json!({ "source": "1", "return_files": patterns }));
        assert!(patterns(vec!["*".into(); 16]).is_ok());
        assert!(patterns(vec!["*".into(); 17]).unwrap_err().contains("at most 16 values"));
        assert!(patterns(vec!["x".repeat(1_024)]).is_ok());
        assert!(patterns(vec!["x".repeat(1_025)]).unwrap_err().contains("1025 bytes"));
        let policy = |length: usize| fresh(&json!({ "source": "1", "policy": { "args": ["x".repeat(length - 13)] } }));
        assert!(policy(MAX_POLICY_BYTES).is_ok());
        assert!(policy(MAX_POLICY_BYTES + 1).unwrap_err().contains("262145 bytes"));
    }

    #[test]
    fn state_size_is_limited() {
        let state = |bytes: usize| {
            let body = json!({ "source": "1", "state": BASE64_STANDARD.encode(vec![0; bytes]) });
            execute(&body).unwrap().in_session(1_000).map(|it| it.state.len()).map_err(|problem| problem.status)
        };
        assert_eq!((state(0), state(999), state(1_000)), (Ok(0), Ok(999), Ok(1_000)));
        assert_eq!((state(1_001), state(5_000)), (Err(413), Err(413)));
    }

    #[test]
    fn session_requests_reject_other_fields() {
        for name in ["language", "runtime", "files", "policy", "context"] {
            let value = match name {
                "language" => json!("python"),
                "files" => json!({}),
                _ => json!("x"),
            };
            let body = json!({ "source": "1", "state": "", name: value });
            let problem = execute(&body).unwrap().in_session(10).unwrap_err();
            assert!(problem.status == 400 && problem.detail.contains(name), "{problem:?}");
        }
    }
}
