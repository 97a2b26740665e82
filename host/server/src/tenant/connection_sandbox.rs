//! Sandboxes and in-memory sessions that belong to a single connection, with tools that its client defines.

use glovebox::{
    Diagnostic, Execution, HibernateError, HibernateOptions, JsonText, Language, ResumeOptions, Sandbox, Session,
    SessionOptions, Tool,
};
use glovebox_sessions::{SessionId, SessionsError};
use serde_json::{Map, Value};

use super::{Fresh, Script, Tenant, Watch};
use crate::{Door, ServiceError};

/// The settings for a new sandbox.
#[derive(Debug, Default)]
pub struct NewSandbox {
    /// The language. Default: the language of the runtime, or of the first served runtime.
    pub language: Option<Language>,
    /// The runtime's name or alias. Default: the default runtime of the language.
    pub runtime: Option<String>,
    /// Initial files of each new workspace, as paths and contents.
    pub files: Vec<(String, Vec<u8>)>,
    /// Changes to the tenant's policy. The keys are policy keys.
    pub policy: Map<String, Value>,
    /// Tools that scripts can call in addition to the tenant's tools.
    pub tools: Vec<Tool>,
}

/// A sandbox of one connection, with additional tools. Cheap to clone.
#[derive(Clone, Debug)]
pub struct OwnSandbox {
    tenant: Tenant,
    sandbox: Sandbox,
}

/// An in-memory session of one connection. It ends when its last handle is dropped.
#[derive(Clone, Debug)]
pub struct OwnSession {
    tenant: Tenant,
    session: Session,
    id: SessionId,
}

impl Tenant {
    /// Creates a sandbox with the tenant's policy and the changes in `new`.
    ///
    /// # Errors
    /// Fails if a change exceeds the granted policy, if the service does not serve the runtime, or if a tool is
    /// invalid.
    pub async fn own_sandbox(&self, new: NewSandbox) -> Result<OwnSandbox, ServiceError> {
        self.work(None, move |tenant| {
            let NewSandbox { language, runtime, files, policy, tools } = new;
            let mut fresh = Fresh { language, runtime, files, policy, ..Fresh::default() };
            let sandbox = tenant.here().sandbox(&mut fresh)?.with_tools(&tools)?;
            Ok(OwnSandbox { tenant: tenant.clone(), sandbox })
        })
        .await
    }
}

impl OwnSandbox {
    /// Returns the language of the sandbox's scripts.
    #[must_use]
    pub fn language(&self) -> Language {
        self.sandbox.language()
    }

    /// Returns the name of the sandbox's runtime.
    #[must_use]
    pub fn runtime_name(&self) -> &str {
        self.sandbox.runtime_name()
    }

    /// Returns the interpreter's version, if known.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.sandbox.version()
    }

    /// Opens a session.
    ///
    /// # Errors
    /// Fails if the engine's session limit is reached, or if the guest rejects the context.
    pub async fn open(&self, options: SessionOptions) -> Result<OwnSession, ServiceError> {
        let id = SessionId::random();
        let options = options.id(id.to_string());
        self.session(id, move |sandbox| Ok(sandbox.open_session(options)?)).await
    }

    /// Restores a session from the bytes that [`OwnSession::hibernate`] returned.
    ///
    /// # Errors
    /// Fails if the bytes are not a hibernated session, or if this sandbox cannot resume it.
    pub async fn resume(&self, state: Vec<u8>) -> Result<OwnSession, ServiceError> {
        let id = SessionId::random();
        let mut options = ResumeOptions::default();
        options.id = Some(id.to_string());
        let named = id.clone();
        self.session(id, move |sandbox| {
            let resumed = sandbox.resume(&state, options);
            Ok(resumed.map_err(|source| SessionsError::Resume { id: named, source: Box::new(source) })?)
        })
        .await
    }

    async fn session(
        &self,
        id: SessionId,
        make: impl FnOnce(&Sandbox) -> Result<Session, ServiceError> + Send + 'static,
    ) -> Result<OwnSession, ServiceError> {
        let sandbox = self.sandbox.clone();
        let session = self.tenant.work(None, move |_| make(&sandbox)).await?;
        Ok(OwnSession { tenant: self.tenant.clone(), session, id })
    }

    /// Runs a script in a new interpreter. Maps the result with `then` on a blocking thread.
    ///
    /// # Errors
    /// Fails if the script cannot be run or `then` fails.
    pub async fn execute_then<T: Send + 'static>(
        &self,
        door: Door,
        script: Script,
        watch: Watch,
        then: impl FnOnce(Execution) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let sandbox = self.sandbox.clone();
        self.tenant.run_here(door, None, script, watch, move |request| Ok(sandbox.run(request)?), then).await
    }

    /// Checks a script's syntax with the parser of its language, without running it.
    ///
    /// # Errors
    /// Fails if the parser cannot be run. Syntax errors are returned as diagnostics.
    pub async fn validate(&self, mut script: Script) -> Result<Vec<Diagnostic>, ServiceError> {
        let sandbox = self.sandbox.clone();
        self.tenant.work(None, move |_| Ok(sandbox.validate_request(script.request())?)).await
    }
}

impl OwnSession {
    /// Returns the session's ID.
    #[must_use]
    pub fn id(&self) -> &str {
        self.session.id()
    }

    /// Runs a script in the session. Maps the result with `then` on a blocking thread.
    ///
    /// # Errors
    /// Fails if the script cannot be run or `then` fails.
    pub async fn execute_then<T: Send + 'static>(
        &self,
        door: Door,
        script: Script,
        watch: Watch,
        then: impl FnOnce(Execution) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let session = self.session.clone();
        self.tenant.run_here(door, Some(&self.id), script, watch, move |request| Ok(session.run(request)?), then).await
    }

    /// Performs an operation on the session other than running a script. `ask` runs on a blocking thread.
    ///
    /// # Errors
    /// Fails if the operation is not admitted or `ask` fails.
    pub async fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Session) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let session = self.session.clone();
        self.tenant.work(Some(&self.id), move |_| ask(&session)).await
    }

    /// Sets the global variable `context` in the session.
    ///
    /// # Errors
    /// Fails if the guest rejects the value.
    pub async fn set_context(&self, context: JsonText) -> Result<(), ServiceError> {
        self.ask(move |session| Ok(session.set_variable_text("context", &context)?)).await
    }

    /// Forks the session into an independent copy.
    ///
    /// # Errors
    /// Fails if the engine's session limit is reached.
    pub async fn fork(&self) -> Result<Self, ServiceError> {
        let id = SessionId::random();
        let options = SessionOptions::default().id(id.to_string());
        let session = self.ask(move |session| Ok(session.fork_with(options)?)).await?;
        Ok(Self { tenant: self.tenant.clone(), session, id })
    }

    /// Serializes the session for [`OwnSandbox::resume`]. The bytes are not sealed.
    ///
    /// # Errors
    /// Fails if the session has ended or cannot be serialized.
    pub async fn hibernate(&self) -> Result<Vec<u8>, ServiceError> {
        self.ask(|session| session.hibernate(&HibernateOptions::default()).map_err(unhibernated)).await
    }
}

fn unhibernated(error: HibernateError) -> ServiceError {
    match error {
        HibernateError::Session(error) => error.into(),
        error => ServiceError::Invalid(glovebox::with_causes(&error)),
    }
}
