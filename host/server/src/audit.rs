//! The audit log: one JSON line for each execution and each operation on a session.

use std::{
    fmt,
    io::{self, Write},
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use glovebox::{EscapedJson, Execution, Language, Outcome, Suspended, Timestamp, internal::Digest};
use serde::{Deserialize, Serialize};

use crate::{Door, ServiceError};

/// The configuration of the audit log.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct AuditTable {
    /// The file to append to. It is created if it does not exist.
    pub file: PathBuf,
    /// `true` to record the source of each script. Default: `false`, which records only the SHA-256.
    #[serde(default)]
    pub source: bool,
}

/// Maximum length of a recorded path, pattern, variable name or session name, in characters. Clients choose these
/// texts, so longer ones are truncated.
const MAX_OF_CHARS: usize = 256;
/// The recorded outcome of a successful operation.
const DONE: &str = "done";
/// The recorded outcome of an execution that was turned into bytes.
const SUSPENDED: &str = "suspended";

/// The reason why the audit log cannot be opened for appending.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the audit log `{}` for appending; choose another file", glovebox::escaped(.path))]
pub struct AuditError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// The audit log: one JSON line for each execution and each other operation on a session, written before the response
/// is sent. Operations that only list sessions, checkpoints or variables, or describe a session, are not recorded. A
/// line names the tenant, the front end and the outcome. The line of an execution also contains the fuel used, the
/// SHA-256 of the source and, with `with_source`, the source itself.
///
/// An execution that is turned into bytes has the outcome `suspended`, and the SHA-256 of the bytes as
/// `suspended_sha256`. The execution that resumes the bytes has the same hash as `resumed_sha256`.
pub struct Audit {
    out: Mutex<Box<dyn Write + Send>>,
    with_source: bool,
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").field("with_source", &self.with_source).finish_non_exhaustive()
    }
}

/// An operation on a session other than an execution.
#[derive(Debug)]
pub(crate) struct AuditAction {
    name: &'static str,
    of: Option<String>,
}

impl AuditAction {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, of: None }
    }

    /// Sets the variable, file or session that the operation affects.
    pub(crate) fn of(self, of: &str) -> Self {
        Self { of: Some(of.chars().take(MAX_OF_CHARS).collect()), ..self }
    }

    pub(crate) fn finish(self, error: Option<&ServiceError>) -> FinishedAction {
        FinishedAction { action: self.name, of: self.of, outcome: error.map_or(DONE, ServiceError::code) }
    }
}

/// An operation on a session and its outcome: `done` or an error code.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FinishedAction {
    action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<String>,
    outcome: &'static str,
}

/// The audit line of a session operation.
#[derive(Serialize)]
struct ActionLine<'a> {
    time: Timestamp,
    tenant: &'a str,
    door: &'static str,
    session: Option<&'a str>,
    #[serde(flatten)]
    action: &'a FinishedAction,
}

/// Tenant, front end and session of an audited request.
pub(crate) struct AuditSubject<'a> {
    pub(crate) door: Door,
    pub(crate) tenant: &'a str,
    pub(crate) session: Option<&'a str>,
}

/// The script of an audited execution.
#[derive(Default, Serialize)]
pub(crate) struct AuditSource {
    /// `None` if the bytes of a suspended execution contain no source, because they are damaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    source_sha256: Option<String>,
    /// The source text, if configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    /// The hash of the suspended execution that is resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    resumed_sha256: Option<String>,
}

/// The audit line of an execution.
#[derive(Serialize)]
struct ExecutionLine<'a> {
    time: Timestamp,
    tenant: &'a str,
    door: &'static str,
    action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a str>,
    #[serde(flatten)]
    source: &'a AuditSource,
    outcome: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    suspended_sha256: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    runtime: Option<&'a str>,
    fuel: u64,
    duration_ms: f64,
}

impl Audit {
    /// Opens a file for appending, and creates it if necessary. On Unix, only the current user can read a new file
    /// (mode 0600).
    ///
    /// # Errors
    /// Fails if the file cannot be opened.
    pub fn file(path: PathBuf, with_source: bool) -> Result<Self, AuditError> {
        let mut options = std::fs::OpenOptions::new();
        options.create(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&path).map(|file| Self::new(file, with_source)).map_err(|source| AuditError { path, source })
    }

    /// Creates an audit log that writes its lines to `out`.
    ///
    /// If `with_source` is set, also records each script's source, not only its SHA-256.
    pub fn new(out: impl Write + Send + 'static, with_source: bool) -> Self {
        Self { out: Mutex::new(Box::new(out)), with_source }
    }

    pub(crate) fn source(&self, source: &str) -> AuditSource {
        let text = self.with_source.then(|| source.to_owned());
        AuditSource { source_sha256: Some(sha256(source)), source: text, resumed_sha256: None }
    }

    /// Describes a suspended execution that is resumed. Hashing may take a tenth of a second. If the execution is
    /// rejected later, the recorded source comes from unverified bytes.
    pub(crate) fn resumed(&self, suspended: &[u8]) -> AuditSource {
        let source = Suspended::peek(suspended).map(|peek| self.source(peek.source));
        AuditSource { resumed_sha256: Some(sha256(suspended)), ..source.unwrap_or_default() }
    }

    /// Records the end of an execution: its result, its suspension as bytes, or an error code.
    pub(crate) fn write(&self, subject: &AuditSubject<'_>, source: &AuditSource, ended: &ExecutionEnd) {
        let executed = ended.as_ref().ok();
        let (outcome, suspended_sha256) = match ended {
            Ok(executed) => (executed.outcome, &executed.suspended_sha256),
            Err(failed) => (failed.code, &failed.suspended_sha256),
        };
        let line = ExecutionLine {
            time: Timestamp::now(),
            tenant: subject.tenant,
            door: subject.door.name(),
            action: "execute",
            session: subject.session,
            source,
            outcome,
            suspended_sha256: suspended_sha256.as_deref(),
            runtime: executed.map(|executed| &*executed.runtime),
            fuel: executed.map_or(0, |executed| executed.fuel),
            duration_ms: executed.map_or(0.0, |executed| executed.duration_ms),
        };
        self.append(&line);
    }

    /// Records an operation on a session.
    pub(crate) fn record(&self, subject: &AuditSubject<'_>, action: &FinishedAction) {
        let AuditSubject { door, tenant, session } = *subject;
        self.append(&ActionLine { time: Timestamp::now(), tenant, door: door.name(), session, action });
    }

    fn append(&self, line: &impl Serialize) {
        let mut text = Vec::new();
        // Variable names, file names and sources are untrusted.
        let serialized = line.serialize(&mut serde_json::Serializer::with_formatter(&mut text, EscapedJson));
        let written = serialized.map_err(io::Error::from).and_then(|()| {
            text.push(b'\n');
            let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
            // A single write, because other processes may append to the same file.
            out.write_all(&text)?;
            out.flush()
        });
        if let Err(error) = written {
            tracing::error!(target: "glovebox", %error, "cannot write the audit log");
        }
    }
}

/// The recorded result of an execution.
#[derive(Clone, Debug)]
pub(crate) struct AuditedResult {
    pub(crate) language: Language,
    pub(crate) runtime: String,
    pub(crate) outcome: &'static str,
    pub(crate) fuel: u64,
    pub(crate) duration_ms: f64,
    /// The hash of the suspended execution's bytes.
    suspended_sha256: Option<String>,
}

/// Returns the SHA-256 in hexadecimal.
fn sha256(bytes: impl AsRef<[u8]>) -> String {
    Digest::of(bytes.as_ref()).to_string()
}

impl AuditedResult {
    /// Sets the bytes of the suspended execution. Hashing them may take a tenth of a second.
    pub(crate) fn suspended(self, bytes: &[u8]) -> Self {
        Self { outcome: SUSPENDED, suspended_sha256: Some(sha256(bytes)), ..self }
    }
}

impl From<&Execution> for AuditedResult {
    fn from(execution: &Execution) -> Self {
        Self {
            language: execution.metadata.runtime,
            runtime: execution.metadata.runtime_name.clone(),
            outcome: outcome_name(&execution.outcome),
            fuel: execution.fuel_consumed,
            duration_ms: execution.duration.as_secs_f64() * 1e3,
            suspended_sha256: None,
        }
    }
}

/// An execution without a result: it failed, or its result was lost.
#[derive(Clone, Debug)]
pub(crate) struct AuditedFailure {
    pub(crate) code: &'static str,
    /// The hash of the suspended execution's bytes.
    suspended_sha256: Option<String>,
}

impl AuditedFailure {
    /// Describes an execution that was turned into bytes, and whose result was lost. Hashing the bytes may take a tenth
    /// of a second.
    pub(crate) fn suspended(bytes: &[u8]) -> Self {
        Self { code: SUSPENDED, suspended_sha256: Some(sha256(bytes)) }
    }

    /// Returns `true` if the execution was turned into bytes.
    pub(crate) fn is_suspended(&self) -> bool {
        self.suspended_sha256.is_some()
    }
}

impl From<&ServiceError> for AuditedFailure {
    fn from(error: &ServiceError) -> Self {
        Self { code: error.code(), suspended_sha256: None }
    }
}

pub(crate) type ExecutionEnd = Result<AuditedResult, AuditedFailure>;

/// Returns the name of an outcome in audit lines, metrics and the results of MCP tools.
pub(crate) fn outcome_name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Completed => "completed",
        Outcome::Exited { .. } => "exited",
        Outcome::Raised(_) => "raised",
        Outcome::Exhausted { .. } => "exhausted",
        Outcome::Cancelled => "cancelled",
        Outcome::Trapped { .. } => "trapped",
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{self, Write},
        sync::{Arc, Mutex},
    };

    use serde_json::Value;

    use super::{Audit, AuditAction, AuditSource, AuditSubject, AuditedFailure, AuditedResult};
    use crate::{Door, ServiceError};

    #[derive(Clone, Default)]
    struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

    impl Write for SharedBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn names_and_source_are_escaped_in_audit_lines() {
        let hostile = "a\n{}\r\u{1b}[2J\u{7f}\u{85}\u{9b}\u{2028}\u{202e}\u{e0041}";
        let out = SharedBuffer::default();
        let audit = Audit::new(out.clone(), true);
        let subject = AuditSubject { door: Door::Http, tenant: "me", session: Some(hostile) };
        audit.record(&subject, &AuditAction::new("read-file").of(hostile).finish(None));
        let executed = AuditedResult {
            language: glovebox::Language::Python,
            runtime: hostile.to_owned(),
            outcome: "completed",
            fuel: 1,
            duration_ms: 1.0,
            suspended_sha256: None,
        };
        audit.write(&subject, &audit.source(hostile), &Ok(executed));
        let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
        assert!(!text.replace('\n', "").chars().any(glovebox::is_hidden), "{text}");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!((&lines[0]["of"], &lines[1]["source"]), (&hostile.into(), &hostile.into()));
    }

    #[test]
    fn execution_whose_result_was_lost_is_suspended_if_its_bytes_exist() {
        let out = SharedBuffer::default();
        let audit = Audit::new(out.clone(), false);
        let subject = AuditSubject { door: Door::Http, tenant: "me", session: None };
        let failed = AuditedFailure::from(&ServiceError::WorkerDied);
        assert_eq!((failed.is_suspended(), AuditedFailure::suspended(b"x").is_suspended()), (false, true));
        audit.write(&subject, &audit.source("1"), &Err(failed));
        audit.write(&subject, &audit.source("1"), &Err(AuditedFailure::suspended(b"x")));
        let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&lines[0]["outcome"], &lines[1]["outcome"]), (&"worker-died".into(), &"suspended".into()));
        let sha256 = super::sha256("x");
        assert_eq!((&lines[0]["suspended_sha256"], &lines[1]["suspended_sha256"]), (&Value::Null, &sha256.into()));
    }

    #[test]
    fn damaged_bytes_of_a_suspended_execution_have_no_source() {
        let audit = Audit::new(SharedBuffer::default(), true);
        let AuditSource { source_sha256, source, resumed_sha256 } = audit.resumed(b"GLOVESUS");
        assert_eq!((source_sha256, source, resumed_sha256), (None, None, Some(super::sha256("GLOVESUS"))));
    }
}
